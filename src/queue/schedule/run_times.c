/* SPDX-License-Identifier: MIT */
#include "queue/schedule/run_times.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* A set-associative table: a kind is searched only in the WAYS entries of its set. */
#define WAYS 8
#define SETS (RUN_TIMES_KINDS / WAYS)

/* Only the beginning of a longer command is compared. */
#define KEY_BYTES 4096

struct run_kind {
	uint64_t key;   /* 0: free */
	uint64_t stamp; /* time of the last addition */
	unsigned count; /* samples ever added */
	float ms[RUN_TIMES_SAMPLES];
};

struct run_times {
	uint64_t stamp;
	struct run_kind kinds[SETS][WAYS];
};

struct run_times *run_times_create(void)
{
	return calloc(1, sizeof(struct run_times));
}

void run_times_destroy(struct run_times *d)
{
	free(d);
}

/* ---- Kinds ------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The end of the number at `i`: 12, 0.5, 3e-4. */
static size_t skip_number(const char *s, size_t size, size_t i)
{
	while (i < size && is_digit(s[i]))
		i++;
	if (i + 1 < size && s[i] == '.' && is_digit(s[i + 1]))
		for (i++; i < size && is_digit(s[i]);)
			i++;
	if (i + 1 < size && (s[i] == 'e' || s[i] == 'E')) {
		size_t digits = i + 1 + (s[i + 1] == '-' || s[i + 1] == '+');
		if (digits < size && is_digit(s[digits]))
			for (i = digits; i < size && is_digit(s[i]);)
				i++;
	}
	return i;
}

static uint64_t key_of(char tag, const char *bytes, size_t size)
{
	uint64_t key = hash_bytes(bytes, size).a ^ (uint64_t)(unsigned char)tag * UINT64_C(0x9e3779b97f4a7c15);
	return key ? key : 1;
}

static uint64_t command_key(const struct job *job)
{
	char shape[KEY_BYTES];
	size_t n = 0;
	for (size_t i = 0; i < job->command_size && n < sizeof(shape);) {
		bool number = is_digit(job->command[i]);
		shape[n++] = number ? '#' : job->command[i];
		i = number ? skip_number(job->command, job->command_size, i) : i + 1;
	}
	return key_of('c', shape, n);
}

static uint64_t name_key(const struct job *job)
{
	return job->name ? key_of('n', job->name, strlen(job->name)) : 0;
}

static const struct run_kind *find(const struct run_times *d, uint64_t key)
{
	const struct run_kind *set = d->kinds[key % SETS];
	for (size_t i = 0; key && i < WAYS; i++)
		if (set[i].key == key)
			return &set[i];
	return NULL;
}

static void add(struct run_times *d, uint64_t key, int64_t duration_ms)
{
	struct run_kind *set = d->kinds[key % SETS], *k = &set[0];
	if (!key)
		return;
	for (size_t i = 0; i < WAYS; i++) {
		if (set[i].key == key) {
			k = &set[i];
			break;
		}
		if (set[i].stamp < k->stamp)
			k = &set[i];
	}
	if (k->key != key)
		*k = (struct run_kind){.key = key};
	k->stamp = ++d->stamp;
	k->ms[k->count++ % RUN_TIMES_SAMPLES] = (float)duration_ms;
}

void run_times_add(struct run_times *d, const struct job *job, int64_t duration_ms)
{
	if (duration_ms < 0)
		return;
	add(d, name_key(job), duration_ms);
	add(d, command_key(job), duration_ms);
}

void run_times_add_job(struct run_times *d, const struct job *job)
{
	/* The list has the newest first; a few are enough. */
	const struct job_attempt *oldest_first[RUN_TIMES_SAMPLES];
	size_t n = 0;
	for (const struct job_attempt *a = job->attempts; a && n < RUN_TIMES_SAMPLES; a = a->earlier)
		if (a->state == JOB_COMPLETED && a->duration_ms >= 0)
			oldest_first[n++] = a;
	while (n > 0)
		run_times_add(d, job, oldest_first[--n]->duration_ms);
}

/* ---- Estimates --------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

/* Interpolated between the two nearest samples. */
static double quantile(const float *sorted, unsigned count, double q)
{
	double at = q * (count - 1);
	unsigned i = (unsigned)at;
	return i + 1 < count ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[count - 1];
}

static const struct run_kind *kind_of(const struct run_times *d, const struct job *job)
{
	const struct run_kind *k = find(d, name_key(job));
	return k ? k : find(d, command_key(job));
}

struct duration_estimate run_times_remaining(const struct run_times *d, const struct job *job, int64_t elapsed_ms)
{
	const struct run_kind *k = kind_of(d, job);
	struct duration_estimate e = {0};
	float left[RUN_TIMES_SAMPLES];
	double elapsed = (double)elapsed_ms;
	if (!k)
		return e;
	unsigned count = k->count < RUN_TIMES_SAMPLES ? k->count : RUN_TIMES_SAMPLES;
	for (unsigned i = 0; i < count; i++)
		if (elapsed_ms <= 0 || (double)k->ms[i] > elapsed)
			left[e.samples++] = (float)((double)k->ms[i] - elapsed);
	if (e.samples == 0)
		return (struct duration_estimate){.samples = 1, .median_ms = elapsed / 2, .high_ms = elapsed};
	qsort(left, e.samples, sizeof(*left), compare);
	e.median_ms = quantile(left, e.samples, 0.5);
	e.low_ms = quantile(left, e.samples, 0.1);
	e.high_ms = quantile(left, e.samples, 0.9);
	/* One run has no spread. */
	if (e.samples == 1) {
		e.low_ms = e.median_ms / 2;
		e.high_ms = e.median_ms * 2;
	}
	return e;
}

struct duration_estimate run_times_estimate(const struct run_times *d, const struct job *job)
{
	return run_times_remaining(d, job, 0);
}
