/* SPDX-License-Identifier: MIT */
#include "audio.h"

#include <errno.h>
#include <fcntl.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ffmpeg.h"
#include "resample.h"

#define BLOCK 4096 /* frames */

struct audio {
	int fd;
	SNDFILE *file; /* NULL: ffmpeg decodes */
	struct ffmpeg ffmpeg;
	size_t ahead; /* samples in `mono` that were read from ffmpeg when it was opened */
	SF_INFO info;
	struct resampler *resampler; /* NULL: the file already has the right rate */
	float *frames;               /* as in the file */
	float *mono;
	float *out;
	sf_count_t read;
	int ended;
};

static int open_file(const char *path, char *words, size_t room)
{
	/* O_NONBLOCK: opening a named pipe would wait. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int error = fd < 0 || fstat(fd, &st) < 0 ? errno : 0;
	if (!error && !S_ISREG(st.st_mode))
		error = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
	if (!error && st.st_size == 0) {
		snprintf(words, room, "the file is empty");
		close(fd);
		return -ENODATA;
	}
	if (!error)
		return fd;
	snprintf(words, room, "cannot open the file: %s", strerror(error));
	if (fd >= 0)
		close(fd);
	return -error;
}

static int prepare(struct audio *a, char *words, size_t room)
{
	if (a->info.samplerate != AUDIO_RATE) {
		int r = a->info.samplerate <= 0
				? -EINVAL
				: resampler_create((unsigned)a->info.samplerate, AUDIO_RATE, &a->resampler);
		if (r == -EINVAL)
			snprintf(words, room, "a sample rate of %d Hz is not supported", a->info.samplerate);
		if (r < 0)
			return r;
	}
	size_t most = a->resampler ? resampler_room(a->resampler, BLOCK) : BLOCK;
	a->frames = calloc((size_t)BLOCK * (size_t)a->info.channels, sizeof(float));
	a->mono = calloc(BLOCK, sizeof(float));
	a->out = calloc(most, sizeof(float));
	return a->frames && a->mono && a->out ? 0 : -ENOMEM;
}

/* For formats that libsndfile cannot read. Reading the first samples shows whether ffmpeg can. */
static int open_with_ffmpeg(struct audio *a, char *words, size_t room)
{
	char why[128];
	snprintf(why, sizeof(why), "%s", sf_strerror(NULL));
	why[strcspn(why, "\n")] = '\0';
	if (why[0] && why[strlen(why) - 1] == '.') /* more text follows */
		why[strlen(why) - 1] = '\0';
	a->info = (SF_INFO){.samplerate = AUDIO_RATE, .channels = 1};
	int r = ffmpeg_open(&a->ffmpeg, a->fd, AUDIO_RATE);
	if (r == -ENOENT) {
		snprintf(words, room,
			"not a readable recording: %s (ffmpeg, which reads more formats, is not installed)", why);
		return -EBADMSG;
	}
	if (r == 0)
		r = prepare(a, words, room);
	long n = r < 0 ? r : ffmpeg_read(&a->ffmpeg, a->mono, BLOCK);
	if (n > 0) {
		a->ahead = (size_t)n;
		return 0;
	}
	snprintf(words, room, "not a readable recording: %s, and ffmpeg finds no sound in it", why);
	return -EBADMSG;
}

int audio_open(const char *path, struct audio **ret, char *words, size_t room)
{
	snprintf(words, room, "out of memory");
	struct audio *a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	int r = a->fd = open_file(path, words, room);
	if (r < 0) {
		free(a);
		return r;
	}
	/* libsndfile closes its descriptor if it cannot read the file. */
	int copy = fcntl(a->fd, F_DUPFD_CLOEXEC, 3);
	a->file = copy < 0 ? NULL : sf_open_fd(copy, SFM_READ, &a->info, 1);
	r = a->file ? prepare(a, words, room) : open_with_ffmpeg(a, words, room);
	if (r < 0) {
		audio_close(a);
		return r;
	}
	*ret = a;
	return 0;
}

void audio_close(struct audio *a)
{
	if (a->file)
		sf_close(a->file);
	close(a->fd);
	ffmpeg_close(&a->ffmpeg);
	resampler_destroy(a->resampler);
	free(a->frames);
	free(a->mono);
	free(a->out);
	free(a);
}

double audio_seconds(const struct audio *a)
{
	sf_count_t frames = a->ended ? a->read : a->info.frames;
	return (double)frames / a->info.samplerate;
}

static void mix_down(struct audio *a, size_t count)
{
	size_t channels = (size_t)a->info.channels;
	for (size_t i = 0; i < count; i++) {
		float sum = 0;
		for (size_t c = 0; c < channels; c++)
			sum += a->frames[i * channels + c];
		a->mono[i] = sum / (float)channels;
	}
}

static long read_ffmpeg(struct audio *a, const float **ret)
{
	long n = (long)a->ahead;
	a->ahead = 0;
	if (n == 0)
		n = ffmpeg_read(&a->ffmpeg, a->mono, BLOCK);
	if (n < 0)
		return n;
	a->read += n;
	a->ended = n == 0;
	*ret = a->mono;
	return n;
}

long audio_read(struct audio *a, const float **ret)
{
	if (!a->file)
		return a->ended ? 0 : read_ffmpeg(a, ret);
	while (!a->ended) {
		sf_count_t n = sf_readf_float(a->file, a->frames, BLOCK);
		if (n < 0 || sf_error(a->file))
			return -EIO;
		a->read += n;
		a->ended = n == 0;
		mix_down(a, (size_t)n);
		size_t given = (size_t)n;
		if (a->resampler)
			given = n ? resampler_put(a->resampler, a->mono, (size_t)n, a->out)
				  : resampler_finish(a->resampler, a->out);
		*ret = a->resampler ? a->out : a->mono;
		if (given)
			return (long)given;
	}
	return 0;
}
