/* SPDX-License-Identifier: MIT */
#include "slurm/coordinator_journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/lock.h"
#include "queue/journal/damage.h"
#include "queue/journal/record.h"
#include "queue/runner/runner_lock.h"
#include "queue/runner/runner_rules.h"

/* Delay before the next attempt to take the lock, if a foreign lock prevents it. */
#define BLOCKED_PAUSE_NS NS_PER_S

/* A line that the core requested, with the memory that it points to. */
struct pending_line {
	struct coordinator_write write;
	struct frame_end end;
	char pilot[FRAME_NAME_ROOM], node[FRAME_NAME_ROOM];
	size_t start_at, start_size; /* the `start` in struct coordinator_journal */
	bool wanted;                 /* it is in the append that is being made */
	size_t lines_end;            /* where it ends in this append */
	int result;
};

struct coordinator_journal {
	struct coordinator_journal_options options;
	struct journal *journal;
	struct jobs jobs;
	struct journal_reader reader;
	struct machine here;
	int lock_fd; /* runner.lock */
	uint64_t epoch;
	uint64_t fence; /* the fence at which the epoch was last seen to be ours */
	bool loading;   /* the journal is being read from its beginning */
	struct pending_line *pending;
	size_t num_pending, pending_capacity;
	struct text starts;        /* of the pending lines */
	struct gd_error blocked;   /* why a foreign lock prevents the lock; code 0: it does not */
	uint64_t blocked_pause_ns; /* do not retry before this time */
};

/* ---- Reading ---------------------------------------------------------------------------- */

static void on_change(void *context, struct job *job, int old_state)
{
	struct coordinator_journal *c = context;
	if (!c->loading && c->options.on_change)
		c->options.on_change(c->options.context, job, old_state);
}

static void on_hook_failed(void *context, const struct job *job, const struct record *outcome)
{
	struct coordinator_journal *c = context;
	if (!c->loading && c->options.on_hook_failed)
		c->options.on_hook_failed(c->options.context, job, outcome);
}

/* Returns 1 if the file was replaced or its lines were reordered. */
static int read_lines(struct coordinator_journal *c)
{
	struct damage_check check;
	damage_look(&check, &c->reader, -1);
	int e = journal_reader_read(&c->reader, jobs_apply, &c->jobs);
	return e == 0 ? damage_judge(&check, &c->reader, -1, &c->jobs) : e;
}

static int explain(const struct coordinator_journal *c, int code, struct gd_error *err)
{
	if (code == -EAGAIN)
		return error_set(
			err, code, "cannot read journal '%s': the file keeps being replaced", c->journal->path);
	if (code == -ENOTSUP)
		return error_set(err, code,
			"cannot read journal '%s': it was written by a newer version of gpuq (journal version %d); use that version",
			c->journal->path, c->jobs.version);
	return journal_reader_explain(&c->reader, code, err);
}

int coordinator_journal_read(struct coordinator_journal *c, struct gd_error *err)
{
	int e, resets = 0;
	while ((e = read_lines(c)) == 1 && resets++ < JOURNAL_MOST_RESETS) {
		c->loading = true;
		jobs_reset(&c->jobs);
	}
	if (e != 0)
		return explain(c, e == 1 ? -EAGAIN : e, err);
	if (c->loading) {
		c->loading = false;
		if (c->epoch && c->options.on_reload)
			c->options.on_reload(c->options.context);
	}
	return 0;
}

/*
 * Waiting for a process that has a foreign lock takes LOCK_READER_MS, and pilots need answers: after that, fails at
 * once for a while.
 */
