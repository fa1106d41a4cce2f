/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "cli/queue_view_parts.h"
#include "queue/input/id_list.h"
#include "queue/journal/job_line.h"

/* A GPU number from the journal is not trusted: larger ones get no memory. */
#define MAX_GPU 4095

static_assert((int)VIEW_JOB_PENDING == (int)JOB_PENDING && (int)VIEW_JOB_HELD == (int)JOB_HELD &&
		      (int)VIEW_JOB_RUNNING == (int)JOB_RUNNING && (int)VIEW_JOB_COMPLETED == (int)JOB_COMPLETED &&
		      (int)VIEW_JOB_FAILED == (int)JOB_FAILED && (int)VIEW_JOB_CANCELLED == (int)JOB_CANCELLED &&
		      (int)VIEW_JOB_UNKNOWN == (int)JOB_UNKNOWN,
	"states are handed over by their number");

/* ---- One job ------------------------------------------------------------------------ */

static bool is_plain(const char *s, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)s[i] < 0x20 || (unsigned char)s[i] >= 0x7f)
			return false;
	return true;
}

/* Converts arbitrary bytes to valid UTF-8; newlines and tabs stay. */
static const char *printable(struct text *room, const char *s, size_t size)
{
	if (!s || is_plain(s, size))
		return s;
	text_clear(room);
	for (size_t i = 0; i < size;) {
		unsigned char c = (unsigned char)s[i];
		size_t n = utf8_sequence(s + i, size - i);
		if (n == 0 || c == 0x7f || (c < 0x20 && c != '\n' && c != '\t')) {
			text_appendf(room, "\\x%02x", c);
			i++;
		} else {
			text_append(room, s + i, n);
			i += n;
		}
	}
	return text_string(room);
}

const char *queue_view_printable(struct text *room, const char *s)
{
	return printable(room, s, s ? strlen(s) : 0);
}

bool queue_view_has_too_many(const struct queue_view *v)
{
	return v->follow.reader.limits.foreign && v->follow.jobs.counts[JOB_RUNNING] > JOURNAL_MAX_FOREIGN_RUNNING;
}

/* The memory peak of a running job so far, from the runner's samples; the journal gets it when the job ends. -1:
 * unknown. */
static int64_t running_peak(const struct queue_view *v, uint64_t id)
{
	for (size_t i = 0; i < v->num_peaks && !queue_view_has_too_many(v); i++)
		if (v->peaks[i].job == id)
			return v->peaks[i].mem_mb;
	return -1;
}

/* Oldest first; the journal's list has the newest first. */
static int fill_attempts(struct queue_view *v, const struct job *job)
{
	size_t n = 0;
	for (const struct job_attempt *a = job->attempts; a; a = a->earlier)
		n++;
	if (array_reserve(v->attempts, &v->attempts_capacity, n) < 0)
		return -ENOMEM;
	size_t at = n;
	for (const struct job_attempt *a = job->attempts; a; a = a->earlier)
		v->attempts[--at] = (struct view_attempt){.start_ms = a->start_ms,
			.end_ms = a->end_ms ? a->end_ms : -1,
			.duration_ms = a->duration_ms,
			.peak_mem_mb = a->state == JOB_RUNNING ? running_peak(v, job->id) : a->peak_mem_mb,
			.energy_j = a->energy_j,
			.idle_ms = a->idle ? a->idle->idle_ms : 0,
			.idle_at_ms = a->idle ? a->idle->at_ms : 0,
			.idle_since_ms = a->idle ? a->idle->since_ms : 0,
			.idle_gpus = a->idle ? a->idle->num_gpus : 0,
			.exit_code = a->state == JOB_RUNNING ? -1 : a->exit_code,
			.signal = a->signal,
			.state = (enum view_job_state)a->state,
			.reason = a->reason,
			.log_file = a->log,
			.gpus = a->gpus,
			.num_gpus = a->num_gpus,
			.pid = a->pid};
	return (int)n;
}

static size_t count_delays(const struct job_delay *d)
{
	size_t n = 0;
	for (; d; d = d->earlier)
		n++;
	return n;
}

static void fill_delays_of(struct view_delay *end, const struct job_delay *d)
{
	for (; d; d = d->earlier)
		*--end = (struct view_delay){.from_ms = d->from_ms,
			.to_ms = d->to_ms ? d->to_ms : -1,
			.kind = d->held ? VIEW_DELAY_HELD : VIEW_DELAY_OVER};
}

