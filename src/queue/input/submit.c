/* SPDX-License-Identifier: MIT */
#include "queue/input/submit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/error.h"
#include "base/trust.h"
#include "queue/input/line_tally.h"
#include "queue/journal/follow.h"

/* Lines are collected to about this much before they are written. */
#define BATCH_BYTES ((size_t)4 << 20)

int submit_begin(struct submit *s, struct journal *j, struct id_list *ids, struct gd_error *err)
{
	*s = (struct submit){.journal = j, .ids = ids, .now_ms = date_now_ms()};
	return journal_lock(j, err);
}

bool submit_cwd_is_own(void)
{
	cleanup_(closep) int fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 && !trust_objection(fd);
}

int submit_check_after(const struct jobs *js, const struct job_spec *spec, struct gd_error *err)
{
	for (size_t i = 0; i < spec->num_after; i++)
		if (!jobs_find(js, spec->after[i]))
			return error_set(
				err, -EINVAL, "adding a job after %" PRIu64 ": there is no such job", spec->after[i]);
	return 0;
}

static int submit_flush(struct submit *s, struct gd_error *err)
{
	size_t written = 0;
	int r = s->lines.length ? journal_append(s->journal, s->lines.data, s->lines.length, &written, err) : 0;
	size_t kept = 0;
	for (const char *p = s->lines.data; kept < s->pending_ids && (size_t)(p - s->lines.data) < written; kept++)
		p = (const char *)memchr(p, '\n', written - (size_t)(p - s->lines.data)) + 1;
	s->ids->count -= s->pending_ids - kept;
	s->pending_ids = 0;
	text_clear(&s->lines);
	return r;
}

/* In JSON, a byte takes six at most; the rest of the line has room behind them. */
#define MAX_COMMAND_BYTES ((size_t)10 << 20)

static int check_size(size_t command_size, struct gd_error *err)
{
	if (command_size <= MAX_COMMAND_BYTES)
		return 0;
	return error_set(err, -E2BIG,
		"adding a job: its command has %zu MiB, at most %zu are possible; put it into a script",
		command_size >> 20, MAX_COMMAND_BYTES >> 20);
}

int submit_add(struct submit *s, const struct job_spec *spec, struct gd_error *err)
{
	int r = check_size(spec->command_size, err);
	if (r < 0)
		return r;
	uint64_t id = journal_take_ids(s->journal, 1);
	record_write_add(&s->lines, id, s->now_ms, spec);
	if (text_error(&s->lines) || id_list_add(s->ids, id) < 0)
		return error_set(err, -ENOMEM, "adding a job: out of memory");
	s->pending_ids++;
	return s->lines.length > BATCH_BYTES ? submit_flush(s, err) : 0;
}

void submit_abort(struct submit *s)
{
	s->ids->count -= s->pending_ids;
	journal_unlock(s->journal);
	text_finish(&s->lines);
}

/* What could not be synced was not accepted: said so to the queue, too. */
static void take_back(struct journal *j, struct id_list *ids)
{
	cleanup_(text_finish) struct text t = {0};
	for (size_t i = 0; i < ids->count; i++)
		record_write_control(&t, EVENT_CANCEL, ids->ids[i], REASON_NOT_SYNCED);
	if (t.length && !text_error(&t) && journal_lock(j, NULL) == 0) {
		if (journal_raise_fence(j, NULL) == 0)
			journal_append(j, t.data, t.length, NULL, NULL);
		journal_unlock(j);
	}
	ids->count = 0;
}

int submit_commit(struct submit *s, struct gd_error *err)
{
	int r = submit_flush(s, err);
	journal_unlock(s->journal);
	text_finish(&s->lines);
	if (s->ids->count == 0)
		return r;
	struct gd_error sync_error;
	int synced = journal_sync(s->journal, &sync_error);
	if (synced < 0) {
		take_back(s->journal, s->ids);
		return error_set(err, synced, "%s; what was added has been cancelled", sync_error.message);
	}
	return r;
}

/* ---- A commands file ------------------------------------------------------------------ */