static int take_lock(struct coordinator_journal *c, struct gd_error *err)
{
	struct gd_error why = {0};
	if (coordinator_journal_blocked_ns(c))
		return error_set(err, LOCK_BLOCKED, "%s", c->blocked.message);
	int e = journal_lock(c->journal, &why);
	c->blocked = e == LOCK_BLOCKED ? why : (struct gd_error){0};
	if (e == LOCK_BLOCKED)
		c->blocked_pause_ns = clock_now_ns() + BLOCKED_PAUSE_NS;
	/* Pilots know the queue by its path. */
	if (e == 0 && c->journal->moved) {
		journal_unlock(c->journal);
		e = error_set(&why, -ENOENT,
			"cannot use journal '%s': its directory was renamed; rename it back, or end this process (PID %d) and use 'gpuq run --slurm' at the new place",
			c->journal->path, (int)getpid());
	}
	return e < 0 ? error_set(err, e, "%s", why.message) : 0;
}

uint64_t coordinator_journal_blocked_ns(const struct coordinator_journal *c)
{
	return c->blocked.code && clock_now_ns() < c->blocked_pause_ns ? c->blocked_pause_ns : 0;
}

const char *coordinator_journal_blocked_words(const struct coordinator_journal *c)
{
	return c->blocked.code ? c->blocked.message : NULL;
}

/* Locks and reads the journal. Returns 0 if the queue is still ours, otherwise -ESTALE. Stays locked on -ESTALE, too.
 */
static int lock_and_judge(struct coordinator_journal *c, bool *ret_locked, struct gd_error *err)
{
	int e = take_lock(c, err);
	*ret_locked = e == 0;
	if (e == 0)
		e = coordinator_journal_read(c, err);
	if (e < 0)
		return e;
	if (c->jobs.epoch != c->epoch)
		return error_set(err, -ESTALE, "another coordinator now runs this queue, on host '%s'",
			c->jobs.epoch_host ? c->jobs.epoch_host : "(unknown)");
	c->fence = c->journal->fence;
	return 0;
}

int coordinator_journal_check(struct coordinator_journal *c, struct gd_error *err)
{
	uint64_t fence;
	bool locked = false;
	/* If a line is being written right now, wait for the lock. */
	if (journal_peek_fence(c->journal, &fence) == 0 && fence == c->fence)
		return 0;
	int e = lock_and_judge(c, &locked, err);
	if (locked)
		journal_unlock(c->journal);
	return e;
}

/* ---- Writing ---------------------------------------------------------------------------- */

/* The job may have changed since the scheduler's decision. */
static bool may_start(const struct coordinator_journal *c, const struct attempt_id *id)
{
	const struct job *job = jobs_find(&c->jobs, id->job);
	return job && job->state == JOB_PENDING && !c->jobs.paused && id->attempt >= job_next_attempt(job);
}

/* An earlier coordinator wrote the end of this attempt and died before it could acknowledge it. */
static bool has_end(const struct coordinator_journal *c, const struct attempt_id *id)
{
	const struct job *job = jobs_find(&c->jobs, id->job);
	const struct job_attempt *a = job ? job->attempts : NULL;
	while (a && a->attempt != id->attempt)
		a = a->earlier;
	return a && a->state != JOB_RUNNING;
}

static void write_start(const struct coordinator_journal *c, struct text *t, const struct coordinator_write *w,
	const struct start_details *d)
{
	record_write_start(t, &(struct attempt_start){.id = w->id.job,
				      .attempt = w->id.attempt,
				      .keeper = "",
				      .pilot = w->pilot,
				      .epoch = c->epoch,
				      .log = d->log,
				      .gpus = d->gpus,
				      .num_gpus = d->num_gpus,
				      .retries = d->retries,
				      .on_finish = d->on_finish});
}

static enum job_state state_of(enum attempt_outcome outcome)
{
	return outcome == OUTCOME_COMPLETED ? JOB_COMPLETED : outcome == OUTCOME_FAILED ? JOB_FAILED : JOB_CANCELLED;
}

static void write_end(const struct coordinator_journal *c, struct text *t, const struct frame_end *e)
{
	const struct job *job = jobs_find(&c->jobs, e->id.job);
	bool interrupted = e->outcome == OUTCOME_INTERRUPTED;
	record_write_end(t, &(struct attempt_end){.id = e->id.job,
				    .attempt = e->id.attempt,
				    .time_ms = e->time_ms > 0 ? e->time_ms : 0,
				    .state = state_of(e->outcome),
				    .exit_code = e->exit_code,
				    .signal = e->signal,
				    .reason = *e->reason ? e->reason : NULL,
				    .duration_ms = e->duration_ms,
				    .peak_mem_mb = e->peak_mem_mb,
				    .energy_j = e->energy_j > 0 ? e->energy_j : -1,
				    .interrupted = interrupted,
				    .hook_due = !interrupted && job && job->wish->on_finish});
}

