/* SPDX-License-Identifier: MIT */
/* The GPUs of a model, and the history of each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "view/model/model_private.h"

const char *view_gpu_status_name(enum view_gpu_status status)
{
	static const char *const names[VIEW_GPU_STATUSES] = {
		[VIEW_GPU_IDLE] = "idle",
		[VIEW_GPU_INITIALIZING] = "initializing",
		[VIEW_GPU_PROCESSING] = "processing",
		[VIEW_GPU_FINISHED] = "finished",
		[VIEW_GPU_ERROR] = "error",
	};
	return (unsigned)status < VIEW_GPU_STATUSES ? names[status] : "?";
}

struct view_gpu view_gpu_unknown(int id, int slot)
{
	return (struct view_gpu){.id = id,
		.slot = slot,
		.since_ns = -1,
		.last_duration_ns = -1,
		.memory_total_bytes = -1,
		.memory_used_bytes = -1,
		.memory_reserved_bytes = -1,
		.memory_foreign_bytes = -1,
		.utilization_percent = -1,
		.temperature_celsius = -1,
		.power_milliwatts = -1};
}

void view_gpus_finish(struct view_model *m)
{
	for (size_t i = 0; i < m->num_gpus; i++)
		free(m->gpus[i]);
	free(m->gpus);
	for (size_t i = 0; i < m->num_rings; i++)
		free(m->rings[i]);
	free(m->rings);
}

void view_forget_gpus(struct view_model *m)
{
	view_gpus_finish(m);
	m->gpus = NULL;
	m->rings = NULL;
	m->num_gpus = m->gpus_capacity = m->num_rings = m->rings_capacity = 0;
	m->version++;
}

static int compare_row(const void *key, const void *element)
{
	const struct view_gpu *gpu = key, *other = &(*(struct view_gpu_row *const *)element)->gpu;
	if (gpu->id != other->id)
		return gpu->id < other->id ? -1 : 1;
	return (gpu->slot > other->slot) - (gpu->slot < other->slot);
}

/* The index at which the row of this GPU and slot is, or belongs. */
static size_t find_row(const struct view_model *m, const struct view_gpu *gpu, bool *ret_there)
{
	size_t i = array_lower_bound(gpu, m->gpus, m->num_gpus, sizeof(*m->gpus), compare_row);
	*ret_there = i < m->num_gpus && compare_row(gpu, &m->gpus[i]) == 0;
	return i;
}

static bool same(const struct view_gpu *a, const struct view_gpu *b)
{
	return a->status == b->status && a->num_tasks == b->num_tasks && a->since_ns == b->since_ns &&
	       a->task_id == b->task_id && view_string_equal(a->task_name, b->task_name) &&
	       view_string_equal(a->task_queue, b->task_queue) && a->last_duration_ns == b->last_duration_ns &&
	       a->completed == b->completed && a->failed == b->failed && a->timeouts == b->timeouts &&
	       a->memory_total_bytes == b->memory_total_bytes && a->memory_used_bytes == b->memory_used_bytes &&
	       a->memory_reserved_bytes == b->memory_reserved_bytes &&
	       a->memory_foreign_bytes == b->memory_foreign_bytes && a->utilization_percent == b->utilization_percent &&
	       a->temperature_celsius == b->temperature_celsius && a->power_milliwatts == b->power_milliwatts &&
	       view_string_equal(a->name, b->name) && view_string_equal(a->task, b->task) &&
	       view_string_equal(a->error, b->error);
}

static struct view_gpu_row *copy_row(const struct view_gpu *gpu)
{
	size_t room = view_string_room(gpu->name) + view_string_room(gpu->task) + view_string_room(gpu->error) +
		      view_string_room(gpu->task_name) + view_string_room(gpu->task_queue);
	struct view_gpu_row *row = malloc(sizeof(*row) + room);
	if (!row)
		return NULL;
	char *at = row->text;
	row->gpu = *gpu;
	row->gpu.name = view_string_put(&at, gpu->name);
	row->gpu.task = view_string_put(&at, gpu->task);
	row->gpu.error = view_string_put(&at, gpu->error);
	row->gpu.task_name = view_string_put(&at, gpu->task_name);
	row->gpu.task_queue = view_string_put(&at, gpu->task_queue);
	return row;
}

int view_put_gpu(struct view_model *m, const struct view_gpu *gpu)
{
	bool there;
	size_t i = find_row(m, gpu, &there);
	if (there && same(&m->gpus[i]->gpu, gpu))
		return 0;
	if (!there && array_reserve(m->gpus, &m->gpus_capacity, m->num_gpus + 1) < 0)
		return -ENOMEM;
	struct view_gpu_row *row = copy_row(gpu);
	if (!row)
		return -ENOMEM;
	if (there) {
		free(m->gpus[i]);
	} else {
		memmove(m->gpus + i + 1, m->gpus + i, (m->num_gpus - i) * sizeof(*m->gpus));
		m->num_gpus++;
	}
	m->gpus[i] = row;
	m->version++;
	return 0;
}

size_t view_num_gpus(const struct view_model *m)
{
	return m->num_gpus;
}

const struct view_gpu *view_gpu(const struct view_model *m, size_t i)
{
	return i < m->num_gpus ? &m->gpus[i]->gpu : NULL;
}

static int compare_ring(const void *key, const void *element)
{
	int id = *(const int *)key, other = (*(struct view_ring *const *)element)->gpu_id;
	return (id > other) - (id < other);
}

static size_t find_ring(const struct view_model *m, int gpu_id)
{
	return array_lower_bound(&gpu_id, m->rings, m->num_rings, sizeof(*m->rings), compare_ring);
}

static int add_ring(struct view_model *m, size_t i, int gpu_id)
{
	if (array_reserve(m->rings, &m->rings_capacity, m->num_rings + 1) < 0)
		return -ENOMEM;
	struct view_ring *ring = malloc(sizeof(*ring) + m->history * sizeof(ring->samples[0]));
	if (!ring)
		return -ENOMEM;
	ring->gpu_id = gpu_id;
	ring->count = 0;
	memmove(m->rings + i + 1, m->rings + i, (m->num_rings - i) * sizeof(*m->rings));
	m->rings[i] = ring;
	m->num_rings++;
	return 0;
}

int view_put_sample(struct view_model *m, int gpu_id, const struct view_sample *sample)
{
	size_t i = find_ring(m, gpu_id);
	if (i == m->num_rings || m->rings[i]->gpu_id != gpu_id) {
		int result = add_ring(m, i, gpu_id);
		if (result < 0)
			return result;
	}
	struct view_ring *ring = m->rings[i];
	ring->samples[ring->count++ % m->history] = *sample;
	m->version++;
	return 0;
}

size_t view_history(const struct view_model *m, int gpu_id, struct view_sample *ret, size_t max)
{
	size_t i = find_ring(m, gpu_id);
	if (i == m->num_rings || m->rings[i]->gpu_id != gpu_id)
		return 0;
	const struct view_ring *ring = m->rings[i];
	size_t kept = ring->count < m->history ? ring->count : m->history;
	/* If there are too many, keep the newest. */
	size_t count = kept < max ? kept : max;
	for (size_t k = 0; k < count; k++)
		ret[k] = ring->samples[(ring->count - count + k) % m->history];
	return count;
}
