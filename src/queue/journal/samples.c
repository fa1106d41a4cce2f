/* SPDX-License-Identifier: MIT */
#include "queue/journal/samples.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/json_read.h"

#define FILE_NAME  "samples.jsonl"
#define DRAFT_NAME "samples.jsonl.new"

/* A larger file is not ours: it is not read, and is started over. */
#define LARGEST_FILE (SAMPLES_MAX_BYTES * 4)
/* Bytes read from the end of the file for its last line: enough for a thousand GPUs. */
#define LAST_BYTES (256 << 10)
#define MAX_MB     (INT64_MAX >> 20) /* fits an int64_t in bytes */
#define MAX_GPU    4095              /* readers keep a history of each: another user may have written the file */

/* ---- One line ---------------------------------------------------------------- */

static void put_if_known(struct text *t, const char *key, int64_t n)
{
	if (n >= 0)
		json_put_int(t, key, n);
}

static void format_sample(struct text *t, const struct sample *s)
{
	json_open(t, NULL, '{');
	json_put_int(t, "time", s->time_ms);
	json_open(t, "gpus", '[');
	for (size_t i = 0; i < s->num_gpus; i++) {
		const struct sample_gpu *g = &s->gpus[i];
		json_open(t, NULL, '{');
		json_put_int(t, "gpu", g->gpu);
		put_if_known(t, "mem_used_mb", g->mem_used_mb);
		put_if_known(t, "mem_total_mb", g->mem_total_mb);
		put_if_known(t, "util", g->util);
		json_open(t, "jobs", '[');
		for (size_t k = 0; k < g->num_jobs; k++)
			json_put_int(t, NULL, (int64_t)g->jobs[k]);
		json_close(t, ']');
		json_close(t, '}');
	}
	json_close(t, ']');
	if (s->num_peaks) {
		json_open(t, "peaks", '[');
		for (size_t i = 0; i < s->num_peaks; i++) {
			json_open(t, NULL, '[');
			json_put_int(t, NULL, (int64_t)s->peaks[i].job);
			json_put_int(t, NULL, s->peaks[i].mem_mb);
			json_close(t, ']');
		}
		json_close(t, ']');
	}
	json_close(t, '}');
	text_append_char(t, '\n');
}

/* Arrays that a line is read into; reused for the next line. */
struct page {
	struct sample_gpu *gpus;
	size_t gpus_capacity;
	uint64_t *jobs; /* jobs of all GPUs, one after another */
	size_t num_jobs, jobs_capacity;
	struct sample_peak *peaks;
	size_t peaks_capacity;
};

static void page_finish(struct page *p)
{
	free(p->gpus);
	free(p->jobs);
	free(p->peaks);
}

static int read_jobs(struct page *p, const struct json_value *array, size_t *ret_count)
{
	struct json_cursor c;
	struct json_value item;
	size_t first = p->num_jobs;
	int r;
	if (array->type != JSON_ARRAY)
		return -EBADMSG;
	json_enter(&c, array);
	while ((r = json_next_item(&c, &item)) > 0) {
		int64_t id;
		if (json_to_int64(&item, &id) < 0 || id < 0)
			return -EBADMSG;
		r = array_reserve(p->jobs, &p->jobs_capacity, p->num_jobs + 1);
		if (r < 0)
			return r;
		p->jobs[p->num_jobs++] = (uint64_t)id;
	}
	*ret_count = p->num_jobs - first;
	return r;
}

static int read_gpu(struct page *p, const struct json_value *object, struct sample_gpu *ret)
{
	struct json_cursor c;
	struct json_value key, value;
	int64_t index = -1, util = -1;
	struct sample_gpu g = {.mem_used_mb = -1, .mem_total_mb = -1};
	int r;
	if (object->type != JSON_OBJECT)
		return -EBADMSG;
	json_enter(&c, object);
	while ((r = json_next_member(&c, &key, &value)) > 0) {
		if (json_is(&key, "gpu"))
			r = json_to_int64(&value, &index);
		else if (json_is(&key, "mem_used_mb"))
			r = json_to_int64(&value, &g.mem_used_mb);
		else if (json_is(&key, "mem_total_mb"))
			r = json_to_int64(&value, &g.mem_total_mb);
		else if (json_is(&key, "util"))
			r = json_to_int64(&value, &util);
		else if (json_is(&key, "jobs"))
			r = read_jobs(p, &value, &g.num_jobs);
		if (r < 0)
			return r;
	}
	if (r < 0 || index < 0 || index > MAX_GPU || util > 100 || g.mem_used_mb > MAX_MB || g.mem_total_mb > MAX_MB)
		return -EBADMSG;
	g.gpu = (int)index;
	g.util = util < 0 ? -1 : (int)util;
	*ret = g;
	return 0;
}

