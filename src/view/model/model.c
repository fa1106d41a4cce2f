/* SPDX-License-Identifier: MIT */
#include "view/model/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "view/model/model_private.h"

#define DEFAULT_HISTORY 600

size_t view_string_room(const char *string)
{
	return string ? strlen(string) + 1 : 0;
}

const char *view_string_put(char **at, const char *string)
{
	size_t room = view_string_room(string);
	if (!room)
		return NULL;
	char *copy = memcpy(*at, string, room);
	*at += room;
	return copy;
}

bool view_string_equal(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

struct view_model *view_model_create(size_t history)
{
	struct view_model *m = calloc(1, sizeof(*m));
	struct view_by_id *by_id = calloc(1, sizeof(*by_id));
	if (!m || !by_id) {
		free(m);
		free(by_id);
		return NULL;
	}
	m->history = history ? history : DEFAULT_HISTORY;
	m->by_id = by_id;
	m->seed = hash_seed();
	m->work.total = -1;
	return m;
}

void view_model_destroy(struct view_model *m)
{
	if (!m)
		return;
	view_gpus_finish(m);
	view_runs_finish(m);
	view_jobs_finish(m);
	free(m->pauses);
	free(m->work_text);
	free(m);
}

uint64_t view_version(const struct view_model *m)
{
	return m->version;
}

int view_put_pauses(struct view_model *m, const struct view_delay *pauses, size_t count)
{
	struct view_delay *copy = calloc(count + 1, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	if (count)
		memcpy(copy, pauses, count * sizeof(*copy));
	free(m->pauses);
	m->pauses = copy;
	m->num_pauses = count;
	return 0;
}

const struct view_delay *view_pauses(const struct view_model *m, size_t *ret_count)
{
	*ret_count = m->num_pauses;
	return m->pauses;
}