/* Oldest first, as for attempts. The delay of --begin starts at the submission, so it is the first. */
static int fill_delays(struct queue_view *v, const struct job *job)
{
	int64_t begin_ms = job->wish->begin_ms;
	size_t begins = begin_ms > job->submit_ms, n = begins + count_delays(job->delays);
	if (array_reserve(v->delays, &v->delays_capacity, n) < 0)
		return -ENOMEM;
	fill_delays_of(v->delays + n, job->delays);
	if (begins)
		v->delays[0] = (struct view_delay){job->submit_ms, begin_ms, VIEW_DELAY_BEGIN};
	return (int)n;
}

static int put_job(struct queue_view *v, const struct job *job)
{
	int n = fill_attempts(v, job), num_delays = fill_delays(v, job);
	if (n < 0 || num_delays < 0)
		return -ENOMEM;
	cleanup_(text_finish) struct text scratch = {0};
	size_t command_size;
	const char *command = job_line_command(job, &scratch, &command_size);
	const struct job_wish *w = job->wish;
	const char *reason = job->reason ? job->reason : n > 0 && job_is_final(job) ? v->attempts[n - 1].reason : NULL;
	struct view_job view = {.id = view_job_id(v->queue, job->id),
		.queue = v->queue_name,
		.name = queue_view_printable(&v->name, job->name),
		.command = printable(&v->command, command, command_size),
		.cwd = w->cwd,
		.state = (enum view_job_state)job->state,
		.cancelling = job->state == JOB_RUNNING && job->cancel_requested,
		.paused = job->state == JOB_RUNNING && job->paused,
		.priority = job->priority,
		.num_gpus = w->num_gpus < 0 ? 1 : w->num_gpus,
		.mem_mb = job->need_mb > w->mem_mb && job->need_mb > 0 ? job->need_mb : w->mem_mb,
		.timeout_ms = w->timeout_ms,
		.after = job->after ? job->after + 1 : NULL,
		.num_after = job->after ? (size_t)job->after[0] : 0,
		.submit_ms = job->submit_ms,
		.reason = reason,
		.node = n > 0 ? queue_view_node(job) : NULL,
		.attempts = v->attempts,
		.num_attempts = (size_t)n,
		.delays = v->delays,
		.num_delays = (size_t)num_delays};
	if (text_error(&v->command) || text_error(&v->name))
		return -ENOMEM;
	return view_put_job(v->model, &view);
}

static int take_peaks(void *context, const struct sample *s)
{
	struct queue_view *v = context;
	if (array_reserve(v->peaks, &v->peaks_capacity, s->num_peaks) < 0)
		return -ENOMEM;
	v->num_peaks = s->num_peaks;
	if (s->num_peaks)
		memcpy(v->peaks, s->peaks, s->num_peaks * sizeof(*s->peaks));
	return 1;
}

int queue_view_put_peaks(struct queue_view *v)
{
	int r = v->follow.dir_fd < 0 ? 0 : samples_read_last(v->follow.dir_fd, &v->samples_stamp, take_peaks, v);
	/* If samples cannot be read, only they are missing. */
	if (r <= 0)
		return r == -ENOMEM ? r : 0;
	r = 0;
	for (size_t i = 0; r == 0 && i < v->running.count; i++) {
		const struct job *job = jobs_find(&v->follow.jobs, v->running.ids[i]);
		if (job && running_peak(v, job->id) >= 0)
			r = put_job(v, job);
	}
	return r;
}

/* ---- Counts per GPU ------------------------------------------------------------------ */

static int tally(struct queue_view *v, const struct job *job, const struct job_attempt *a)
{
	const char *node = queue_view_node(job);
	for (int i = 0; i < a->num_gpus; i++) {
		size_t gpu = (size_t)a->gpus[i];
		if (a->gpus[i] < 0 || gpu > MAX_GPU)
			continue;
		if (node) {
			if (queue_view_tally_node(v, node, a->gpus[i], a) < 0)
				return -ENOMEM;
			continue;
		}
		if (array_reserve(v->tallies, &v->tallies_capacity, gpu + 1) < 0)
			return -ENOMEM;
		while (v->num_tallies <= gpu)
			v->tallies[v->num_tallies++] = (struct gpu_tally){.last_duration_ms = -1};
		struct gpu_tally *t = &v->tallies[gpu];
		t->completed += a->state == JOB_COMPLETED;
		t->failed += a->state == JOB_FAILED;
		t->timeouts += a->state == JOB_FAILED && a->reason && strcmp(a->reason, REASON_TIMEOUT) == 0;
		t->last_duration_ms = a->duration_ms;
	}
	return 0;
}

