/* SPDX-License-Identifier: MIT */
#include "cli/launch_audio.h"

#include <fcntl.h>
#include <sndfile.h>

#include "base/cleanup.h"

#define MOST_SECONDS 1e9

double launch_audio_seconds(void *context, const char *path)
{
	(void)context;
	/* By descriptor, for workers are being forked meanwhile: sf_open() knows no O_CLOEXEC. */
	cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -1;
	SF_INFO info = {0};
	SNDFILE *file = sf_open_fd(fd, SFM_READ, &info, SF_FALSE);
	if (!file)
		return -1;
	double seconds = info.samplerate > 0 && info.frames >= 0 ? (double)info.frames / info.samplerate : -1;
	sf_close(file);
	/* Headers of streams that were cut say "to the end of time". */
	return seconds < MOST_SECONDS ? seconds : -1;
}
