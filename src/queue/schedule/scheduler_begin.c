/* SPDX-License-Identifier: MIT */
/* Jobs whose begin time has not come: a list for each time, the times ascending. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "queue/schedule/scheduler_private.h"

struct begin_time {
	int64_t ms;
	struct job *jobs; /* linked by next_dependent; may be empty */
};

static int compare_time(const void *key, const void *element)
{
	int64_t ms = *(const int64_t *)key, other = (*(struct begin_time *const *)element)->ms;
	return ms < other ? -1 : ms > other;
}

int scheduler_sleep(struct scheduler *s, struct job *job)
{
	int64_t ms = job->wish->begin_ms;
	size_t at = array_lower_bound(&ms, s->begins, s->num_begins, sizeof(*s->begins), compare_time);
	if (at == s->num_begins || s->begins[at]->ms != ms) {
		struct begin_time *b = calloc(1, sizeof(*b));
		if (!b || array_reserve(s->begins, &s->begins_capacity, s->num_begins + 1) < 0) {
			free(b);
			return -ENOMEM;
		}
		b->ms = ms;
		memmove(s->begins + at + 1, s->begins + at, (s->num_begins - at) * sizeof(*s->begins));
		s->begins[at] = b;
		s->num_begins++;
	}
	scheduler_link(&s->begins[at]->jobs, job);
	job->sleeping = true;
	s->num_sleeping++;
	return 0;
}

void scheduler_unsleep(struct scheduler *s, struct job *job)
{
	scheduler_unlink(job);
	job->sleeping = false;
	s->num_sleeping--;
}

/* Removes the first time from the list. */
static void drop_first(struct scheduler *s)
{
	free(s->begins[0]);
	s->num_begins--;
	memmove(s->begins, s->begins + 1, s->num_begins * sizeof(*s->begins));
}

struct job *scheduler_set_time(struct scheduler *s, int64_t now_ms)
{
	struct job *due = NULL;
	s->wall_ms = now_ms;
	while (s->num_begins > 0 && s->begins[0]->ms <= now_ms) {
		while (s->begins[0]->jobs) {
			struct job *job = s->begins[0]->jobs;
			scheduler_unsleep(s, job);
			job->next_dependent = due;
			due = job;
		}
		drop_first(s);
	}
	return scheduler_take_timely(s, due);
}

int64_t scheduler_next_begin(struct scheduler *s)
{
	while (s->num_begins > 0 && !s->begins[0]->jobs)
		drop_first(s);
	return s->num_begins > 0 ? s->begins[0]->ms : 0;
}

size_t scheduler_num_sleeping(const struct scheduler *s)
{
	return s->num_sleeping;
}

void scheduler_forget_begins(struct scheduler *s)
{
	for (size_t i = 0; i < s->num_begins; i++)
		free(s->begins[i]);
	free(s->begins);
	s->begins = NULL;
	s->num_begins = s->begins_capacity = s->num_sleeping = 0;
}
