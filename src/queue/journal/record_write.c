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

/* 0: now; negative: not known. */
static void put_known_time(struct text *t, int64_t ms)
{
	if (ms >= 0)
		put_time(t, "time", ms ? ms : date_now_ms());
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

void record_write_journal(struct text *t, const char *queue, uint64_t generation, uint64_t next_id)
{
	begin(t, EVENT_JOURNAL, 0);
	json_put_int(t, "version", RECORD_VERSION);
	json_put_string(t, "queue", queue);
	json_put_int(t, "generation", (int64_t)generation);
	if (next_id > 1)
		json_put_int(t, "next_id", (int64_t)next_id);
	put_time(t, "time", date_now_ms());
	end(t);
}

void record_write_loss(struct text *t, uint64_t from, uint64_t to)
{
	begin(t, EVENT_LOSS, 0);
	put_time(t, "time", date_now_ms());
	json_put_int(t, "from", (int64_t)from);
	json_put_int(t, "to", (int64_t)to);
	end(t);
}

void record_write_lost(struct text *t, uint64_t from, uint64_t to)
{
	begin(t, EVENT_LOST, 0);
	put_time(t, "time", date_now_ms());
	if (from) {
		json_put_int(t, "from", (int64_t)from);
		json_put_int(t, "to", (int64_t)to);
	}
	/* A reader that does not know the event would run lines of commands files again. */
	json_put_bool(t, "must", true);
	end(t);
}

static void put_ids(struct text *t, const char *key, const uint64_t *ids, size_t count)
{
	if (count == 0)
		return;
	json_open(t, key, '[');
	for (size_t i = 0; i < count; i++)
		json_put_int(t, NULL, (int64_t)ids[i]);
	json_close(t, ']');
}

static void put_tags(struct text *t, const char *tags)
{
	if (!tags)
		return;
	json_open(t, "tags", '[');
	for (const char *p = tags;; p++) {
		size_t size = strcspn(p, ",");
		json_put_bytes(t, NULL, p, size);
		p += size;
		if (!*p)
			break;
	}
	json_close(t, ']');
}

static void put_needs(struct text *t, const struct job_spec *s)
{
	if (s->num_gpus >= 0)
		json_put_int(t, "num_gpus", s->num_gpus);
	if (s->mem_mb >= 0)
		json_put_int(t, "mem_mb", s->mem_mb);
	else if (s->min_free_mem_mb >= 0)
		json_put_int(t, "min_free_mem_mb", s->min_free_mem_mb);
	if (s->gpu)
		json_put_string(t, "gpu", s->gpu);
	if (s->exclusive)
		json_put_bool(t, "exclusive", true);
	if (s->host_mem_mb > 0)
		json_put_int(t, "host_mem_mb", s->host_mem_mb);
	if (s->cpus > 0)
		json_put_int(t, "cpus", s->cpus);
}

static void put_limits(struct text *t, const struct job_spec *s)
{
	if (s->timeout_ms >= 0)
		json_put_seconds(t, "timeout", s->timeout_ms);
	if (s->warn_signal) {
		json_put_int(t, "signal", s->warn_signal);
		json_put_seconds(t, "signal_before", s->warn_before_ms);
	}
	if (s->idle_warn_ms)
		json_put_seconds(t, "idle_warn", s->idle_warn_ms > 0 ? s->idle_warn_ms : 0);
	if (s->requeue_on)
		json_put_int(t, "requeue_on", s->requeue_on);
	if (s->retries >= 0)
		json_put_int(t, "retries", s->retries);
}

static void put_spec(struct text *t, const struct job_spec *s)
{
	json_put_any(t, "command", s->command, s->command_size);
	put_optional(t, "name", s->name);
	put_optional(t, "cwd", s->cwd);
	if (s->cwd && s->cwd_own)
		json_put_bool(t, "cwd_own", true);
	if (s->cwd && s->cwd_id.ino) {
		json_put_int(t, "cwd_dev", (int64_t)s->cwd_id.dev);
		json_put_int(t, "cwd_ino", (int64_t)s->cwd_id.ino);
	}
	if (s->env)
		json_put_string(t, "env", s->env);
	put_optional(t, "file", s->file);
	put_optional(t, "log_dir", s->log_dir);
	put_optional(t, "on_finish", s->on_finish);
	put_optional(t, "on_idle", s->on_idle);
	put_ids(t, "after", s->after, s->num_after);
	put_ids(t, "after_any", s->after_any, s->num_after_any);
	put_tags(t, s->tags);
	put_optional(t, "script", s->script);
	put_optional(t, "script_name", s->script_name);
	put_optional(t, "tree", s->tree);
	put_optional(t, "commit", s->commit);
	if (s->begin_ms)
		put_time(t, "begin", s->begin_ms);
	put_needs(t, s);
	if (s->group)
		json_put_int(t, "group", (int64_t)s->group);
	if (s->in_array)
		json_put_int(t, "array_index", s->array_index);
	put_limits(t, s);
	if (s->priority)
		json_put_int(t, "priority", s->priority);
}

void record_write_add(struct text *t, uint64_t id, int64_t time_ms, const struct job_spec *s)
{
	begin(t, EVENT_ADD, id);
	put_time(t, "time", time_ms);
	put_spec(t, s);
	/* A reader that does not know leases treats this one as held and does not start it. */
	if (s->held || s->keeper)
		json_put_bool(t, "held", true);
	if (s->keeper)
		json_put_string(t, "keeper", s->keeper);
	/* A reader that ignores these would not run the job as requested. */
	if (s->in_array || s->num_after_any || s->begin_ms || s->warn_signal || s->requeue_on)
		json_put_bool(t, "must", true);
	end(t);
}

void record_write_edit(struct text *t, uint64_t id, const struct job_spec *s)
{
	begin(t, EVENT_EDIT, id);
	put_time(t, "time", date_now_ms());
	put_spec(t, s);
	json_put_bool(t, "must", true);
	end(t);
}

void record_write_keeper(struct text *t, const char *keeper, pid_t pid, const struct machine *m, const char *allocation)
{
	begin(t, EVENT_KEEPER, 0);
	put_time(t, "time", date_now_ms());
	json_put_string(t, "keeper", keeper);
	json_put_int(t, "pid", pid);
	json_put_string(t, "host", m->host);
	json_put_string(t, "boot", m->boot);
	json_put_string(t, "pidns", m->pidns);
	if (*allocation)
		json_put_string(t, "allocation", allocation);
	end(t);
}

void record_write_start(struct text *t, const struct attempt_start *s)
{
	begin(t, EVENT_START, s->id);
	json_put_int(t, "attempt", s->attempt);
	put_known_time(t, s->time_ms);
	json_open(t, "gpus", '[');
	for (size_t i = 0; i < s->num_gpus; i++)
		json_put_int(t, NULL, s->gpus[i]);
	json_close(t, ']');
	if (s->pilot) {
		json_put_string(t, "pilot", s->pilot);
		json_put_int(t, "epoch", (int64_t)s->epoch);
	} else {
		json_put_int(t, "pid", s->pid);
	}
	if (*s->keeper)
		json_put_string(t, "keeper", s->keeper);
	put_optional(t, "log", s->log);
	if (s->retries > 0)
		json_put_int(t, "retries", s->retries);
	put_optional(t, "on_finish", s->on_finish);
	end(t);
}

void record_write_end(struct text *t, const struct attempt_end *e)
{
	begin(t, e->interrupted ? EVENT_INTERRUPTED : EVENT_END, e->id);
	json_put_int(t, "attempt", e->attempt);
	put_known_time(t, e->time_ms);
	if (!e->interrupted)
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
	if (e->energy_j > 0)
		json_put_int(t, "energy_j", e->energy_j);
	if (e->by_runner)
		json_put_string(t, "by", "runner");
	if (e->hook_due)
		json_put_bool(t, "hook", true);
	put_optional(t, "on_finish", e->on_finish);
	end(t);
}

void record_write_grant(struct text *t, const struct attempt_start *s)
{
	begin(t, EVENT_GRANT, s->id);
	json_put_int(t, "attempt", s->attempt);
	put_known_time(t, s->time_ms);
	json_open(t, "gpus", '[');
	for (size_t i = 0; i < s->num_gpus; i++)
		json_put_int(t, NULL, s->gpus[i]);
	json_close(t, ']');
	json_put_int(t, "pid", s->pid);
	json_put_string(t, "keeper", s->keeper);
	end(t);
}

void record_write_coordinator(struct text *t, uint64_t epoch, const struct machine *m, pid_t pid, int64_t lease_ms)
{
	begin(t, EVENT_COORDINATOR, 0);
	put_time(t, "time", date_now_ms());
	json_put_int(t, "epoch", (int64_t)epoch);
	json_put_string(t, "host", m->host);
	json_put_int(t, "pid", pid);
	json_put_seconds(t, "lease", lease_ms);
	/* A runner that does not know pilots would treat their attempts as lost. */
	json_put_bool(t, "must", true);
	end(t);
}

void record_write_pilot(struct text *t, const struct pilot_record *p)
{
	begin(t, EVENT_PILOT, 0);
	put_time(t, "time", date_now_ms());
	json_put_string(t, "pilot", p->name);
	if (p->gone) {
		json_put_string(t, "status", RECORD_PILOT_GONE);
	} else {
		json_put_int(t, "slurm_job", (int64_t)p->slurm_job);
		json_put_string(t, "node", p->node);
		if (p->started_ms)
			put_time(t, "started", p->started_ms);
		json_put_seconds(t, "lease", p->lease_ms);
		if (p->until_ms)
			put_time(t, "until", p->until_ms);
	}
	json_put_int(t, "epoch", (int64_t)p->epoch);
	end(t);
}

void record_write_void(struct text *t, uint64_t id, uint32_t attempt, uint64_t epoch)
{
	begin(t, EVENT_VOID, id);
	json_put_int(t, "attempt", attempt);
	put_time(t, "time", date_now_ms());
	json_put_int(t, "epoch", (int64_t)epoch);
	end(t);
}

void record_write_stuck(struct text *t, uint64_t id, uint32_t attempt)
{
	begin(t, EVENT_STUCK, id);
	json_put_int(t, "attempt", attempt);
	put_time(t, "time", date_now_ms());
	end(t);
}

void record_write_fail(struct text *t, uint64_t id, const char *reason, const char *on_finish)
{
	begin(t, EVENT_FAIL, id);
	put_time(t, "time", date_now_ms());
	put_optional(t, "reason", reason);
	put_optional(t, "on_finish", on_finish);
	end(t);
}

void record_write_idle(struct text *t, const struct idle_record *i)
{
	begin(t, EVENT_IDLE, i->id);
	json_put_int(t, "attempt", i->attempt);
	put_known_time(t, i->time_ms);
	json_open(t, "gpus", '[');
	for (size_t k = 0; k < i->num_gpus; k++)
		json_put_int(t, NULL, i->gpus[k]);
	json_close(t, ']');
	if (i->since_ms)
		put_time(t, "since", i->since_ms);
	json_put_seconds(t, "idle", i->idle_ms);
	if (i->hook_due)
		json_put_bool(t, "hook", true);
	put_optional(t, "on_finish", i->on_finish);
	end(t);
}

void record_write_hook(struct text *t, const struct hook_record *h)
{
	begin(t, h->idle ? EVENT_IDLE : EVENT_HOOK, h->id);
	json_put_int(t, "attempt", h->attempt);
	put_time(t, "time", date_now_ms());
	if (h->try_number)
		json_put_int(t, "try", h->try_number);
	if (h->keeper)
		json_put_string(t, "keeper", h->keeper);
	put_optional(t, "on_finish", h->on_finish);
	if (h->state != JOB_PENDING) {
		json_put_string(t, "status", job_state_name(h->state));
		if (h->exit_code >= 0)
			json_put_int(t, "exit_code", h->exit_code);
		if (h->signal)
			json_put_int(t, "signal", h->signal);
		put_optional(t, "reason", h->reason);
	}
	end(t);
}

void record_write_control(struct text *t, enum event event, uint64_t id, const char *reason)
{
	begin(t, event, id);
	put_time(t, "time", date_now_ms());
	put_optional(t, "reason", reason);
	end(t);
}

void record_write_pause(struct text *t, uint64_t id, bool paused)
{
	begin(t, EVENT_PAUSE, id);
	put_time(t, "time", date_now_ms());
	json_put_bool(t, "paused", paused);
	end(t);
}

void record_write_resolution(struct text *t, enum event event, uint64_t id, unsigned records)
{
	begin(t, event, id);
	put_time(t, "time", date_now_ms());
	json_put_int(t, "records", records);
	end(t);
}

void record_begin_seen(struct text *t, const char *file)
{
	begin(t, EVENT_SEEN, 0);
	put_optional(t, "file", file);
	text_append_string(t, ",\"lines\":\"");
}