static int add_command(
	struct submit *s, const struct shell_command *c, const struct job_spec *base, struct gd_error *err)
{
	const struct job_options *o = c->options;
	struct job_spec spec = *base;
	spec.command = c->bytes.data;
	spec.command_size = c->bytes.size;
	if (o->set & 1u << JOB_OPTION_MEM)
		spec.mem_mb = (int64_t)((o->mem_bytes + (1 << 20) - 1) >> 20);
	if (o->set & 1u << JOB_OPTION_NUM_GPUS)
		spec.num_gpus = o->num_gpus;
	if (o->set & 1u << JOB_OPTION_TIMEOUT)
		spec.timeout_ms = (int64_t)o->timeout_ms;
	if (o->set & 1u << JOB_OPTION_NAME)
		spec.name = o->name;
	if (o->set & 1u << JOB_OPTION_PRIORITY)
		spec.priority = o->priority;
	if (o->set & 1u << JOB_OPTION_RETRIES)
		spec.retries = o->retries;
	if (o->set & 1u << JOB_OPTION_AFTER) {
		spec.after = o->after;
		spec.num_after = o->num_after;
	}
	return submit_add(s, &spec, err);
}

static int check_after(const struct jobs *js, const struct shell_command *c, const char *name, struct gd_error *err)
{
	for (size_t i = 0; c->options->set & 1u << JOB_OPTION_AFTER && i < c->options->num_after; i++)
		if (!jobs_find(js, c->options->after[i]))
			return error_set(err, -EINVAL, "%s:%" PRIu64 ": after=%" PRIu64 ": there is no such job", name,
				c->line, c->options->after[i]);
	return 0;
}

static int rewind_file(struct commands *c, struct gd_error *err)
{
	int r = commands_rewind(c);
	return r < 0 ? error_set(err, r, "reading '%s': %s", commands_name(c), error_words(r)) : 0;
}

/* First pass without adding: a mistake in the last line must not leave the first half queued. */
static int check_file(struct commands *c, const struct jobs *js, struct gd_error *err)
{
	struct shell_command command;
	int r = rewind_file(c, err);
	while (r == 0) {
		r = commands_next(c, &command, err);
		if (r <= 0)
			return r;
		r = check_after(js, &command, commands_name(c), err);
		if (r == 0)
			r = check_size(command.bytes.size, err);
	}
	return r;
}

static int add_new_lines(
	struct commands *c, const struct job_spec *base, const struct jobs *js, struct submit *s, struct gd_error *err)
{
	cleanup_(line_tally_finish) struct line_tally tally = {0};
	struct shell_command command;
	int r = base->file ? line_tally_add_file(&tally, js, base->file) : 0;
	if (r < 0)
		return error_set(err, r, "reading '%s': out of memory", commands_name(c));
	r = rewind_file(c, err);
	while (r == 0) {
		r = commands_next(c, &command, err);
		if (r <= 0)
			return r;
		r = check_after(js, &command, commands_name(c), err);
		if (r == 0 && !(base->file && line_tally_take(&tally, command.bytes.data, command.bytes.size)))
			r = add_command(s, &command, base, err);
	}
	return r;
}

int submit_file(
	struct journal *j, struct commands *c, const struct job_spec *base, struct id_list *ids, struct gd_error *err)
{
	struct follow f;
	struct submit s;
	/* Most of the journal before the lock, so that nobody waits for us. */
	int r = follow_open_journal(j, &f, err);
	if (r < 0)
		return r;
	r = check_file(c, &f.jobs, err);
	if (r == 0)
		r = submit_begin(&s, j, ids, err);
	if (r == 0) {
		r = follow_update(&f, err);
		if (r == 0)
			r = submit_check_after(&f.jobs, base, err);
		if (r == 0)
			r = add_new_lines(c, base, &f.jobs, &s, err);
		struct gd_error commit_error;
		int committed = submit_commit(&s, &commit_error);
		if (r == 0 && committed < 0)
			r = error_set(err, committed, "%s", commit_error.message);
	}
	follow_close(&f);
	return r;
}
