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
}

/* Oldest first; the list has the newest first. */
static void put_history(struct text *t, const struct job_attempt *a)
{
	if (!a)
		return;
	put_history(t, a->earlier);
	json_open(t, NULL, '{');
	json_put_int(t, "attempt", a->attempt);
	json_put_string(t, "status", job_state_name((enum job_state)a->state));
	put_attempt(t, a, a->reason);
	json_close(t, '}');
}

void job_json_write(struct text *t, const struct job *job)
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
	json_put_int(t, "attempts", job->num_attempts);
	json_put_int(t, "priority", job->priority);
	json_open(t, "after", '[');
	for (uint64_t i = 1; job->after && i <= job->after[0]; i++)
		json_put_int(t, NULL, (int64_t)job->after[i]);
	json_close(t, ']');
	json_open(t, "history", '[');
	put_history(t, a);
	json_close(t, ']');
	json_close(t, '}');
}
