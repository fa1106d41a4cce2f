/* SPDX-License-Identifier: MIT */
#include "queue/journal/jobs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "queue/journal/jobs_private.h"

void jobs_init(struct jobs *js)
{
	*js = (struct jobs){0};
}

void jobs_finish(struct jobs *js)
{
	free(js->by_id);
	free(js->wishes);
	key_table_finish(&js->keepers);
	key_table_finish(&js->hook_heads);
	key_table_finish(&js->pilot_names);
	number_set_finish(&js->losses);
	number_set_finish(&js->holes);
	number_set_finish(&js->lost_ids);
	arena_finish(&js->arena);
	intern_finish(&js->strings);
	*js = (struct jobs){0};
}

void jobs_reset(struct jobs *js)
{
	struct jobs fresh = {.on_change = js->on_change, .on_hook_failed = js->on_hook_failed, .context = js->context};
	jobs_finish(js);
	*js = fresh;
}

static int compare_id(const void *key, const void *element)
{
	uint64_t id = *(const uint64_t *)key, other = (*(struct job *const *)element)->id;
	return id < other ? -1 : id > other;
}

/* The index of the job with this id, or where it would be inserted. Ids mostly have no gaps. */
static size_t jobs_position(const struct jobs *js, uint64_t id)
{
	if (js->count == 0 || id > js->by_id[js->count - 1]->id)
		return js->count;
	uint64_t first = js->by_id[0]->id;
	if (id >= first && id - first < js->count && js->by_id[id - first]->id == id)
		return id - first;
	return array_lower_bound(&id, js->by_id, js->count, sizeof(*js->by_id), compare_id);
}

size_t jobs_index(const struct jobs *js, uint64_t id)
{
	size_t i = jobs_position(js, id);
	return i < js->count && js->by_id[i]->id == id ? i : js->count;
}

struct job *jobs_find(const struct jobs *js, uint64_t id)
{
	size_t i = jobs_index(js, id);
	return i < js->count ? js->by_id[i] : NULL;
}

const char *jobs_absence(const struct jobs *js, uint64_t id)
{
	return number_set_has(&js->lost_ids, id) ? "its record was lost; run 'gpuq verify'" : "no such job";
}

int jobs_insert(struct jobs *js, struct job *job)
{
	if (array_reserve(js->by_id, &js->capacity, js->count + 1) < 0)
		return -ENOMEM;
	size_t at = jobs_position(js, job->id);
	memmove(js->by_id + at + 1, js->by_id + at, (js->count - at) * sizeof(*js->by_id));
	js->by_id[at] = job;
	js->count++;
	if (job->id > js->last_id)
		js->last_id = job->id;
	return 0;
}

const struct keeper_info *jobs_keeper(const struct jobs *js, const char *name, size_t size)
{
	return key_table_get(&js->keepers, name, size);
}
