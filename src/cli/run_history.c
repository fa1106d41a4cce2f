/* SPDX-License-Identifier: MIT */
#include "cli/run_history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/line_reader.h"
#include "base/lock.h"
#include "base/state_dir.h"

#define FOLDER     "run_history"
#define NEWER      "ended.jsonl"
#define OLDER      "older.jsonl"
#define MAX_BYTES  (512 << 10) /* limit of each of the two files */
#define LINE_BYTES (1 << 20)

static int open_to_append(int dir_fd)
{
	int fd = openat(
		dir_fd, NEWER, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	return file_above_stdio(fd < 0 ? -errno : fd);
}

/* Two runs that end at the same time must not both replace the older file. */
static int make_room(int dir_fd)
{
	struct stat st;
	cleanup_(closep) int lock =
		openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	int r = lock < 0 ? -errno : 0;
	if (r == 0) {
		lock_protect(lock);
		r = lock_try(lock);
	}
	if (r == -EAGAIN)
		return 0; /* another run does it */
	if (r < 0 || fstatat(dir_fd, NEWER, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_size < MAX_BYTES)
		return r;
	return renameat(dir_fd, NEWER, dir_fd, OLDER) < 0 ? -errno : 0;
}

void run_history_add(const struct view_run *run)
{
	cleanup_(text_finish) struct text line = {0};
	cleanup_(closep) int dir_fd = -1;
	run_file_format(&line, run);
	if (text_error(&line) || state_dir_open_part(FOLDER, true, &dir_fd) < 0 || make_room(dir_fd) < 0)
		return;
	cleanup_(closep) int fd = open_to_append(dir_fd);
	if (fd >= 0)
		(void)file_write_all(fd, line.data, line.length); /* see run_history.h */
}

/* ---- Reading ------------------------------------------------------------------ */

static int keep(struct run_history *h, size_t *capacity, const char *line, size_t size, int64_t since_ms)
{
	struct run_text run;
	int r = run_file_parse(line, size, &run);
	if (r < 0)
		return r == -ENOMEM ? r : 0; /* truncated, or of another version */
	if (run.run.end_ms <= 0 || run.run.end_ms < since_ms) {
		run_text_finish(&run);
		return 0;
	}
	if (array_reserve(h->runs, capacity, h->count + 1) < 0) {
		run_text_finish(&run);
		return -ENOMEM;
	}
	h->runs[h->count++] = run;
	return 0;
}

static int read_file(struct run_history *h, size_t *capacity, int dir_fd, const char *name, int64_t since_ms)
{
	cleanup_(closep) int fd = file_open_regular(dir_fd, name, O_NOFOLLOW);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	cleanup_(line_reader_finish) struct line_reader lines = {.fd = fd, .max_bytes = LINE_BYTES};
	const char *line;
	ssize_t size;
	int r = 0;
	while (r == 0 && (size = line_reader_next(&lines, &line)) > 0)
		r = keep(h, capacity, line, (size_t)size, since_ms);
	return r == 0 && size < 0 ? (int)size : r;
}

static int by_start(const void *a, const void *b)
{
	const struct run_text *x = a, *y = b;
	return (x->run.start_ms > y->run.start_ms) - (x->run.start_ms < y->run.start_ms);
}

int run_history_read(int64_t since_ms, struct run_history *ret)
{
	struct run_history h = {0};
	size_t capacity = 0;
	cleanup_(closep) int dir_fd = -1;
	int r = state_dir_open_part(FOLDER, false, &dir_fd);
	if (r == 0)
		r = read_file(&h, &capacity, dir_fd, OLDER, since_ms);
	if (r == 0)
		r = read_file(&h, &capacity, dir_fd, NEWER, since_ms);
	if (r < 0 && r != -ENOENT) {
		run_history_finish(&h);
		return r;
	}
	if (h.count)
		qsort(h.runs, h.count, sizeof(*h.runs), by_start);
	/* The array has moved since the runs were read. */
	for (size_t i = 0; i < h.count; i++)
		h.runs[i].run.gpus = h.runs[i].gpus;
	*ret = h;
	return 0;
}

void run_history_finish(struct run_history *h)
{
	for (size_t i = 0; i < h->count; i++)
		run_text_finish(&h->runs[i]);
	free(h->runs);
	*h = (struct run_history){0};
}
