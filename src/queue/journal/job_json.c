/* SPDX-License-Identifier: MIT */
#include "queue/journal/job_json.h"

#include <string.h>

#include "base/date.h"
#include "base/json_put.h"

static void put_time(struct text *t, const char *key, int64_t ms)
{
	char date[DATE_TEXT];
	if (!ms) {
		json_put_null(t, key);
		return;
	}
	date_format(ms, date);
	json_put_string(t, key, date);
}

static void put_any(struct text *t, const char *key, const char *string)
{
	if (string)
		json_put_any(t, key, string, strlen(string));
	else
		json_put_null(t, key);
}

static void put_known(struct text *t, const char *key, int64_t n, bool known)
{
	if (known)
		json_put_int(t, key, n);
	else
		json_put_null(t, key);
}

/* For a running job, idle time up to the last change, so that the object does not depend on the current time. */
static void put_idle(struct text *t, const struct job_attempt *a)
{
	bool idle = a && job_attempt_is_idle(a);
	json_open(t, "idle_gpus", '[');
	for (size_t i = 0; idle && i < a->idle->num_gpus; i++)
		json_put_int(t, NULL, a->idle->gpus[i]);
	json_close(t, ']');
	put_time(t, "idle_since", idle ? a->idle->since_ms : 0);
	if (a && a->idle)
		json_put_seconds(t, "idle_gpu_seconds", job_attempt_idle_ms(a, a->idle->at_ms));
	else
		json_put_null(t, "idle_gpu_seconds");
}

static void put_attempt(struct text *t, const struct job_attempt *a, const char *reason)
{
	bool has_gpu = a && a->num_gpus > 0;
	put_known(t, "gpu_id", has_gpu ? a->gpus[0] : 0, has_gpu);
	json_open(t, "gpu_ids", '[');
	for (int i = 0; a && i < a->num_gpus; i++)
		json_put_int(t, NULL, a->gpus[i]);
	json_close(t, ']');
	put_known(t, "pid", a ? a->pid : 0, a && a->pid > 0);
	put_time(t, "start_time", a ? a->start_ms : 0);
	put_time(t, "end_time", a ? a->end_ms : 0);
	if (a && a->duration_ms >= 0)
		json_put_seconds(t, "duration", a->duration_ms);
	else
		json_put_null(t, "duration");
	put_known(t, "exit_code", a ? a->exit_code : 0, a && a->exit_code >= 0 && a->state != JOB_RUNNING);
	put_known(t, "signal", a ? a->signal : 0, a && a->signal);
	put_any(t, "reason", reason);
	put_any(t, "log_file", a ? a->log : NULL);
	put_known(t, "peak_mem_mb", a ? a->peak_mem_mb : 0, a && a->peak_mem_mb >= 0);
	put_known(t, "energy_j", a ? a->energy_j : 0, a && a->energy_j >= 0);
	put_idle(t, a);
}

/* Oldest first; the list has the newest first. */
static void put_history(struct text *t, const struct job_attempt *a)
{
	if (!a)
		return;
	put_history(t, a->earlier);
	json_open(t, NULL, '{');
	json_put_int(t, "attempt", a->attempt);
	json_put_string(t, "status", a->interrupted ? "interrupted" : job_state_name((enum job_state)a->state));
	put_attempt(t, a, a->reason);
	json_close(t, '}');
}

static void put_needs(struct text *t, const struct job_wish *w)
{
	json_put_int(t, "num_gpus", w->num_gpus < 0 ? 1 : w->num_gpus);
	put_known(t, "mem_mb", w->mem_mb, w->mem_mb >= 0);
	put_any(t, "gpu", w->gpu);
	json_put_bool(t, "exclusive", w->exclusive);
	put_known(t, "host_mem_mb", w->host_mem_mb, w->host_mem_mb > 0);
	put_known(t, "cpus", w->cpus, w->cpus > 0);
	put_known(t, "min_free_mem_mb", w->min_free_mem_mb, w->min_free_mem_mb >= 0);
}

