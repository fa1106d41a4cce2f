/* SPDX-License-Identifier: MIT */
#include "cli/launch_audio.h"

#include <errno.h>
#include <fcntl.h>
#include <sndfile.h>

#include "base/cleanup.h"

#define MOST_SECONDS 1e9

int launch_audio_seconds(void *context, const char *path, double *ret)
{
	(void)context;
	/* By descriptor, for workers are being forked meanwhile: sf_open() knows no O_CLOEXEC. */
	cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	SF_INFO info = {0};
	SNDFILE *file = sf_open_fd(fd, SFM_READ, &info, SF_FALSE);
	if (!file)
		return -ENODATA;
	double seconds = info.samplerate > 0 && info.frames >= 0 ? (double)info.frames / info.samplerate : -1;
	sf_close(file);
	/* Headers of streams that were cut say "to the end of time". */
	if (seconds < 0 || seconds >= MOST_SECONDS)
		return -ENODATA;
	*ret = seconds;
	return 0;
}
