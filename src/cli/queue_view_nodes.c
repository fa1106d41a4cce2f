/* SPDX-License-Identifier: MIT */
/*
 * GPUs of cluster nodes, as published by the coordinator of a queue. In a view of all queues, the nodes of each queue
 * follow the GPUs of this machine.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "cli/queue_view_parts.h"
#include "queue/runner/published.h"

const char *queue_view_node(const struct job *job)
{
	return job->keeper && job->keeper->is_pilot ? job->keeper->machine.host : NULL;
}

/* ---- Counts per node -------------------------------------------------------------------- */

/* The journal may be another user's: further nodes are not counted. */
#define MOST_TALLIES 4096

/* The position of the first entry that is not before this GPU. The list is sorted. */
static size_t find_place(const struct queue_view *v, const char *node, int gpu)
{
	size_t low = 0, high = v->num_node_tallies;
	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct node_tally *t = &v->node_tallies[middle];
		int c = strcmp(t->node, node);
		if (c < 0 || (c == 0 && t->gpu < gpu))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct node_tally *find_tally(const struct queue_view *v, const char *node, int gpu, size_t *ret_place)
{
	*ret_place = find_place(v, node, gpu);
	struct node_tally *t = *ret_place < v->num_node_tallies ? &v->node_tallies[*ret_place] : NULL;
	return t && t->gpu == gpu && strcmp(t->node, node) == 0 ? t : NULL;
}

const struct gpu_tally *queue_view_node_tally(const struct queue_view *v, const char *node, int gpu)
{
	size_t place;
	const struct node_tally *t = find_tally(v, node, gpu, &place);
	return t ? &t->tally : NULL;
}

int queue_view_tally_node(struct queue_view *v, const char *node, int gpu, const struct job_attempt *a)
{
	size_t place;
	struct node_tally *t = find_tally(v, node, gpu, &place);
	if (!t) {
		if (v->num_node_tallies == MOST_TALLIES)
			return 0;
		if (array_reserve(v->node_tallies, &v->node_tallies_capacity, v->num_node_tallies + 1) < 0)
			return -ENOMEM;
		t = &v->node_tallies[place];
		memmove(t + 1, t, (v->num_node_tallies++ - place) * sizeof(*t));
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

static bool read_nodes(struct queue_view *v)
{
	struct published p;
	uint64_t rows = v->cluster_rows;
	queue_view_close_nodes(v);
	if (!v->has_queue || v->follow.jobs.epoch == 0 || v->follow.dir_fd < 0 || v->runner == 0)
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

bool queue_view_read_nodes(struct queue_view *v)
{
	bool found = false;
	if (!v->options.all)
		return read_nodes(v);
	for (size_t i = 0; i < v->num_parts; i++)
		found = (v->parts[i].view && read_nodes(v->parts[i].view)) || found;
	return found;
}

/* ---- Which nodes are shown ---------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The nodes of running jobs, sorted; NULL if there are none, or if out of memory. */
static const char **list_busy(const struct queue_view *v, size_t *ret_count)
{
	const char **names = v->running.count ? calloc(v->running.count, sizeof(*names)) : NULL;
	*ret_count = 0;
	for (size_t i = 0; names && i < v->running.count; i++) {
		const struct job *job = jobs_find(&v->follow.jobs, v->running.ids[i]);
		const char *own = job ? queue_view_node(job) : NULL;
		if (own)
			names[(*ret_count)++] = own;
	}
	if (*ret_count)
		qsort(names, *ret_count, sizeof(*names), by_name);
	return names;
}

/*
 * The node at each position; an entry is NULL if the node should not be shown. Returns NULL if out of memory. A node
 * that is gone keeps its position until another node takes it.
 */
static const struct ledger_node **list_shown(const struct queue_view *v, size_t count)
{
	size_t num_busy;
	cleanup_(freep) const char **busy = list_busy(v, &num_busy);
	const struct ledger_node **shown = calloc(count + 1, sizeof(*shown));
	for (size_t i = 0; shown && i < count; i++) {
		const struct ledger_node *node = scheduler_node_of(v->cluster, i);
		const char *name = node ? node->name : "";
		if (*name && (node->usable || (num_busy && bsearch(&name, busy, num_busy, sizeof(*busy), by_name))))
			shown[i] = node;
	}
	return shown;
}

static void find_peers(const struct ledger_node *const *shown, const struct gd_gpu *const *gpus, size_t count,
	size_t position, struct gpu_row *row)
{
	for (size_t i = 0; i < count; i++) {
		if (gpus[i]->index != gpus[position]->index || !shown[i] || strcmp(shown[i]->name, row->node) != 0)
			continue;
		row->peers++;
		row->peer += i < position;
	}
}

static uint64_t hash_rows(const struct queue_view *v, uint64_t hash)
{
	size_t count;
	(void)scheduler_gpus(v->cluster, &count);
	cleanup_(freep) const struct ledger_node **shown = list_shown(v, count);
	for (size_t i = 0; shown && i < count; i++) {
		const struct ledger_node *node = shown[i];
		for (const char *p = node ? node->name : ""; *p; p++)
			hash = hash * 31 + (unsigned char)*p;
		hash = hash * 31 + (node ? 1 : 2);
	}
	return hash;
}

void queue_view_forget_nodes(struct queue_view *v, int first_id)
{
	uint64_t rows = 0;
	for (size_t i = 0; i < queue_view_num_parts(v); i++) {
		const struct queue_view *part = queue_view_part(v, i);
		if (part && part->cluster)
			rows = hash_rows(part, rows * 31 + (uint64_t)first_id + 1);
	}
	if (rows != v->cluster_rows)
		view_forget_gpus(v->model);
	v->cluster_rows = rows;
}

/* The rows of one queue; their ids begin with first_id. */
static int put_rows(struct queue_view *v, int first_id, size_t *ret_count)
{
	size_t count;
	const struct gd_gpu *const *gpus = scheduler_gpus(v->cluster, &count);
	cleanup_(freep) const struct ledger_node **shown = list_shown(v, count);
	int r = shown ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct ledger_node *node = shown[i];
		if (!node)
			continue;
		struct gd_gpu gpu = *gpus[i];
		struct gpu_row row = {.id = first_id + (int)i, .node = node->name};
		const char *name = gpu.known & GD_GPU_KNOWN_NAME ? gpus[i]->name : "";
		find_peers(shown, gpus, count, i, &row);
		snprintf(gpu.name, sizeof(gpu.name), "%.40s:%d%s%.40s", node->name, gpu.index, *name ? " " : "", name);
		gpu.known |= GD_GPU_KNOWN_NAME;
		if (!(gpu.known & GD_GPU_KNOWN_MEMORY_USED) && gpu.known & GD_GPU_KNOWN_MEMORY_FREE) {
			gpu.known |= GD_GPU_KNOWN_MEMORY_USED;
			gpu.memory_used_bytes = gpu.memory_total_bytes - gpu.memory_free_bytes;
		}
		r = queue_view_put_row(v, &gpu, &row);
	}
	*ret_count = count;
	return r;
}

int queue_view_put_nodes(struct queue_view *v, int first_id)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < queue_view_num_parts(v); i++) {
		struct queue_view *part = v->options.all ? v->parts[i].view : v;
		size_t count = 0;
		if (part && part->cluster)
			r = put_rows(part, first_id, &count);
		first_id += (int)count;
	}
	return r;
}
