/* SPDX-License-Identifier: MIT */
#include "launch/map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "launch/map_private.h"

#define READY_MS (10 * 60 * 1000) /* timeout for the program's "ready" */

static int check_gpus(struct map *m, struct gd_error *err)
{
	int r = gd_gpu_list(m->options.gpus, &m->gpus, err);
	if (r < 0)
		return r;
	if (m->gpus->count == 0)
		return error_set(err, -ENODEV,
			"no GPU found; use --gpus sim:4 to simulate some, for a test or for work that needs no GPU");
	for (size_t i = 0; i < m->gpus->count; i++)
		if (!gd_gpu_usable(m->gpus->gpus[i]) && (r = gd_gpu_validate(&m->gpus->gpus[i]->index, 1, err)) < 0)
			return r;
	return 0;
}

/* One entry per GPU, even if the GPU is listed twice. */
static int make_counts(struct map *m, struct gd_error *err)
{
	m->gpu_counts = calloc(m->gpus->count, sizeof(*m->gpu_counts));
	if (!m->gpu_counts)
		return error_set(err, -ENOMEM, "cannot start the workers: out of memory");
	size_t n = 0;
	for (size_t i = 0; i < m->gpus->count; i++) {
		size_t k = 0;
		while (k < n && m->gpu_counts[k].gpu != m->gpus->gpus[i]->index)
			k++;
		if (k == n)
			m->gpu_counts[n++].gpu = m->gpus->gpus[i]->index;
	}
	m->summary.gpus = m->gpu_counts;
	m->summary.num_gpus = n;
	return 0;
}

int map_create(const struct map_options *options, struct map **ret, struct gd_error *err)
{
	struct map *m = calloc(1, sizeof(*m));
	if (!m)
		return error_set(err, -ENOMEM, "cannot start the workers: out of memory");
	m->options = *options;
	m->input.fd = -1;
	m->record = MAP_RECORD_NONE;
	m->batch = m->warned_batch = options->batch;
	m->patience = MAP_FIRST_PATIENCE;
	m->worker = (struct launch_worker){
		.kind = LAUNCH_ITEMS,
		.argv = options->program,
		.settings = options->settings,
		.num_settings = options->num_settings,
		.ready_timeout_ms = READY_MS,
		.in_flight = options->in_flight,
	};
	m->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int r = m->stop_fd < 0 ? error_set(err, -errno, "cannot create an eventfd: %s", error_words(-errno)) : 0;
	if (r == 0)
		r = check_gpus(m, err);
	if (r == 0)
		r = make_counts(m, err);
	if (r == 0)
		r = launch_worker_check(&m->worker, err);
	if (r == 0)
		r = map_input_open(&m->input, options->input, options->lines, options->trust, err);
	if (r < 0) {
		map_destroy(m);
		return r;
	}
	*ret = m;
	return 0;
}

static void destroy_list(struct map_batch *b)
{
	for (struct map_batch *next; b; b = next) {
		next = b->next;
		map_batch_destroy(b);
	}
}

void map_destroy(struct map *m)
{
	if (!m)
		return;
	destroy_list(m->again);
	destroy_list(m->spare);
	map_batch_destroy(m->filling);
	for (size_t i = 0; i < m->summary.num_failures; i++)
		free(m->failures[i].reason);
	map_input_finish(&m->input);
	map_record_finish(&m->record);
	map_order_finish(&m->order);
	text_finish(&m->line);
	gd_gpu_list_free(m->gpus);
	free(m->gpu_counts);
	free(m->workers);
	closep(&m->stop_fd);
	free(m);
}

void map_stop(struct map *m)
{
	int saved = errno;
	const uint64_t one = 1;
	atomic_fetch_add(&m->stops, 1);
	(void)!write(m->stop_fd, &one, sizeof(one));
	errno = saved;
}

static double rate(uint64_t items, double seconds)
{
	return seconds > 0 ? (double)items / seconds : 0;
}

void map_get_summary(struct map *m, struct map_summary *ret)
{
	struct map_summary *s = &m->summary;
	uint64_t now = m->end_ns ? m->end_ns : clock_now_ns();
	uint64_t over = s->done + s->failed;
	double seconds = m->ready_ns && now > m->ready_ns ? (double)(now - m->ready_ns) / 1e9 : 0;
	s->wall_seconds = m->start_ns ? (double)(now - m->start_ns) / 1e9 : 0;
	s->items_per_second = rate(over, seconds);
	for (size_t i = 0; i < s->num_gpus; i++)
		m->gpu_counts[i].items_per_second = rate(m->gpu_counts[i].items + m->gpu_counts[i].failed, seconds);
	s->left = s->total > s->skipped + over ? s->total - s->skipped - over : 0;
	s->failed_before = m->record.failed;
	s->batch = m->batch;
	s->input_bytes = m->input.size;
	s->failures = m->failures;
	*ret = *s;
}
