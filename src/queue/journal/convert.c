/* SPDX-License-Identifier: MIT */
#include "queue/journal/convert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/error.h"
#include "base/hash.h"
#include "queue/journal/draft.h"
#include "queue/journal/jobs.h"
#include "queue/journal/record.h"

static int write_jobs(struct draft *d, const struct jobs *js)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < js->count; i++) {
		cleanup_(text_finish) struct text t = {0};
		record_write_job(&t, js->by_id[i]);
		r = text_error(&t) ? text_error(&t) : draft_add(d, t.data, t.length);
	}
	return r == 0 ? draft_sync(d) : r;
}

/* Keeps the file as FILE.original, with the time appended if that exists already. */
static int keep_original(const struct journal *j)
{
	char name[NAME_MAX + 1];
	if (snprintf(name, sizeof(name), "%s.original", j->name) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	int r = draft_keep_old(j, name);
	if (r == -EEXIST &&
		snprintf(name, sizeof(name), "%s.original-%lld", j->name, (long long)date_now_ms()) < (int)sizeof(name))
		r = draft_keep_old(j, name);
	return r;
}

static int begin_queue(struct journal *j, const struct journal_counters *c, uint64_t last_id)
{
	struct hash h;
	if (c)
		memcpy(j->queue, c->queue, sizeof(j->queue));
	else if (getrandom(&h, sizeof(h), 0) != sizeof(h))
		return -errno;
	else
		hash_format(h, j->queue);
	uint64_t now = (uint64_t)date_now_ms() * 1000;
	j->generation = c ? c->generation : 0;
	j->next_id = last_id + 1;
	if (c && c->next_id > j->next_id)
		j->next_id = c->next_id;
	j->fence = (c && c->fence >= now ? c->fence : now) + 1;
	memcpy(j->boot, j->here.boot, sizeof(j->boot));
	memcpy(j->host, j->here.host, sizeof(j->host));
	return 0;
}

static int replace(struct journal *j, const struct jobs *js, struct gd_error *err)
{
	struct draft d;
	int r = draft_open(&d, j, err);
	if (r < 0)
		return r;
	r = write_jobs(&d, js);
	if (r == 0)
		r = keep_original(j);
	if (r < 0)
		error_set(err, r, "cannot convert journal '%s': %s", j->path, error_words(r));
	else
		r = draft_commit(&d, err);
	draft_close(&d);
	return r;
}

int convert_original(struct journal *j, const struct journal_counters *c, struct gd_error *err)
{
	struct journal_reader reader;
	struct jobs js;
	jobs_init(&js);
	int r = journal_reader_init_open(&reader, j);
	if (r == 0)
		r = journal_reader_read(&reader, jobs_apply, &js);
	journal_reader_finish(&reader);
	if (r == 0)
		r = begin_queue(j, c, js.last_id);
	if (r < 0 || r == 1)
		r = error_set(err, r < 0 ? r : -ESTALE, "cannot convert journal '%s': %s", j->path,
			error_words(r < 0 ? r : -ESTALE));
	else
		r = replace(j, &js, err);
	if (r == 0) {
		j->converted = js.count;
		j->unreadable = js.bad_lines;
	}
	jobs_finish(&js);
	return r;
}
