/* SPDX-License-Identifier: MIT */
/* The results of a run as numbers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/sized.h"
#include "launch/balancer.h"

SIZED_NO_TAIL(gd_file_result, node);
SIZED_NO_TAIL(gd_launch_failure, error);
SIZED_NO_TAIL(gd_launch_gpu, node);
SIZED_NO_TAIL(gd_launch_summary, inputs_skipped);

struct gd_balancer {
	struct gd_launch_gpu **gpus; /* by node and number; each is a separate allocation, with the node's name */
	size_t num_gpus, gpus_capacity;
	struct gd_launch_failure **failures; /* each one allocation, with its strings */
	size_t num_failures, failures_capacity;
	uint64_t total, skipped, done, failed;
	uint64_t bytes;
	double audio, processing;
	double rtf_processing;  /* of files whose audio seconds are known */
	uint64_t audio_unknown; /* of the files done */
	uint64_t start_ns, end_ns;
	double loading, idle;
};

static int compare_gpu(const struct gd_launch_gpu *gpu, const char *node, int64_t number)
{
	int c = strcmp(gpu->node ? gpu->node : "", node ? node : "");
	return c ? c : (gpu->gpu > number) - (gpu->gpu < number);
}

/* The GPU with this number, on a node or on this machine (NULL); a new one is inserted in order. */
static int get_gpu(struct gd_balancer *b, const char *node, int64_t number, struct gd_launch_gpu **ret)
{
	size_t at = 0;
	while (at < b->num_gpus && compare_gpu(b->gpus[at], node, number) < 0)
		at++;
	if (at == b->num_gpus || compare_gpu(b->gpus[at], node, number) != 0) {
		struct gd_launch_gpu *gpu = calloc(1, sizeof(*gpu) + (node ? strlen(node) + 1 : 0));
		if (!gpu || array_reserve(b->gpus, &b->gpus_capacity, b->num_gpus + 1) < 0) {
			free(gpu);
			return -ENOMEM;
		}
		gpu->size = sizeof(*gpu);
		gpu->gpu = number;
		gpu->node = node ? strcpy((char *)(gpu + 1), node) : NULL;
		memmove(b->gpus + at + 1, b->gpus + at, (b->num_gpus - at) * sizeof(struct gd_launch_gpu *));
		b->gpus[at] = gpu;
		b->num_gpus++;
	}
	*ret = b->gpus[at];
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
		int r = get_gpu(b, NULL, gpus[i], &gpu);
		if (r < 0) {
			gd_balancer_destroy(b);
			return r;
		}
	}
	*ret = b;
	return 0;
}

static void free_failures(struct gd_balancer *b)
{
	for (size_t i = 0; i < b->num_failures; i++)
		free(b->failures[i]);
	free(b->failures);
}

void gd_balancer_destroy(struct gd_balancer *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->num_gpus; i++)
		free(b->gpus[i]);
	free(b->gpus);
	free_failures(b);
	free(b);
}

void gd_balancer_reset(struct gd_balancer *b)
{
	for (size_t i = 0; i < b->num_gpus; i++)
		*b->gpus[i] = (struct gd_launch_gpu){
			.size = sizeof(struct gd_launch_gpu), .gpu = b->gpus[i]->gpu, .node = b->gpus[i]->node};
	free_failures(b);
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
	const char *file = result->file ? result->file : "";
	if (array_reserve(b->failures, &b->failures_capacity, b->num_failures + 1) < 0)
		return -ENOMEM;
	struct gd_launch_failure *failure = malloc(sizeof(*failure) + strlen(file) + strlen(result->error) + 2);
	if (!failure)
		return -ENOMEM;
	char *text = (char *)(failure + 1);
	*failure = (struct gd_launch_failure){.size = sizeof(*failure), .file = text};
	failure->error = stpcpy(text, file) + 1;
	strcpy((char *)failure->error, result->error);
	b->failures[b->num_failures++] = failure;
	return 0;
}

static void add_done(struct gd_balancer *b, struct gd_launch_gpu *gpu, const struct gd_file_result *result)
{
	bool known = result->known & GD_KNOWN_SECONDS;
	b->done++;
	b->bytes += result->size_bytes;
	b->processing += result->processing_seconds;
	if (known) {
		b->audio += result->audio_seconds;
		b->rtf_processing += result->processing_seconds;
	} else {
		b->audio_unknown++;
	}
	if (!gpu)
		return;
	gpu->files++;
	gpu->processing_seconds += result->processing_seconds;
	gpu->audio_seconds += known ? result->audio_seconds : 0;
}

