/* SPDX-License-Identifier: MIT */
#include "view/web/web_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_put.h"
#include "base/utf8.h"
#include "view/model/palette.h"

#define ROW_COMMAND 400
#define MAX_HISTORY 600

static void put_known(struct text *t, const char *key, int64_t n)
{
	if (n >= 0)
		json_put_int(t, key, n);
	else
		json_put_null(t, key);
}

static void put_string(struct text *t, const char *key, const char *s)
{
	if (s)
		json_put_string(t, key, s);
	else
		json_put_null(t, key);
}

/* ---- The state ------------------------------------------------------------------- */

static void put_counts(struct text *t, const struct view_model *m)
{
	json_open(t, "counts", '{');
	for (int i = 0; i < VIEW_JOB_STATES; i++)
		json_put_int(t, view_job_state_name((enum view_job_state)i),
			(int64_t)view_job_count(m, (enum view_job_state)i));
	json_close(t, '}');
}

/* [time, memory, utilization] each. */
static void put_history(struct text *t, const struct view_model *m, int gpu_id, int64_t since_ms)
{
	struct view_sample samples[MAX_HISTORY];
	size_t n = view_history(m, gpu_id, samples, MAX_HISTORY);
	json_open(t, "history", '[');
	for (size_t i = 0; i < n; i++) {
		if (samples[i].time_ms <= since_ms)
			continue;
		json_open(t, NULL, '[');
		json_put_int(t, NULL, samples[i].time_ms);
		put_known(t, NULL, samples[i].memory_used_bytes);
		put_known(t, NULL, samples[i].utilization_percent);
		json_close(t, ']');
	}
	json_close(t, ']');
}

static void put_gpu(struct text *t, const struct view_model *m, const struct view_gpu *gpu,
	const struct web_clock *clock, int64_t since_ms)
{
	json_open(t, NULL, '{');
	json_put_int(t, "id", gpu->id);
	json_put_int(t, "slot", gpu->slot);
	put_string(t, "name", gpu->name);
	json_put_string(t, "status", view_gpu_status_name(gpu->status));
	put_string(t, "task", gpu->task);
	json_put_int(t, "tasks", gpu->num_tasks);
	put_known(t, "task_id", gpu->task_id ? (int64_t)gpu->task_id : -1);
	put_string(t, "task_name", gpu->task_name);
	put_string(t, "task_queue", gpu->task_queue);
	const struct view_job *job = gpu->task_id ? view_find_job(m, gpu->task_id) : NULL;
	bool marked = job && job->state == VIEW_JOB_RUNNING &&
		      strcmp(palette_job_word(job), view_job_state_name(job->state)) != 0;
	put_string(t, "mark", marked ? palette_job_word(job) : NULL);
	put_string(t, "error", gpu->error);
	put_known(t, "since", gpu->since_ns < 0 ? -1 : (gpu->since_ns + clock->offset_ns) / (int64_t)NS_PER_MS);
	put_known(t, "last", gpu->last_duration_ns < 0 ? -1 : gpu->last_duration_ns / (int64_t)NS_PER_MS);
	json_put_int(t, "completed", (int64_t)gpu->completed);
	json_put_int(t, "failed", (int64_t)gpu->failed);
	json_put_int(t, "timeouts", (int64_t)gpu->timeouts);
	put_known(t, "memory_total", gpu->memory_total_bytes);
	put_known(t, "memory_used", gpu->memory_used_bytes);
	put_known(t, "memory_reserved", gpu->memory_reserved_bytes);
	put_known(t, "memory_foreign", gpu->memory_foreign_bytes);
	put_known(t, "utilization", gpu->utilization_percent);
	put_known(t, "temperature", gpu->temperature_celsius);
	put_known(t, "power_mw", gpu->power_milliwatts);
	put_history(t, m, gpu->id, since_ms);
	json_close(t, '}');
}

static void put_decimal(struct text *t, const char *key, double value, unsigned digits)
{
	if (value >= 0)
		json_put_decimal(t, key, value, digits);
	else
		json_put_null(t, key);
}