static void write_pilot(const struct coordinator_journal *c, struct text *t, const struct pending_line *line)
{
	const struct coordinator_write *w = &line->write;
	record_write_pilot(t, &(struct pilot_record){.name = line->pilot,
				      .epoch = c->epoch,
				      .gone = w->kind == WRITE_PILOT_GONE,
				      .node = line->node,
				      .slurm_job = w->slurm_job,
				      .started_ms = w->started_ms,
				      .lease_ms = w->lease_ms,
				      .until_ms = w->remaining_ms < 0 ? 0 : date_now_ms() + w->remaining_ms});
}

static void write_lines(const struct coordinator_journal *c, struct text *t, const struct pending_line *line)
{
	const struct coordinator_write *w = &line->write;
	switch (w->kind) {
	case WRITE_START:
		text_append(t, c->starts.data + line->start_at, line->start_size);
		break;
	case WRITE_END:
		write_end(c, t, &line->end);
		break;
	case WRITE_VOID:
		record_write_void(t, w->id.job, w->id.attempt, c->epoch);
		break;
	case WRITE_LOST:
		write_end(c, t, &line->end);
		if (w->hold)
			record_write_control(t, EVENT_HOLD, line->end.id.job, "lost too often with its pilot");
		break;
	case WRITE_PILOT:
	case WRITE_PILOT_GONE:
		write_pilot(c, t, line);
		break;
	}
}

int coordinator_journal_add(
	struct coordinator_journal *c, const struct coordinator_write *w, const struct start_details *details)
{
	if (array_reserve(c->pending, &c->pending_capacity, c->num_pending + 1) < 0)
		return -ENOMEM;
	struct pending_line *line = &c->pending[c->num_pending];
	*line = (struct pending_line){.write = *w, .start_at = c->starts.length};
	if (w->end)
		line->end = *w->end;
	snprintf(line->pilot, sizeof(line->pilot), "%s", w->pilot ? w->pilot : "");
	snprintf(line->node, sizeof(line->node), "%s", w->node ? w->node : "");
	if (w->kind == WRITE_START)
		write_start(c, &c->starts, w, details);
	if (text_error(&c->starts)) {
		c->starts.length = line->start_at;
		c->starts.error = 0;
		return -ENOMEM;
	}
	line->start_size = c->starts.length - line->start_at;
	c->num_pending++;
	return 0;
}

/*
 * e: whether the queue is ours. An end that a pilot has reported is valid whichever coordinator writes it, so it is
 * written even if the journal cannot be read.
 */
static void judge_line(
	const struct coordinator_journal *c, struct pending_line *line, int e, struct text *lines, struct gd_error *err)
{
	const struct coordinator_write *w = &line->write;
	line->result = e;
	if (e == 0 && w->kind == WRITE_START && !may_start(c, &w->id))
		line->result = error_set(
			err, -ECANCELED, "job %llu was changed before its start", (unsigned long long)w->id.job);
	bool repeated = e == 0 && w->kind == WRITE_END && has_end(c, &line->end.id);
	line->wanted = !repeated && (line->result == 0 || w->kind == WRITE_END);
	if (line->wanted)
		write_lines(c, lines, line);
	line->lines_end = lines->length;
}

/* If a foreign lock prevents the start, the scheduler decides again later. */
static int result_without_lock(const struct pending_line *line, int e)
{
	return e == LOCK_BLOCKED && line->write.kind == WRITE_START ? -ECANCELED : e;
}