static int read_gpus(struct page *p, const struct json_value *array, size_t *ret_count)
{
	struct json_cursor c;
	struct json_value item;
	size_t n = 0;
	int r;
	if (array->type != JSON_ARRAY)
		return -EBADMSG;
	json_enter(&c, array);
	while ((r = json_next_item(&c, &item)) > 0) {
		r = array_reserve(p->gpus, &p->gpus_capacity, n + 1);
		if (r == 0)
			r = read_gpu(p, &item, &p->gpus[n++]);
		if (r < 0)
			return r;
	}
	*ret_count = n;
	return r;
}

/* Reads [job, MB]. */
static int read_peak(const struct json_value *pair, struct sample_peak *ret)
{
	struct json_cursor c;
	struct json_value item;
	int64_t numbers[2];
	size_t n = 0;
	int r;
	if (pair->type != JSON_ARRAY)
		return -EBADMSG;
	json_enter(&c, pair);
	while ((r = json_next_item(&c, &item)) > 0)
		if (n == 2 || json_to_int64(&item, &numbers[n++]) < 0)
			return -EBADMSG;
	if (r < 0 || n != 2 || numbers[0] < 0 || numbers[1] < 0)
		return -EBADMSG;
	*ret = (struct sample_peak){(uint64_t)numbers[0], numbers[1]};
	return 0;
}

static int read_peaks(struct page *p, const struct json_value *array, size_t *ret_count)
{
	struct json_cursor c;
	struct json_value item;
	size_t n = 0;
	int r;
	if (array->type != JSON_ARRAY)
		return -EBADMSG;
	json_enter(&c, array);
	while ((r = json_next_item(&c, &item)) > 0) {
		r = array_reserve(p->peaks, &p->peaks_capacity, n + 1);
		if (r == 0)
			r = read_peak(&item, &p->peaks[n++]);
		if (r < 0)
			return r;
	}
	*ret_count = n;
	return r;
}

static int parse_sample(struct page *p, const char *line, size_t size, struct sample *ret)
{
	struct json_cursor c;
	struct json_value key, value;
	struct sample s = {.time_ms = -1};
	bool gpus = false;
	p->num_jobs = 0;
	int r = json_begin(&c, line, size);
	if (r < 0)
		return r;
	while ((r = json_next_member(&c, &key, &value)) > 0) {
		if (json_is(&key, "time"))
			r = json_to_int64(&value, &s.time_ms);
		else if (json_is(&key, "gpus") && !gpus)
			gpus = (r = read_gpus(p, &value, &s.num_gpus)) == 0;
		else if (json_is(&key, "peaks"))
			r = read_peaks(p, &value, &s.num_peaks);
		if (r < 0)
			return r;
	}
	if (r < 0 || json_end(&c) < 0 || s.time_ms < 0 || !gpus)
		return -EBADMSG;
	/* Set the pointers only now: the array may have moved while it grew. */
	const uint64_t *jobs = p->jobs;
	for (size_t i = 0; i < s.num_gpus; i++) {
		p->gpus[i].jobs = jobs;
		if (p->gpus[i].num_jobs)
			jobs += p->gpus[i].num_jobs;
	}
	s.gpus = p->gpus;
	s.peaks = p->peaks;
	*ret = s;
	return 0;
}

/* ---- The file ------------------------------------------------------------------- */

static int open_existing(int dir_fd, int flags, struct stat *ret_stat)
{
	cleanup_(closep) int fd = openat(dir_fd, FILE_NAME, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0 || fstat(fd, ret_stat) < 0)
		return -errno;
	return S_ISREG(ret_stat->st_mode) ? take_fd(&fd) : -EINVAL;
}

/* Reads all complete lines; release with free(). */
static int read_file(int dir_fd, char **ret, size_t *ret_size)
{
	struct stat st;
	cleanup_(closep) int fd = open_existing(dir_fd, O_RDONLY, &st);
	if (fd < 0)
		return fd;
	if ((uint64_t)st.st_size > LARGEST_FILE)
		return -EFBIG;
	cleanup_(freep) char *data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	ssize_t have = file_read_full(fd, data, (size_t)st.st_size);
	if (have < 0)
		return (int)have;
	const char *last = memrchr(data, '\n', (size_t)have);
	*ret_size = last ? (size_t)(last + 1 - data) : 0;
	*ret = take_ptr(data);
	return 0;
}

int samples_read(int dir_fd, samples_fn *fn, void *context)
{
	cleanup_(freep) char *data = NULL;
	cleanup_(page_finish) struct page page = {0};
	size_t size = 0;
	int r = read_file(dir_fd, &data, &size);
	for (char *line = data, *end = data + size; r == 0 && line < end;) {
		char *newline = memchr(line, '\n', (size_t)(end - line));
		struct sample s;
		r = parse_sample(&page, line, (size_t)(newline - line), &s);
		if (r == 0)
			r = fn(context, &s);
		else if (r == -EBADMSG)
			r = 0;
		line = newline + 1;
	}
	return r;
}

