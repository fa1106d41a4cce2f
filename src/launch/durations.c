/* SPDX-License-Identifier: MIT */
#include "launch/durations.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "launch/workload.h"

#define UNKNOWN   (-1)
#define NOT_ASKED (-2)

struct durations {
	const char *folder;
	const struct gd_found **files;
	size_t *order;
	size_t count;
	gd_seconds_reader *reader;
	void *context;
	_Atomic int64_t *microseconds; /* by file */
	atomic_size_t asked;
	atomic_bool stop;
	pthread_t thread;
};

/* Seconds of one file below `folder`; -1: unknown. `path` is a buffer, reused from file to file. */
static double read_one(
	const char *folder, const struct gd_found *file, gd_seconds_reader *reader, void *context, struct text *path)
{
	text_clear(path);
	text_append_string(path, folder);
	text_append_char(path, '/');
	text_append_string(path, file->path);
	double seconds;
	if (text_error(path) || path->length >= PATH_MAX || reader(context, text_string(path), &seconds) < 0)
		return UNKNOWN;
	return seconds >= 0 ? seconds : UNKNOWN;
}

size_t gd_files_read_seconds(struct gd_files *files, gd_seconds_reader *reader, void *context)
{
	size_t learned = 0;
	cleanup_(text_finish) struct text path = {0};
	for (size_t i = 0; i < files->count; i++) {
		struct gd_found *f = (struct gd_found *)files->files[i]; /* ours; const for the caller only */
		if (found_has_seconds(f))
			continue;
		double seconds = read_one(files->folder, f, reader, context, &path);
		if (seconds >= 0) {
			found_set_seconds(f, seconds);
			learned++;
		}
	}
	return learned;
}

/* ---- In a thread -------------------------------------------------------- */

static void *read_all(void *arg)
{
	struct durations *d = arg;
	cleanup_(text_finish) struct text path = {0};
	for (size_t k = 0; k < d->count && !atomic_load(&d->stop); k++) {
		size_t i = d->order[k];
		int64_t expected = NOT_ASKED;
		double seconds = -1;
		if (atomic_load(&d->microseconds[i]) == NOT_ASKED)
			seconds = read_one(d->folder, d->files[i], d->reader, d->context, &path);
		bool known = seconds >= 0 && seconds < 1e12;
		atomic_compare_exchange_strong(
			&d->microseconds[i], &expected, known ? (int64_t)(seconds * 1e6) : UNKNOWN);
		atomic_store(&d->asked, k + 1);
	}
	return NULL;
}

/* Signals go to the threads of the host program. */
static int start_thread(struct durations *d)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = -pthread_create(&d->thread, NULL, read_all, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static void free_durations(struct durations *d)
{
	free(d->files);
	free(d->order);
	free(d->microseconds);
	free(d);
}

int durations_start(const char *folder, const struct gd_found *const *files, const size_t *order, size_t count,
	gd_seconds_reader *reader, void *context, struct durations **ret)
{
	struct durations *d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	*d = (struct durations){folder, NULL, NULL, count, reader, context, NULL, 0, false, 0};
	d->files = calloc(count + 1, sizeof(*d->files));
	d->order = calloc(count + 1, sizeof(*d->order));
	d->microseconds = calloc(count + 1, sizeof(*d->microseconds));
	int r = d->files && d->order && d->microseconds ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < count; i++) {
		d->files[i] = files[i];
		d->order[i] = order[i];
		const struct gd_found *f = files[i];
		int64_t at_first = f->size_bytes == 0 ? UNKNOWN : NOT_ASKED;
		atomic_init(&d->microseconds[i], found_has_seconds(f) ? (int64_t)(f->seconds * 1e6) : at_first);
	}
	if (r == 0)
		r = start_thread(d);
	if (r < 0) {
		free_durations(d);
		return r;
	}
	*ret = d;
	return 0;
}

void durations_stop(struct durations *d)
{
	if (!d)
		return;
	atomic_store(&d->stop, true);
	pthread_join(d->thread, NULL);
	free_durations(d);
}

size_t durations_asked(const struct durations *d)
{
	return atomic_load(&d->asked);
}

bool durations_is_over(const struct durations *d)
{
	return durations_asked(d) == d->count;
}

size_t durations_file(const struct durations *d, size_t k)
{
	return d->order[k];
}

double durations_get(const struct durations *d, size_t file)
{
	int64_t us = atomic_load(&d->microseconds[file]);
	return us < 0 ? (double)us : (double)us / 1e6;
}

void durations_known(struct durations *d, size_t file, double seconds)
{
	atomic_store(&d->microseconds[file], seconds >= 0 && seconds < 1e12 ? (int64_t)(seconds * 1e6) : UNKNOWN);
}