static void append_pending(
	struct coordinator_journal *c, struct pending_line *pending, size_t count, struct gd_error *err)
{
	bool locked = false;
	cleanup_(text_finish) struct text lines = {0};
	size_t written = 0;
	int e = lock_and_judge(c, &locked, err);
	for (size_t i = 0; i < count && locked; i++)
		judge_line(c, &pending[i], e, &lines, err);
	for (size_t i = 0; i < count && !locked; i++)
		pending[i].result = result_without_lock(&pending[i], e);
	e = text_error(&lines);
	if (e == 0 && lines.length)
		e = journal_append(c->journal, lines.data, lines.length, &written, err);
	for (size_t i = 0; i < count && locked; i++)
		if (pending[i].wanted)
			pending[i].result = pending[i].lines_end <= written ? 0 : e;
	if (locked)
		journal_unlock(c->journal);
}

bool coordinator_journal_append(
	struct coordinator_journal *c, coordinator_appended_fn *fn, void *context, struct gd_error *err)
{
	/* Reading calls functions of the owner. */
	cleanup_(freep) struct pending_line *pending = c->pending;
	size_t count = c->num_pending;
	if (count == 0)
		return false;
	c->pending = NULL;
	c->num_pending = c->pending_capacity = 0;
	append_pending(c, pending, count, err);
	text_clear(&c->starts);
	for (size_t i = 0; i < count; i++)
		fn(context, pending[i].write.number, pending[i].result);
	return true;
}

int coordinator_journal_append_lines(
	struct coordinator_journal *c, const void *lines, size_t size, struct gd_error *err)
{
	int e = take_lock(c, err);
	if (e < 0)
		return e;
	e = journal_append(c->journal, lines, size, NULL, err);
	journal_unlock(c->journal);
	return e;
}

int coordinator_journal_sync(struct coordinator_journal *c, struct gd_error *err)
{
	return journal_sync(c->journal, err);
}

/* ---- Taking the queue over -------------------------------------------------------------- */

static bool has_pilots(const struct jobs *js)
{
	for (const struct queue_pilot *p = js->pilots; p; p = p->next)
		if (!p->gone)
			return true;
	return false;
}

/* Locks between hosts may not work, so the other coordinator may still be alive. */
static int check_host(const struct coordinator_journal *c, struct gd_error *err)
{
	const char *host = c->jobs.epoch_host;
	if (!host || strcmp(host, c->here.host) == 0 || c->options.takeover || !has_pilots(&c->jobs))
		return 0;
	return error_set(err, -EREMOTE,
		"the last coordinator of this queue ran on host '%s', and its pilots may still be running; start it there, or use --takeover if that coordinator is gone",
		host);
}

static int append_coordinator(struct coordinator_journal *c, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	int64_t lease = c->options.lease_ms > c->jobs.max_lease_ms ? c->options.lease_ms : c->jobs.max_lease_ms;
	record_write_coordinator(&t, c->jobs.epoch + 1, &c->here, getpid(), lease);
	if (text_error(&t))
		return error_set(err, text_error(&t), "cannot start the coordinator: out of memory");
	int e = journal_raise_fence(c->journal, err);
	return e < 0 ? e : journal_append(c->journal, t.data, t.length, NULL, err);
}

static int take_over(struct coordinator_journal *c, struct gd_error *err)
{
	/* The first lock recovers and converts the journal if needed. All but the last lines are read without the lock.
	 */
	int e = journal_lock(c->journal, err);
	if (e < 0)
		return e;
	journal_unlock(c->journal);
	e = coordinator_journal_read(c, err);
	if (e == 0)
		e = journal_lock(c->journal, err);
	if (e < 0)
		return e;
	e = coordinator_journal_read(c, err);
	if (e == 0)
		e = check_host(c, err);
	if (e == 0)
		e = append_coordinator(c, err);
	if (e == 0)
		e = coordinator_journal_read(c, err);
	c->fence = c->journal->fence;
	c->epoch = c->jobs.epoch;
	journal_unlock(c->journal);
	return e == 0 ? journal_sync(c->journal, err) : e;
}