static void put_run(struct text *t, const struct view_run *r)
{
	json_open(t, NULL, '{');
	json_put_int(t, "pid", r->pid);
	json_put_string(t, "kind", r->kind);
	json_put_string(t, "name", r->name);
	put_string(t, "worker", r->worker);
	json_put_int(t, "start", r->start_ms);
	put_known(t, "total", r->total);
	json_put_int(t, "done", (int64_t)r->done);
	json_put_int(t, "failed", (int64_t)r->failed);
	json_put_int(t, "skipped", (int64_t)r->skipped);
	json_put_int(t, "running", (int64_t)r->running);
	put_decimal(t, "fraction", r->fraction, 6);
	put_decimal(t, "rate", r->rate, 6);
	put_decimal(t, "rtf", r->rtf, 9);
	put_known(t, "eta", r->eta_ms);
	json_put_bool(t, "watching", r->watching);
	json_put_bool(t, "ending", r->ending);
	json_open(t, "gpus", '[');
	for (size_t i = 0; i < r->num_gpus; i++) {
		json_open(t, NULL, '{');
		json_put_int(t, "id", r->gpus[i].id);
		json_put_int(t, "done", (int64_t)r->gpus[i].done);
		json_put_int(t, "failed", (int64_t)r->gpus[i].failed);
		put_decimal(t, "rtf", r->gpus[i].rtf, 9);
		put_string(t, "task", r->gpus[i].task);
		json_close(t, '}');
	}
	json_close(t, ']');
	json_close(t, '}');
}

void web_put_state(struct text *t, const struct view_model *m, const struct view_facts *facts, bool may_act,
	const struct web_clock *clock, int64_t since_ms)
{
	int64_t eta = view_eta_ns(m, clock->now_ns);
	json_open(t, NULL, '{');
	json_put_int(t, "now", clock->now_ms);
	json_put_string(t, "version", GD_VERSION);
	put_string(t, "journal", facts->journal);
	json_put_int(t, "runner", facts->runner);
	json_put_bool(t, "runner_hidden", facts->runner_hidden);
	json_put_bool(t, "paused", facts->paused);
	/* null: there is one queue, that of `journal`. */
	put_known(t, "queues", facts->all_queues ? (int64_t)facts->num_queues : -1);
	put_known(t, "unreadable_queues", facts->all_queues ? (int64_t)facts->num_unreadable : -1);
	json_put_int(t, "bad_lines", (int64_t)facts->bad_lines);
	json_put_int(t, "first_bad_line", (int64_t)facts->first_bad_line);
	json_put_bool(t, "may_act", may_act);
	json_put_int(t, "jobs", (int64_t)view_num_jobs(m));
	put_counts(t, m);
	json_put_seconds(t, "rate", (int64_t)(view_rate(m, clock->now_ns) * 1000));
	put_known(t, "eta", eta < 0 ? -1 : eta / (int64_t)NS_PER_MS);
	json_open(t, "gpus", '[');
	for (size_t i = 0; i < view_num_gpus(m); i++)
		put_gpu(t, m, view_gpu(m, i), clock, since_ms);
	json_close(t, ']');
	json_open(t, "runs", '[');
	for (size_t i = 0; i < view_num_runs(m); i++)
		put_run(t, view_run(m, i));
	json_close(t, ']');
	json_close(t, '}');
}

/* When a GPU of the job became idle, if a warning is due; otherwise -1. */
static int64_t idle_since(const struct view_job *job)
{
	return view_job_is_idle(job) && view_job_last(job)->idle_since_ms > 0 ? view_job_last(job)->idle_since_ms : -1;
}

/* ---- Jobs -------------------------------------------------------------------------- */

static void put_gpus(struct text *t, const struct view_attempt *a)
{
	json_open(t, "gpus", '[');
	for (size_t i = 0; a && i < a->num_gpus; i++)
		json_put_int(t, NULL, a->gpus[i]);
	json_close(t, ']');
}

static void put_end(struct text *t, const struct view_attempt *a)
{
	put_known(t, "start", a && a->start_ms > 0 ? a->start_ms : -1);
	put_known(t, "end", a ? a->end_ms : -1);
	put_known(t, "duration", a ? a->duration_ms : -1);
	put_known(t, "exit_code", a ? a->exit_code : -1);
	put_known(t, "signal", a && a->signal ? a->signal : -1);
	put_known(t, "peak_mb", a ? a->peak_mem_mb : -1);
}

