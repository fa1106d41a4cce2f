/* SPDX-License-Identifier: MIT */
#include "cli/obstacles.h"

#include <errno.h>
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/say.h"
#include "queue/runner/verdicts.h"

/* At most this many jobs are named with their reasons. */
#define MOST_TOLD 5
/* Checks are slow in a long queue: they take at most 1/PART of the time. */
#define PART 20

/* A job that cannot start may later be held, which is a different obstacle. */
static uint64_t key_of(const struct job *job)
{
	return job->id * 2 + (job->state == JOB_HELD);
}

static bool is_told(const struct obstacles *o, const struct job *job)
{
	for (size_t i = 0; i < o->told.count; i++)
		if (o->told.ids[i] == key_of(job))
			return true;
	return false;
}

static int tell(struct obstacles *o, const struct job *job, const char *words)
{
	if (is_told(o, job) || o->told_more)
		return 0;
	if (o->told.count == MOST_TOLD) {
		say("more jobs cannot start; 'gpuq status' lists all jobs");
		o->told_more = true;
		return 0;
	}
	say("job %" PRIu64 " %s", job->id, words);
	return id_list_add(&o->told, key_of(job));
}

static int look(struct obstacles *o, struct verdicts *v, const struct follow *f, const struct id_list *ids,
	enum obstacles_found *ret)
{
	cleanup_(text_finish) struct text words = {0};
	enum obstacles_found found = OBSTACLES_ALL;
	int r = 0;
	for (size_t i = 0; r == 0 && i < ids->count; i++) {
		const struct job *job = jobs_find(&f->jobs, ids->ids[i]), *at;
		if (!job || job_is_final(job) || job->state == JOB_UNKNOWN)
			continue;
		text_clear(&words);
		r = verdicts_obstacle(v, job, &words, &at);
		if (r == 0)
			r = text_error(&words);
		if (words.length == 0)
			found = OBSTACLES_NONE;
		else if (at->state == JOB_HELD && found == OBSTACLES_ALL)
			found = OBSTACLES_HELD;
		if (r == 0 && words.length > 0)
			r = tell(o, at, text_string(&words));
	}
	*ret = found;
	return r;
}

int obstacles_tell(struct obstacles *o, struct follow *f, const struct id_list *ids, enum obstacles_found *ret,
	struct gd_error *err)
{
	struct verdicts *v;
	uint64_t begin = clock_now_ns();
	*ret = OBSTACLES_NONE;
	if (begin < o->next_ns)
		return 0;
	int r = verdicts_open(f, NULL, NULL, VERDICTS_QUICK, &v, err);
	if (r < 0)
		return r;
	r = look(o, v, f, ids, ret);
	verdicts_close(v);
	o->next_ns = begin + (clock_now_ns() - begin) * PART;
	return r < 0 ? error_set(err, r, "cannot read the queue: %s", error_words(r)) : 0;
}

void obstacles_finish(struct obstacles *o)
{
	id_list_finish(&o->told);
}
