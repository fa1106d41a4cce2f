/* SPDX-License-Identifier: MIT */
/* What came out of a run, as numbers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/clock.h"
#include "gpu_dispatch_launch.h"

struct gd_balancer {
	struct gd_launch_gpu *gpus; /* by number */
	size_t num_gpus, gpus_capacity;
	struct gd_launch_failure *failures;
	size_t num_failures, failures_capacity;
	struct arena arena; /* the failures' words */
	uint64_t total, skipped, done, failed;
	uint64_t bytes;
	double audio, processing;
	double rtf_processing;  /* of files whose audio seconds are known */
	uint64_t audio_unknown; /* of those done */
	uint64_t start_ns, end_ns;
};

/* The GPU of that number, put in its place where it is new. */
static int get_gpu(struct gd_balancer *b, int number, struct gd_launch_gpu **ret)
{
	size_t at = 0;
	while (at < b->num_gpus && b->gpus[at].gpu < number)
		at++;
	if (at == b->num_gpus || b->gpus[at].gpu != number) {
		if (array_reserve(b->gpus, &b->gpus_capacity, b->num_gpus + 1) < 0)
			return -ENOMEM;
		memmove(b->gpus + at + 1, b->gpus + at, (b->num_gpus - at) * sizeof(*b->gpus));
		b->gpus[at] = (struct gd_launch_gpu){.gpu = number};
		b->num_gpus++;
	}
	*ret = &b->gpus[at];
	return 0;
}

int gd_balancer_create(const int *gpus, size_t num_gpus, struct gd_balancer **ret)
{
	struct gd_balancer *b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->start_ns = clock_now_ns();
	for (size_t i = 0; i < num_gpus; i++) {
		struct gd_launch_gpu *gpu;
		int r = get_gpu(b, gpus[i], &gpu);
		if (r < 0) {
			gd_balancer_destroy(b);
			return r;
		}
	}
	*ret = b;
	return 0;
}

void gd_balancer_destroy(struct gd_balancer *b)
{
	if (!b)
		return;
	free(b->gpus);
	free(b->failures);
	arena_finish(&b->arena);
	free(b);
}

void gd_balancer_reset(struct gd_balancer *b)
{
	for (size_t i = 0; i < b->num_gpus; i++)
		b->gpus[i] = (struct gd_launch_gpu){.gpu = b->gpus[i].gpu};
	arena_finish(&b->arena);
	free(b->failures);
	*b = (struct gd_balancer){.gpus = b->gpus,
		.num_gpus = b->num_gpus,
		.gpus_capacity = b->gpus_capacity,
		.start_ns = clock_now_ns()};
}

void gd_balancer_expect(struct gd_balancer *b, uint64_t files_total, uint64_t files_skipped)
{
	b->total = files_total;
	b->skipped = files_skipped;
}

static int add_failure(struct gd_balancer *b, const struct gd_file_result *result)
{
	if (array_reserve(b->failures, &b->failures_capacity, b->num_failures + 1) < 0)
		return -ENOMEM;
	const char *file = arena_copy(&b->arena, result->file, strlen(result->file));
	const char *error = arena_copy(&b->arena, result->error, strlen(result->error));
	if (!file || !error)
		return -ENOMEM;
	b->failures[b->num_failures++] = (struct gd_launch_failure){file, error};
	return 0;
}

static void add_done(struct gd_balancer *b, struct gd_launch_gpu *gpu, const struct gd_file_result *result)
{
	b->done++;
	b->bytes += result->size_bytes;
	b->processing += result->processing_seconds;
	if (result->audio_seconds >= 0) {
		b->audio += result->audio_seconds;
		b->rtf_processing += result->processing_seconds;
	} else {
		b->audio_unknown++;
	}
	if (!gpu)
		return;
	gpu->files++;
	gpu->processing_seconds += result->processing_seconds;
	gpu->audio_seconds += result->audio_seconds >= 0 ? result->audio_seconds : 0;
}

int gd_balancer_add(struct gd_balancer *b, const struct gd_file_result *result)
{
	struct gd_launch_gpu *gpu = NULL;
	int r = result->gpu < 0 ? 0 : get_gpu(b, result->gpu, &gpu);
	if (r < 0)
		return r;
	if (!result->error) {
		add_done(b, gpu, result);
		return 0;
	}
	r = add_failure(b, result);
	if (r < 0)
		return r;
	b->failed++;
	if (gpu)
		gpu->failed++;
	return 0;
}

double gd_balancer_progress(const struct gd_balancer *b)
{
	uint64_t over = b->done + b->failed + b->skipped;
	if (b->total == 0)
		return 1;
	return over < b->total ? (double)over / (double)b->total : 1;
}

double gd_balancer_rtf(const struct gd_balancer *b)
{
	return b->audio > 0 ? b->rtf_processing / b->audio : 0;
}

static double wall_seconds(const struct gd_balancer *b)
{
	return (double)((b->end_ns ? b->end_ns : clock_now_ns()) - b->start_ns) / (double)NS_PER_S;
}

double gd_balancer_speedup(const struct gd_balancer *b)
{
	double wall = wall_seconds(b);
	return wall > 0 ? b->processing / wall : 0;
}

double gd_balancer_skew(const struct gd_balancer *b)
{
	double most = 0;
	for (size_t i = 0; i < b->num_gpus; i++)
		if (b->gpus[i].processing_seconds > most)
			most = b->gpus[i].processing_seconds;
	return b->processing > 0 && b->num_gpus > 0 ? most * (double)b->num_gpus / b->processing - 1 : 0;
}

void gd_balancer_stop_clock(struct gd_balancer *b)
{
	b->end_ns = clock_now_ns();
}

void gd_balancer_summary(const struct gd_balancer *b, struct gd_launch_summary *ret)
{
	uint64_t over = b->done + b->failed + b->skipped;
	bool by_audio = b->audio > 0 && b->audio_unknown == 0;
	for (size_t i = 0; i < b->num_gpus; i++) {
		struct gd_launch_gpu *g = &b->gpus[i];
		g->share = by_audio      ? g->audio_seconds / b->audio
			   : b->done > 0 ? (double)g->files / (double)b->done
					 : 0;
	}
	*ret = (struct gd_launch_summary){
		.files_total = b->total > over ? b->total : over,
		.files_done = b->done,
		.files_failed = b->failed,
		.files_skipped = b->skipped,
		.files_left = b->total > over ? b->total - over : 0,
		.bytes_done = b->bytes,
		.audio_seconds = b->audio,
		.processing_seconds = b->processing,
		.wall_seconds = wall_seconds(b),
		.rtf = gd_balancer_rtf(b),
		.speedup = gd_balancer_speedup(b),
		.skew = gd_balancer_skew(b),
		.num_failures = b->num_failures,
		.failures = b->failures,
		.num_gpus = b->num_gpus,
		.gpus = b->gpus,
	};
}