/* Cut at a whole character. */
static void put_cut(struct text *t, const char *key, const char *s, size_t max)
{
	size_t size = strlen(s);
	if (size > max) {
		size = max;
		while (size > 0 && ((unsigned char)s[size] & 0xc0) == 0x80)
			size--;
	}
	json_put_bytes(t, key, s, size);
}

void web_put_row(struct text *t, const struct view_job *job)
{
	bool waits = job->state == VIEW_JOB_PENDING || job->state == VIEW_JOB_HELD;
	const struct view_attempt *last = waits ? NULL : view_job_last(job);
	json_open(t, NULL, '{');
	json_put_int(t, "id", (int64_t)job->id);
	put_string(t, "queue", job->queue);
	put_string(t, "name", job->name);
	put_cut(t, "command", job->command ? job->command : "", ROW_COMMAND);
	json_put_string(t, "state", view_job_state_name(job->state));
	json_put_bool(t, "cancelling", job->cancelling);
	json_put_bool(t, "paused", job->paused);
	put_known(t, "idle_since", idle_since(job));
	put_gpus(t, last);
	put_string(t, "node", job->node);
	put_end(t, last);
	put_string(t, "reason", job->reason);
	json_put_int(t, "attempts", (int64_t)job->num_attempts);
	json_put_int(t, "priority", job->priority);
	put_known(t, "submit", job->submit_ms > 0 ? job->submit_ms : -1);
	json_close(t, '}');
}

static void put_attempts(struct text *t, const struct view_job *job)
{
	json_open(t, "attempts", '[');
	for (size_t i = 0; i < job->num_attempts; i++) {
		const struct view_attempt *a = &job->attempts[i];
		json_open(t, NULL, '{');
		json_put_string(t, "state", view_job_state_name(a->state));
		put_gpus(t, a);
		put_end(t, a);
		put_string(t, "reason", a->reason);
		put_string(t, "log", a->log_file);
		put_known(t, "pid", a->pid > 0 ? a->pid : -1);
		json_close(t, '}');
	}
	json_close(t, ']');
}

void web_put_job(struct text *t, const struct view_job *job)
{
	json_put_int(t, "id", (int64_t)job->id);
	put_string(t, "queue", job->queue);
	put_string(t, "name", job->name);
	put_string(t, "command", job->command);
	put_string(t, "cwd", job->cwd);
	json_put_string(t, "state", view_job_state_name(job->state));
	json_put_bool(t, "cancelling", job->cancelling);
	json_put_bool(t, "paused", job->paused);
	put_known(t, "idle_since", idle_since(job));
	json_put_int(t, "priority", job->priority);
	json_put_int(t, "num_gpus", job->num_gpus);
	put_known(t, "mem_mb", job->mem_mb);
	put_known(t, "timeout", job->timeout_ms);
	put_known(t, "submit", job->submit_ms > 0 ? job->submit_ms : -1);
	put_string(t, "reason", job->reason);
	put_string(t, "node", job->node);
	json_put_int(t, "version", (int64_t)job->version);
	json_open(t, "after", '[');
	for (size_t i = 0; i < job->num_after; i++)
		json_put_int(t, NULL, (int64_t)job->after[i]);
	json_close(t, ']');
	json_open(t, "actions", '[');
	for (int i = 0; i < VIEW_ACTIONS; i++)
		if (view_action_applies((enum view_action)i, job))
			json_put_string(t, NULL, view_action_name((enum view_action)i));
	json_close(t, ']');
	put_attempts(t, job);
}

/* ---- The timeline -------------------------------------------------------------------- */

void web_put_timeline(struct text *t, const struct timeline *line)
{
	json_open(t, NULL, '{');
	json_put_int(t, "from", line->from_ms);
	json_put_int(t, "to", line->to_ms);
	json_put_int(t, "bins_from", line->bins_from_ms);
	json_put_int(t, "bin", line->bin_ms);
	json_open(t, "bars", '[');
	for (size_t i = 0; i < line->num_bars; i++) {
		const struct timeline_bar *bar = &line->bars[i];
		json_open(t, NULL, '[');
		json_put_int(t, NULL, bar->gpu);
		json_put_int(t, NULL, bar->lane);
		json_put_int(t, NULL, bar->start_ms);
		put_known(t, NULL, bar->end_ms);
		json_put_int(t, NULL, (int64_t)bar->id);
		json_put_int(t, NULL, bar->count);
		json_put_int(t, NULL, bar->failed);
		json_put_string(t, NULL, view_job_state_name(bar->state));
		json_close(t, ']');
	}
	json_close(t, ']');
	json_open(t, "bins", '[');
	for (int i = 0; i < TIMELINE_BINS; i++) {
		json_open(t, NULL, '[');
		json_put_int(t, NULL, line->bins[i].completed);
		json_put_int(t, NULL, line->bins[i].failed);
		json_put_int(t, NULL, line->bins[i].cancelled);
		json_close(t, ']');
	}
	json_close(t, ']');
	json_close(t, '}');
}