int balancer_add(struct gd_balancer *b, const struct gd_file_result *result, struct gd_launch_gpu **ret_gpu)
{
	struct gd_launch_gpu *gpu = NULL;
	struct gd_file_result given;
	int r = sized_read(&given, sizeof(given), result, "gd_file_result", NULL);
	if (r == 0 && given.gpu >= 0)
		r = get_gpu(b, given.node, given.gpu, &gpu);
	if (r < 0)
		return r;
	if (!given.error) {
		add_done(b, gpu, &given);
	} else {
		r = add_failure(b, &given);
		if (r < 0)
			return r;
		b->failed++;
		if (gpu)
			gpu->failed++;
	}
	*ret_gpu = gpu;
	return 0;
}

int gd_balancer_add(struct gd_balancer *b, const struct gd_file_result *result)
{
	struct gd_launch_gpu *gpu;
	return balancer_add(b, result, &gpu);
}

void balancer_learn_seconds(
	struct gd_balancer *b, struct gd_launch_gpu *gpu, double audio_seconds, double processing_seconds)
{
	b->audio_unknown--;
	b->audio += audio_seconds;
	b->rtf_processing += processing_seconds;
	if (gpu)
		gpu->audio_seconds += audio_seconds;
}

static double skew(const struct gd_balancer *b)
{
	double most = 0;
	for (size_t i = 0; i < b->num_gpus; i++)
		if (b->gpus[i]->processing_seconds > most)
			most = b->gpus[i]->processing_seconds;
	return b->processing > 0 && b->num_gpus > 0 ? most * (double)b->num_gpus / b->processing - 1 : 0;
}

void gd_balancer_set_loading(struct gd_balancer *b, double seconds)
{
	b->loading = seconds > 0 ? seconds : 0;
}

void balancer_set_idle(struct gd_balancer *b, double seconds)
{
	b->idle = seconds;
}

void gd_balancer_stop_clock(struct gd_balancer *b)
{
	b->end_ns = clock_now_ns();
}

static void set_shares(struct gd_balancer *b)
{
	bool by_audio = b->audio > 0 && b->audio_unknown == 0;
	for (size_t i = 0; i < b->num_gpus; i++) {
		struct gd_launch_gpu *g = b->gpus[i];
		g->share = by_audio      ? g->audio_seconds / b->audio
			   : b->done > 0 ? (double)g->files / (double)b->done
					 : 0;
	}
}

void gd_balancer_summary(struct gd_balancer *b, struct gd_launch_summary *ret, size_t size)
{
	uint64_t over = b->done + b->failed + b->skipped;
	double wall = (double)((b->end_ns ? b->end_ns : clock_now_ns()) - b->start_ns) / (double)NS_PER_S;
	double loading = b->loading < wall ? b->loading : wall;
	double idle = b->idle < wall - loading ? b->idle : wall - loading;
	double working = wall - loading - idle;
	set_shares(b);
	const struct gd_launch_summary s = {
		.size = sizeof(s),
		.known = b->audio > 0 ? GD_KNOWN_RTF : 0,
		.files_total = b->total > over ? b->total : over,
		.files_done = b->done,
		.files_failed = b->failed,
		.files_skipped = b->skipped,
		.files_left = b->total > over ? b->total - over : 0,
		.bytes_done = b->bytes,
		.progress = over < b->total ? (double)over / (double)b->total : 1,
		.audio_seconds = b->audio,
		.processing_seconds = b->processing,
		.wall_seconds = wall,
		.rtf = b->audio > 0 ? b->rtf_processing / b->audio : 0,
		.speedup = working > 0 ? b->processing / working : 0,
		.skew = skew(b),
		.num_failures = b->num_failures,
		.failures = (const struct gd_launch_failure *const *)b->failures,
		.num_gpus = b->num_gpus,
		.gpus = (const struct gd_launch_gpu *const *)b->gpus,
		.loading_seconds = loading,
		.idle_seconds = idle,
	};
	sized_write(ret, size, &s, sizeof(s));
}