static void forget_running(struct queue_view *v, uint64_t id)
{
	for (size_t i = 0; i < v->running.count; i++)
		if (v->running.ids[i] == id) {
			v->running.ids[i] = v->running.ids[--v->running.count];
			return;
		}
}

void queue_view_on_change(void *context, struct job *job, int old_state)
{
	struct queue_view *v = context;
	int r = id_list_add(&v->changed, job->id);
	if (old_state == JOB_RUNNING && job->state != JOB_RUNNING) {
		forget_running(v, job->id);
		if (r == 0)
			r = tally(v, job, job->attempts);
	}
	if (r == 0 && job->state == JOB_RUNNING && old_state != JOB_RUNNING)
		r = id_list_add(&v->running, job->id);
	if (r < 0)
		v->error = r;
}

/* ---- Filling the model ------------------------------------------------------------------ */

int queue_view_put_work(struct queue_view *v)
{
	const struct view_model *m = v->model;
	uint64_t timeouts = 0;
	if (v->whole)
		return 0; /* the whole view counts all queues together */
	for (size_t k = 0; k < queue_view_num_parts(v); k++) {
		const struct queue_view *part = queue_view_part(v, k);
		for (size_t i = 0; part && i < part->num_tallies; i++)
			timeouts += part->tallies[i].timeouts;
		for (size_t i = 0; part && i < part->num_node_tallies; i++)
			timeouts += part->node_tallies[i].tally.timeouts;
	}
	struct view_work work = {.title = "gpuq",
		.total = (int64_t)view_num_jobs(m),
		.done = view_job_count(m, VIEW_JOB_COMPLETED),
		.failed = view_job_count(m, VIEW_JOB_FAILED) + view_job_count(m, VIEW_JOB_CANCELLED),
		.timeouts = timeouts,
		.running = view_job_count(m, VIEW_JOB_RUNNING),
		.waiting = view_job_count(m, VIEW_JOB_PENDING) + view_job_count(m, VIEW_JOB_HELD),
		/* No start_ns: jobs that ended before we started do not show the current speed. */
		.time_ns = clock_now_ns()};
	return view_put_work(v->model, &work);
}

/* Only for a single queue; several queues are paused independently. */
static int put_pauses(struct queue_view *v)
{
	const struct job_delay *newest = v->follow.jobs.pauses;
	size_t n = count_delays(newest);
	if (v->whole)
		return 0;
	if (array_reserve(v->delays, &v->delays_capacity, n) < 0)
		return -ENOMEM;
	fill_delays_of(v->delays + n, newest);
	return view_put_pauses(v->model, v->delays, n);
}

/* Walks all jobs instead of the changed ones: on_change was not set when they were read, or reported them twice. */
int queue_view_put_all(struct queue_view *v)
{
	const struct jobs *js = &v->follow.jobs;
	int r = 0;
	view_forget_queue(v->model, v->queue);
	v->changed.count = v->running.count = 0;
	v->num_tallies = v->num_node_tallies = 0;
	for (size_t i = 0; r == 0 && i < js->count; i++) {
		const struct job *job = js->by_id[i];
		for (const struct job_attempt *a = job->attempts; r == 0 && a; a = a->earlier)
			if (a->state != JOB_RUNNING)
				r = tally(v, job, a);
		if (r == 0 && job->state == JOB_RUNNING)
			r = id_list_add(&v->running, job->id);
		if (r == 0)
			r = put_job(v, job);
	}
	if (r == 0)
		r = put_pauses(v);
	return r < 0 ? r : queue_view_put_work(v);
}

int queue_view_put_changed(struct queue_view *v)
{
	if (v->changed.count == 0)
		return 0;
	int r = 0;
	id_list_sort(&v->changed);
	for (size_t i = 0; r == 0 && i < v->changed.count; i++) {
		const struct job *job = jobs_find(&v->follow.jobs, v->changed.ids[i]);
		if (job)
			r = put_job(v, job);
	}
	v->changed.count = 0;
	if (r == 0)
		r = queue_view_put_work(v);
	return r == 0 && !v->options.no_gpus ? queue_view_put_gpus(v) : r;
}
