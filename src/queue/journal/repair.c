/* SPDX-License-Identifier: MIT */
#include "queue/journal/repair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "queue/journal/draft.h"
#include "queue/journal/follow.h"
#include "queue/journal/record.h"

bool repair_is_needed(const struct jobs *js, const struct journal_reader *r)
{
	return js->damaged || js->bad_lines || js->orphaned_lines || r->repeated || r->disordered;
}

struct copying {
	struct draft draft;
	const struct jobs *jobs;
};

static int copy_line(void *context, uint64_t line_no, const char *line, size_t size)
{
	struct copying *c = context;
	struct record r;
	(void)line_no;
	if (size == 0 || record_parse(line, size, &r) < 0 || r.event == EVENT_JOURNAL || r.event == EVENT_LOSS ||
		r.event == EVENT_LOST)
		return 0;
	/* The other lines of a job whose `add` was lost are useless. */
	if (r.id && !jobs_find(c->jobs, r.id))
		return 0;
	cleanup_(text_finish) struct text t = {0};
	text_append(&t, line, size);
	text_append_char(&t, '\n');
	return text_error(&t) ? text_error(&t) : draft_add(&c->draft, t.data, t.length);
}

static int copy_lines(struct copying *c)
{
	struct journal_reader r;
	/* The locked file, regardless of the file at the path. */
	int e = journal_reader_init_open(&r, c->draft.journal);
	if (e < 0)
		return e;
	r.sorted = true;
	e = journal_reader_read(&r, copy_line, c);
	journal_reader_finish(&r);
	return e == 1 ? -ESTALE : e;
}

/* Written first, so that jobs added from commands files always stay held. */
static int write_lost(struct draft *d, const struct jobs *js)
{
	cleanup_(text_finish) struct text t = {0};
	for (size_t i = 0; i < js->lost_ids.count; i++)
		record_write_lost(&t, js->lost_ids.ranges[i].first, js->lost_ids.ranges[i].last);
	if (js->lines_lost && js->lost_ids.count == 0)
		record_write_lost(&t, 0, 0);
	if (text_error(&t))
		return text_error(&t);
	return t.length ? draft_add(d, t.data, t.length) : 0;
}

static int write_unknown(struct draft *d, const struct jobs *js)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < js->count; i++) {
		cleanup_(text_finish) struct text t = {0};
		if (js->by_id[i]->state != JOB_UNKNOWN)
			continue;
		record_write_control(&t, EVENT_UNKNOWN_JOB, js->by_id[i]->id, REASON_LOST_RECORD);
		r = text_error(&t) ? text_error(&t) : draft_add(d, t.data, t.length);
	}
	return r;
}

/* FILE.damaged-20261117T031500Z, with a number appended if that exists. */
static int keep_damaged(const struct journal *j, struct repair_result *ret)
{
	struct tm tm;
	char date[32];
	time_t now = time(NULL);
	int r = -EEXIST;
	if (!gmtime_r(&now, &tm) || strftime(date, sizeof(date), "%Y%m%dT%H%M%SZ", &tm) == 0)
		return -EINVAL;
	for (int i = 0; r == -EEXIST && i < 100; i++) {
		int n = i ? snprintf(ret->kept, sizeof(ret->kept), "%s.damaged-%s-%d", j->name, date, i)
			  : snprintf(ret->kept, sizeof(ret->kept), "%s.damaged-%s", j->name, date);
		r = n >= (int)sizeof(ret->kept) ? -ENAMETOOLONG : draft_keep_old(j, ret->kept);
	}
	return r;
}

static int write_copy(struct journal *j, const struct jobs *js, struct repair_result *ret, struct gd_error *err)
{
	struct copying c = {.jobs = js};
	int r = draft_open(&c.draft, j, err);
	if (r < 0)
		return r;
	r = write_lost(&c.draft, js);
	if (r == 0)
		r = copy_lines(&c);
	if (r == 0)
		r = write_unknown(&c.draft, js);
	if (r == 0)
		r = draft_sync(&c.draft);
	if (r == 0)
		r = keep_damaged(j, ret);
	if (r < 0)
		error_set(err, r, "cannot repair journal '%s': %s; the journal is unchanged", j->path, error_words(r));
	else
		r = draft_commit(&c.draft, err);
	draft_close(&c.draft);
	return r;
}

int repair(struct journal *j, struct repair_result *ret, struct gd_error *err)
{
	struct follow f;
	*ret = (struct repair_result){0};
	int r = journal_lock(j, err);
	if (r < 0)
		return r;
	r = follow_open_journal(j, &f, err);
	if (r == 0) {
		ret->repaired = repair_is_needed(&f.jobs, &f.reader);
		if (ret->repaired)
			r = write_copy(j, &f.jobs, ret, err);
		follow_close(&f);
	}
	journal_unlock(j);
	return r;
}
