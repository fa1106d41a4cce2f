/* SPDX-License-Identifier: MIT */
#include "cli/launch_audio.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "cli/launch_ffprobe.h"

#define MOST_SECONDS 1e9

/* As in sndfile.h; unchanged since libsndfile.so.1. */
#define SNDFILE_LIBRARY "libsndfile.so.1"
#define SNDFILE_READ    0x10

struct sndfile_info {
	int64_t frames;
	int samplerate, channels, format, sections, seekable;
};

static struct {
	void *(*open_fd)(int fd, int mode, struct sndfile_info *info, int close_fd);
	int (*close)(void *file);
} sndfile;

/* dlsym() returns a function as an object pointer; only memcpy() converts it without a warning. */
static bool find(void *library, const char *symbol, void *ret_function)
{
	void *address = dlsym(library, symbol);
	memcpy(ret_function, &address, sizeof(address));
	return address != NULL;
}

/* Never unloaded: other threads may be executing its code. */
static void load(void)
{
	void *library = dlopen(SNDFILE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (library && find(library, "sf_close", &sndfile.close))
		find(library, "sf_open_fd", &sndfile.open_fd);
}

static int ask_sndfile(const char *path, double *ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, load);
	/* Opens the file here, because sf_open() does not support O_CLOEXEC. */
	struct stat st;
	cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (!sndfile.open_fd)
		return -ENOPKG;
	struct sndfile_info info = {0};
	void *file = sndfile.open_fd(fd, SNDFILE_READ, &info, 0);
	if (!file)
		return -ENODATA;
	double seconds = info.samplerate > 0 && info.frames >= 0 ? (double)info.frames / info.samplerate : -1;
	sndfile.close(file);
	/* Headers of truncated streams may contain an absurd duration. */
	if (seconds < 0 || seconds >= MOST_SECONDS)
		return -ENODATA;
	*ret = seconds;
	return 0;
}

int launch_audio_seconds(void *context, const char *path, double *ret)
{
	(void)context;
	int r = ask_sndfile(path, ret);
	/* Not a regular file, or it cannot be opened: ffprobe would not help. */
	if (r != -ENODATA && r != -ENOPKG)
		return r;
	int other = launch_ffprobe_seconds(path, ret);
	return other == -ENOPKG ? r : other;
}