/* ---- Selecting jobs -------------------------------------------------------------------- */

#define BIT(state) (1u << (state))

/* The parts of the usual order, each with its own order. */
static const struct {
	unsigned states;
	enum view_order order;
	bool reverse;
} usual_parts[] = {
	{BIT(VIEW_JOB_RUNNING), VIEW_BY_START, true},
	{BIT(VIEW_JOB_PENDING) | BIT(VIEW_JOB_HELD) | BIT(VIEW_JOB_UNKNOWN), VIEW_BY_ID, false},
	{BIT(VIEW_JOB_COMPLETED) | BIT(VIEW_JOB_FAILED) | BIT(VIEW_JOB_CANCELLED), VIEW_BY_START, true},
};
#define USUAL_PARTS (sizeof(usual_parts) / sizeof(*usual_parts))

/* The jobs of one part that the page shows. Returns how many match, or -ENOMEM. */
static int64_t select_part(const struct view_model *m, const struct view_selection *s, size_t skip,
	const struct view_job **ret, size_t limit, size_t *ret_count)
{
	size_t max = skip + limit;
	const struct view_job **jobs = limit ? calloc(max, sizeof(*jobs)) : NULL;
	if (limit && !jobs)
		return -ENOMEM;
	size_t total = view_select(m, s, jobs, limit ? max : 0);
	size_t have = total < max ? total : max;
	*ret_count = have > skip ? have - skip : 0;
	if (limit && *ret_count)
		memcpy(ret, jobs + skip, *ret_count * sizeof(*ret));
	free(jobs);
	return (int64_t)total;
}

int64_t web_select(
	const struct view_model *m, const struct web_query *q, const struct view_job **ret, size_t *ret_count)
{
	if (!q->usual)
		return select_part(m, &q->selection, q->offset, ret, q->limit, ret_count);
	int64_t total = 0;
	size_t offset = q->offset, count = 0;
	for (size_t i = 0; i < USUAL_PARTS; i++) {
		struct view_selection s = q->selection;
		size_t n = 0;
		s.states = (s.states ? s.states : ~0u) & usual_parts[i].states;
		s.order = usual_parts[i].order;
		s.reverse = usual_parts[i].reverse != q->selection.reverse;
		if (!s.states)
			continue;
		int64_t matching = select_part(m, &s, offset, ret + count, q->limit - count, &n);
		if (matching < 0)
			return matching;
		total += matching;
		offset = offset > (size_t)matching ? offset - (size_t)matching : 0;
		count += n;
	}
	*ret_count = count;
	return total;
}

int web_parse_states(const char *words)
{
	char copy[128];
	int states = 0;
	if (!words)
		return 0;
	if (strlen(words) >= sizeof(copy))
		return -1;
	strcpy(copy, words);
	for (char *at = copy, *word; (word = strsep(&at, ","));) {
		int state = *word ? view_job_state_parse(word) : -2;
		if (state == -1)
			return -1;
		if (state >= 0)
			states |= 1 << state;
	}
	return states;
}

int web_parse_order(const char *word, struct web_query *q)
{
	static const char *const names[VIEW_ORDERS] = {
		[VIEW_BY_ID] = "id",
		[VIEW_BY_STATE] = "state",
		[VIEW_BY_START] = "start",
		[VIEW_BY_DURATION] = "duration",
		[VIEW_BY_GPU] = "gpu",
		[VIEW_BY_MEMORY] = "memory",
		[VIEW_BY_NAME] = "name",
	};
	q->usual = !word || !*word || strcmp(word, "usual") == 0;
	if (q->usual)
		return 0;
	for (int i = 0; i < VIEW_ORDERS; i++)
		if (strcmp(word, names[i]) == 0) {
			q->selection.order = (enum view_order)i;
			return 0;
		}
	return -1;
}
