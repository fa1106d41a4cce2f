/* SPDX-License-Identifier: MIT */
#include "queue/journal/record_private.h"

#include <string.h>

#include "base/date.h"
#include "base/json_put.h"

static void begin(struct text *t, enum event event, uint64_t id)
{
	text_append_string(t, "{\"event\":\"");
	text_append_string(t, record_event_names[event]);
	text_append_char(t, '"');
	if (id)
		json_put_int(t, "id", (int64_t)id);
}

static void put_time(struct text *t, const char *key, int64_t ms)
{
	char date[DATE_TEXT];
	date_format(ms, date);
	json_put_string(t, key, date);
}

static void end(struct text *t)
{
	text_append(t, "}\n", 2);
}

static void put_optional(struct text *t, const char *key, const char *string)
{
	if (string)
		json_put_any(t, key, string, strlen(string));
}

void record_write_journal(struct text *t, uint64_t next_id)
{
	begin(t, EVENT_JOURNAL, 0);
	json_put_int(t, "version", RECORD_VERSION);
	if (next_id > 1)
		json_put_int(t, "next_id", (int64_t)next_id);
	put_time(t, "time", date_now_ms());
	end(t);
}

void record_write_add(struct text *t, uint64_t id, int64_t time_ms, const struct job_spec *s)
{
	begin(t, EVENT_ADD, id);
	put_time(t, "time", time_ms);
	json_put_any(t, "command", s->command, s->command_size);
	put_optional(t, "name", s->name);
	put_optional(t, "cwd", s->cwd);
	if (s->cwd && s->cwd_own)
		json_put_bool(t, "cwd_own", true);
	if (s->env)
		json_put_string(t, "env", s->env);
	put_optional(t, "file", s->file);
	put_optional(t, "log_dir", s->log_dir);
	put_optional(t, "on_finish", s->on_finish);
	if (s->num_after) {
		json_open(t, "after", '[');
		for (size_t i = 0; i < s->num_after; i++)
			json_put_int(t, NULL, (int64_t)s->after[i]);
		json_close(t, ']');
	}
	if (s->num_gpus >= 0)
		json_put_int(t, "num_gpus", s->num_gpus);
	if (s->mem_mb >= 0)
		json_put_int(t, "mem_mb", s->mem_mb);
	else if (s->min_free_mem_mb >= 0)
		json_put_int(t, "min_free_mem_mb", s->min_free_mem_mb);
	if (s->timeout_ms >= 0)
		json_put_seconds(t, "timeout", s->timeout_ms);
	if (s->retries >= 0)
		json_put_int(t, "retries", s->retries);
	if (s->priority)
		json_put_int(t, "priority", s->priority);
	if (s->held)
		json_put_bool(t, "held", true);
	end(t);
}

void record_write_keeper(struct text *t, const char *keeper, pid_t pid, const struct machine *m)
{
	begin(t, EVENT_KEEPER, 0);
	put_time(t, "time", date_now_ms());
	json_put_string(t, "keeper", keeper);
	json_put_int(t, "pid", pid);
	json_put_string(t, "host", m->host);
	json_put_string(t, "boot", m->boot);
	json_put_string(t, "pidns", m->pidns);
	end(t);
}

void record_write_start(struct text *t, const struct attempt_start *s)
{
	begin(t, EVENT_START, s->id);
	json_put_int(t, "attempt", s->attempt);
	put_time(t, "time", s->time_ms ? s->time_ms : date_now_ms());
	json_open(t, "gpus", '[');
	for (size_t i = 0; i < s->num_gpus; i++)
		json_put_int(t, NULL, s->gpus[i]);
	json_close(t, ']');
	json_put_int(t, "pid", s->pid);
	if (*s->keeper)
		json_put_string(t, "keeper", s->keeper);
	put_optional(t, "log", s->log);
	if (s->retries > 0)
		json_put_int(t, "retries", s->retries);
	end(t);
}

void record_write_end(struct text *t, const struct attempt_end *e)
{
	begin(t, EVENT_END, e->id);
	json_put_int(t, "attempt", e->attempt);
	put_time(t, "time", e->time_ms ? e->time_ms : date_now_ms());
	json_put_string(t, "status", job_state_name(e->state));
	if (e->exit_code >= 0)
		json_put_int(t, "exit_code", e->exit_code);
	if (e->signal)
		json_put_int(t, "signal", e->signal);
	put_optional(t, "reason", e->reason);
	if (e->duration_ms >= 0)
		json_put_seconds(t, "duration", e->duration_ms);
	if (e->peak_mem_mb >= 0)
		json_put_int(t, "peak_mem_mb", e->peak_mem_mb);
	if (e->by_runner)
		json_put_string(t, "by", "runner");
	end(t);
}

void record_write_stuck(struct text *t, uint64_t id, uint32_t attempt)
{
	begin(t, EVENT_STUCK, id);
	json_put_int(t, "attempt", attempt);
	put_time(t, "time", date_now_ms());
	end(t);
}

void record_write_fail(struct text *t, uint64_t id, const char *reason)
{
	begin(t, EVENT_FAIL, id);
	put_time(t, "time", date_now_ms());
	put_optional(t, "reason", reason);
	end(t);
}

void record_write_control(struct text *t, enum event event, uint64_t id, const char *reason)
{
	begin(t, event, id);
	put_time(t, "time", date_now_ms());
	put_optional(t, "reason", reason);
	end(t);
}

void record_begin_seen(struct text *t, const char *file)
{
	begin(t, EVENT_SEEN, 0);
	put_optional(t, "file", file);
	text_append_string(t, ",\"lines\":\"");
}