static void put_origin(struct text *t, const struct job *job)
{
	const struct job_wish *w = job->wish;
	put_any(t, "commands_file", w->file && *w->file ? w->file : NULL);
	put_any(t, "log_dir", w->log_dir);
	put_any(t, "on_finish", w->on_finish);
	put_any(t, "on_idle", w->on_idle);
	put_any(t, "host", job->keeper ? job->keeper->machine.host : NULL);
	put_known(t, "learned_mem_mb", job->need_mb, job->need_mb > 0);
	json_put_bool(t, "cancel_requested", job->cancel_requested);
	json_put_bool(t, "stuck", job->stuck);
}

static void put_limits(struct text *t, const struct job_wish *w)
{
	if (w->timeout_ms >= 0)
		json_put_seconds(t, "timeout", w->timeout_ms);
	else
		json_put_null(t, "timeout");
	put_known(t, "retries", w->retries, w->has_retries);
	put_known(t, "warn_signal", w->warn_signal, w->warn_signal);
	if (w->warn_signal)
		json_put_seconds(t, "warn_before", w->warn_before_ms);
	else
		json_put_null(t, "warn_before");
	put_known(t, "requeue_on", w->requeue_on, w->requeue_on);
	if (w->idle_warn_ms)
		json_put_seconds(t, "idle_warn", w->idle_warn_ms > 0 ? w->idle_warn_ms : 0);
	else
		json_put_null(t, "idle_warn");
}

static void put_group(struct text *t, const struct job *job)
{
	char group[JOB_GROUP_ROOM];
	put_any(t, "group", job->group ? job_group_name(job->group, group) : NULL);
	put_known(t, "array_index", job->array_index, job->array_index >= 0);
}

/* Conditions for its start. */
static void put_order(struct text *t, const struct job *job)
{
	uint64_t all = job->after ? job->after[0] : 0;
	json_open(t, "after", '[');
	for (uint64_t i = 1; i <= all - job->num_after_any; i++)
		json_put_int(t, NULL, (int64_t)job->after[i]);
	json_close(t, ']');
	json_open(t, "after_any", '[');
	for (uint64_t i = all - job->num_after_any + 1; i <= all; i++)
		json_put_int(t, NULL, (int64_t)job->after[i]);
	json_close(t, ']');
	put_time(t, "begin", job->wish->begin_ms);
	put_any(t, "script", job->wish->script);
	put_any(t, "script_name", job->wish->script_name);
	put_any(t, "tree", job->wish->tree);
	put_any(t, "commit", job->wish->commit);
	json_open(t, "tags", '[');
	for (const char *p = job->wish->tags; p; p = strchr(p, ',')) {
		p += *p == ',';
		json_put_bytes(t, NULL, p, strcspn(p, ","));
	}
	json_close(t, ']');
}

void job_json_write_open(struct text *t, const struct job *job)
{
	const struct job_attempt *a = job->attempts;
	json_open(t, NULL, '{');
	json_put_int(t, "id", (int64_t)job->id);
	put_any(t, "name", job->name);
	json_put_any(t, "command", job->command, job->command_size);
	json_put_string(t, "status", job_state_name((enum job_state)job->state));
	put_any(t, "cwd", job->wish->cwd);
	put_time(t, "submit_time", job->submit_ms);
	put_attempt(t, job->state == JOB_PENDING || job->state == JOB_HELD ? NULL : a, job_reason(job));
	json_put_bool(t, "paused", job->paused);
	json_put_int(t, "attempts", job->num_attempts);
	json_put_int(t, "priority", job->priority);
	put_group(t, job);
	put_needs(t, job->wish);
	put_limits(t, job->wish);
	json_put_bool(t, "lease", job->lease);
	put_order(t, job);
	put_origin(t, job);
	json_open(t, "history", '[');
	put_history(t, a);
	json_close(t, ']');
}

void job_json_write(struct text *t, const struct job *job)
{
	job_json_write_open(t, job);
	json_put_null(t, "position");
	json_put_null(t, "waits");
	json_put_null(t, "expected_start");
	json_close(t, '}');
}