int samples_read_last(int dir_fd, struct samples_stamp *stamp, samples_fn *fn, void *context)
{
	cleanup_(page_finish) struct page page = {0};
	struct stat st;
	struct sample s;
	cleanup_(closep) int fd = open_existing(dir_fd, O_RDONLY, &st);
	if (fd < 0)
		return fd;
	if (stamp->inode == st.st_ino && stamp->size == st.st_size)
		return 0;
	size_t size = st.st_size < LAST_BYTES ? (size_t)st.st_size : LAST_BYTES;
	cleanup_(freep) char *data = malloc(size + 1);
	if (!data)
		return -ENOMEM;
	ssize_t have = pread(fd, data, size, st.st_size - (off_t)size);
	if (have < 0)
		return -errno;
	*stamp = (struct samples_stamp){st.st_ino, st.st_size};
	/* The last complete line; a line longer than LAST_BYTES is skipped. */
	const char *end = memrchr(data, '\n', (size_t)have);
	const char *before = end ? memrchr(data, '\n', (size_t)(end - data)) : NULL;
	const char *line = before ? before + 1 : data;
	if (!end || (!before && (off_t)size < st.st_size))
		return 0;
	int r = parse_sample(&page, line, (size_t)(end - line), &s);
	return r == 0 ? fn(context, &s) : r == -EBADMSG ? 0 : r;
}

/* ---- Thinning -------------------------------------------------------------------- */

struct thinning {
	int64_t step_ms; /* samples closer than this to the last kept one are dropped */
	int64_t last_ms;
	size_t bytes;
	struct text *out;  /* NULL: only count the bytes */
	struct text *line; /* buffer for one line, reused */
};

static int keep_some(void *context, const struct sample *s)
{
	struct thinning *t = context;
	/* If the time goes backwards, the clock was set: keep the sample. */
	if (t->bytes && s->time_ms >= t->last_ms && s->time_ms - t->last_ms < t->step_ms)
		return 0;
	text_clear(t->line);
	format_sample(t->line, s);
	t->last_ms = s->time_ms;
	t->bytes += t->line->length;
	if (t->out)
		text_append(t->out, text_string(t->line), t->line->length);
	return text_error(t->line);
}

/* Finds the smallest step that leaves at most half of a full file, so that the samples stay evenly spaced. */
static int thin_text(int dir_fd, struct text *ret)
{
	cleanup_(text_finish) struct text line = {0};
	struct thinning t = {.step_ms = SAMPLES_INTERVAL_MS};
	int r;
	do {
		t = (struct thinning){.step_ms = t.step_ms * 2, .line = &line};
		r = samples_read(dir_fd, keep_some, &t);
	} while (r == 0 && t.bytes > SAMPLES_MAX_BYTES / 2 && t.step_ms < INT64_MAX >> 20);
	/* If the times make no sense, keep no samples. */
	if (r < 0 || t.bytes > SAMPLES_MAX_BYTES / 2)
		return r == -ENOMEM ? r : 0;
	t = (struct thinning){.step_ms = t.step_ms, .out = ret, .line = &line};
	r = samples_read(dir_fd, keep_some, &t);
	return r < 0 ? r : text_error(ret);
}

static int thin(int dir_fd)
{
	cleanup_(text_finish) struct text kept = {0};
	int r = thin_text(dir_fd, &kept);
	if (r < 0)
		return r;
	(void)unlinkat(dir_fd, DRAFT_NAME, 0);
	cleanup_(closep) int fd =
		openat(dir_fd, DRAFT_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = file_write_all(fd, text_string(&kept), kept.length);
	if (r == 0 && renameat(dir_fd, DRAFT_NAME, dir_fd, FILE_NAME) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir_fd, DRAFT_NAME, 0);
	return r;
}

/* Whether a runner was killed in the middle of writing a line. */
static bool is_torn(int fd, off_t size)
{
	char last;
	return size > 0 && (pread(fd, &last, 1, size - 1) != 1 || last != '\n');
}

int samples_append(int dir_fd, const struct sample *s)
{
	cleanup_(text_finish) struct text line = {0};
	struct stat st;
	cleanup_(closep) int fd = open_existing(dir_fd, O_RDWR | O_APPEND | O_CREAT, &st);
	if (fd < 0)
		return fd;
	format_sample(&line, s);
	if (text_error(&line))
		return -ENOMEM;
	if (is_torn(fd, st.st_size) && write(fd, "\n", 1) < 0)
		return -errno;
	/* If the file cannot be thinned, the disk is full: then append nothing either. */
	if ((uint64_t)st.st_size + line.length > SAMPLES_MAX_BYTES) {
		int r = thin(dir_fd);
		if (r < 0)
			return r;
		closep(&fd);
		fd = open_existing(dir_fd, O_RDWR | O_APPEND | O_CREAT, &st);
		if (fd < 0)
			return fd;
	}
	int r = file_write_all(fd, line.data, line.length);
	if (r < 0 && ftruncate(fd, st.st_size) < 0)
		return -errno;
	return r;
}