int coordinator_journal_open(const struct coordinator_journal_options *options, struct coordinator_journal **ret,
	pid_t *ret_holder, struct gd_error *err)
{
	struct coordinator_journal *c = calloc(1, sizeof(*c));
	if (!c)
		return error_set(err, -ENOMEM, "cannot start the coordinator: out of memory");
	c->options = *options;
	c->journal = options->journal;
	c->lock_fd = -1;
	c->loading = true;
	jobs_init(&c->jobs);
	c->jobs.on_change = on_change;
	c->jobs.on_hook_failed = on_hook_failed;
	c->jobs.context = c;
	int e = machine_get(&c->here);
	if (e < 0)
		error_set(err, e, "cannot start the coordinator: %s", error_words(e));
	if (e == 0)
		e = runner_lock_take(c->journal, &c->here, &c->lock_fd, ret_holder, err);
	if (e == 0) {
		e = journal_reader_init_at(&c->reader, c->journal);
		if (e < 0)
			error_set(err, e, "cannot read journal '%s': %s", c->journal->path, error_words(e));
	}
	if (e == 0)
		e = take_over(c, err);
	/* The GPUs of this host are not those of the queue. */
	if (e == 0)
		(void)runner_rules_write(c->lock_fd, &c->here, &(struct runner_rules){.gpus = RULES_NO_GPUS});
	if (e < 0) {
		coordinator_journal_close(c);
		return e;
	}
	*ret = c;
	return 0;
}

int coordinator_journal_leave(
	struct coordinator_journal *c, bool (*is_over)(void *context), void *context, struct gd_error *err)
{
	bool locked = false;
	int e = lock_and_judge(c, &locked, err);
	if (e == 0 && is_over(context)) {
		close_fd(&c->lock_fd);
		e = 1;
	}
	if (locked)
		journal_unlock(c->journal);
	return e;
}

void coordinator_journal_close(struct coordinator_journal *c)
{
	if (!c)
		return;
	jobs_finish(&c->jobs);
	free(c->pending);
	text_finish(&c->starts);
	if (c->reader.buf)
		journal_reader_finish(&c->reader);
	closep(&c->lock_fd);
	free(c);
}

const char *coordinator_journal_host(const struct coordinator_journal *c)
{
	return c->here.host;
}

uint64_t coordinator_journal_fence(const struct coordinator_journal *c)
{
	return c->fence;
}

const struct jobs *coordinator_journal_jobs(const struct coordinator_journal *c)
{
	return &c->jobs;
}

/* ---- For the core ----------------------------------------------------------------------- */

void coordinator_journal_settings(const struct coordinator_journal *c, struct coordinator_settings *settings)
{
	settings->epoch = c->epoch;
	settings->max_lease_ms = c->jobs.max_lease_ms;
}

unsigned coordinator_journal_losses(const struct job *job)
{
	unsigned losses = 0;
	for (const struct job_attempt *a = job->attempts; a; a = a->earlier)
		losses += a->interrupted && a->reason && strcmp(a->reason, REASON_PILOT_LOST) == 0;
	return losses;
}

int coordinator_journal_restore(const struct coordinator_journal *c, struct coordinator_core *core)
{
	int e = 0;
	for (const struct queue_pilot *p = c->jobs.pilots; p && e == 0; p = p->next)
		if (!p->gone)
			e = coordinator_core_restore_pilot(core, &(struct restored_pilot){.name = p->keeper.name,
									 .node = p->keeper.machine.host,
									 .slurm_job = p->slurm_job,
									 .started_ms = p->started_ms,
									 .lease_ms = p->lease_ms});
	for (size_t i = 0; i < c->jobs.count && e == 0; i++) {
		const struct job *job = c->jobs.by_id[i];
		if (job->state != JOB_RUNNING || !job->keeper || !job->keeper->is_pilot)
			continue;
		e = coordinator_core_restore_attempt(
			core, &(struct restored_attempt){.id = {job->id, job->attempts->attempt},
				      .pilot = job->keeper->name,
				      .losses = coordinator_journal_losses(job)});
	}
	return e;
}
