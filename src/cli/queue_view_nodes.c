/* SPDX-License-Identifier: MIT */
/* GPUs of cluster nodes, as published by the coordinator of the queue. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "cli/queue_view_parts.h"
#include "queue/runner/published.h"

const char *queue_view_node(const struct job *job)
{
	return job->keeper && job->keeper->is_pilot ? job->keeper->machine.host : NULL;
}

/* ---- Counts per node -------------------------------------------------------------------- */

static struct node_tally *find_tally(const struct queue_view *v, const char *node, int gpu)
{
	for (size_t i = 0; i < v->num_node_tallies; i++)
		if (v->node_tallies[i].gpu == gpu && strcmp(v->node_tallies[i].node, node) == 0)
			return &v->node_tallies[i];
	return NULL;
}

const struct gpu_tally *queue_view_node_tally(const struct queue_view *v, const char *node, int gpu)
{
	const struct node_tally *t = find_tally(v, node, gpu);
	return t ? &t->tally : NULL;
}

int queue_view_tally_node(struct queue_view *v, const char *node, int gpu, const struct job_attempt *a)
{
	struct node_tally *t = find_tally(v, node, gpu);
	if (!t) {
		if (array_reserve(v->node_tallies, &v->node_tallies_capacity, v->num_node_tallies + 1) < 0)
			return -ENOMEM;
		t = &v->node_tallies[v->num_node_tallies++];
		*t = (struct node_tally){.gpu = gpu, .tally.last_duration_ms = -1};
		snprintf(t->node, sizeof(t->node), "%s", node);
	}
	t->tally.completed += a->state == JOB_COMPLETED;
	t->tally.failed += a->state == JOB_FAILED;
	t->tally.timeouts += a->state == JOB_FAILED && a->reason && strcmp(a->reason, REASON_TIMEOUT) == 0;
	t->tally.last_duration_ms = a->duration_ms;
	return 0;
}

/* ---- The nodes -------------------------------------------------------------------------- */

void queue_view_close_nodes(struct queue_view *v)
{
	if (!v->cluster)
		return;
	scheduler_destroy(v->cluster);
	jobs_finish(&v->no_jobs);
	v->cluster = NULL;
	v->cluster_rows = 0;
}

/* A coordinator without pilots has published no GPUs: it has none, and does not use those of this machine. */
static bool is_cluster(const struct queue_view *v, const struct scheduler *s)
{
	size_t count;
	(void)scheduler_gpus(s, &count);
	return count ? scheduler_node_of(s, 0) != NULL : v->follow.jobs.epoch > 0;
}

bool queue_view_read_nodes(struct queue_view *v)
{
	struct published p;
	uint64_t rows = v->cluster_rows;
	queue_view_close_nodes(v);
	if (!v->has_queue || v->options.all || v->whole || v->follow.jobs.epoch == 0 || v->follow.dir_fd < 0 ||
		v->runner == 0)
		return false;
	jobs_init(&v->no_jobs);
	if (scheduler_create(&v->no_jobs, &v->cluster) < 0) {
		jobs_finish(&v->no_jobs);
		v->cluster = NULL;
		return false;
	}
	if (published_read(v->follow.dir_fd, &p, v->cluster) < 0 || p.pid != v->runner || !is_cluster(v, v->cluster))
		queue_view_close_nodes(v);
	else
		v->cluster_rows = rows;
	return v->cluster != NULL;
}

static bool is_busy(const struct queue_view *v, const struct ledger_node *node)
{
	for (size_t i = 0; i < v->running.count; i++) {
		const struct job *job = jobs_find(&v->follow.jobs, v->running.ids[i]);
		const char *own = job ? queue_view_node(job) : NULL;
		if (own && strcmp(own, node->name) == 0)
			return true;
	}
	return false;
}

/* The node at a position, NULL if it should not be shown. A node that is gone keeps its position until another takes
 * it. */
static const struct ledger_node *shown_node(const struct queue_view *v, size_t position)
{
	const struct ledger_node *node = scheduler_node_of(v->cluster, position);
	return node && *node->name && (node->usable || is_busy(v, node)) ? node : NULL;
}

static void find_peers(const struct queue_view *v, const struct gd_gpu *const *gpus, size_t count, size_t position,
	struct gpu_row *row)
{
	for (size_t i = 0; i < count; i++) {
		const struct ledger_node *node = shown_node(v, i);
		if (!node || gpus[i]->index != gpus[position]->index || strcmp(node->name, row->node) != 0)
			continue;
		row->peers++;
		row->peer += i < position;
	}
}

/* A hash of the shown rows: when it changes, old rows are removed. */
static uint64_t hash_rows(const struct queue_view *v, size_t count)
{
	uint64_t hash = 1;
	for (size_t i = 0; i < count; i++) {
		const struct ledger_node *node = shown_node(v, i);
		for (const char *p = node ? node->name : ""; *p; p++)
			hash = hash * 31 + (unsigned char)*p;
		hash = hash * 31 + (node ? 1 : 2);
	}
	return hash;
}

int queue_view_put_nodes(struct queue_view *v)
{
	size_t count;
	const struct gd_gpu *const *gpus = scheduler_gpus(v->cluster, &count);
	uint64_t rows = hash_rows(v, count);
	int r = 0;
	if (rows != v->cluster_rows)
		view_forget_gpus(v->model);
	v->cluster_rows = rows;
	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct ledger_node *node = shown_node(v, i);
		if (!node)
			continue;
		struct gd_gpu gpu = *gpus[i];
		struct gpu_row row = {.id = (int)i, .node = node->name};
		const char *name = gpu.known & GD_GPU_KNOWN_NAME ? gpus[i]->name : "";
		find_peers(v, gpus, count, i, &row);
		snprintf(gpu.name, sizeof(gpu.name), "%.40s:%d%s%.40s", node->name, gpu.index, *name ? " " : "", name);
		gpu.known |= GD_GPU_KNOWN_NAME;
		if (!(gpu.known & GD_GPU_KNOWN_MEMORY_USED) && gpu.known & GD_GPU_KNOWN_MEMORY_FREE) {
			gpu.known |= GD_GPU_KNOWN_MEMORY_USED;
			gpu.memory_used_bytes = gpu.memory_total_bytes - gpu.memory_free_bytes;
		}
		r = queue_view_put_row(v, &gpu, &row);
	}
	return r;
}
