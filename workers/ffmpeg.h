/* SPDX-License-Identifier: MIT */
/* A recording that libsndfile cannot read, decoded by ffmpeg: one process, which writes mono samples to a pipe. */
#ifndef WORKERS_FFMPEG_H
#define WORKERS_FFMPEG_H

#include <stddef.h>
#include <sys/types.h>

struct ffmpeg {
	pid_t pid; /* 0: none */
	int fd;
	size_t left; /* bytes of an incomplete sample */
	unsigned char rest[sizeof(float)];
};

/*
 * Starts ffmpeg with this output sample rate. file_fd: the recording, a regular file, which ffmpeg opens again through
 * the descriptor: another file, such as a pipe, may have its name now. -ENOENT: ffmpeg is not installed.
 */
int ffmpeg_open(struct ffmpeg *f, int file_fd, int rate);
/* Reads up to `count` samples; 0: the end; -EIO: ffmpeg failed; the worker's log has its messages. */
long ffmpeg_read(struct ffmpeg *f, float *samples, size_t count);
/* Ends ffmpeg if it still runs. */
void ffmpeg_close(struct ffmpeg *f);

#endif
