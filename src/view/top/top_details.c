/* SPDX-License-Identifier: MIT */
/* One job as lines, for the page that covers the list. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/signals.h"
#include "base/units.h"
#include "view/top/top.h"

static void put_name(struct text *t, const char *name)
{
	text_appendf(t, "%-11s ", name);
}

static void put_line(struct text *t, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	put_name(t, name);
	text_appendf(t, "%s\n", value);
}

/* A command of several lines continues in the lines below. */
static void put_command(struct text *t, const char *command)
{
	put_name(t, "command");
	for (const char *p = command ? command : ""; *p; p++) {
		if (*p == '\n')
			text_append_string(t, "\n            ");
		else
			text_append_char(t, *p);
	}
	text_append_char(t, '\n');
}

static void put_moment(struct text *t, const char *name, int64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm = {0};
	char words[32];
	if (ms <= 0 || !localtime_r(&seconds, &tm))
		return;
	strftime(words, sizeof(words), "%Y-%m-%d %H:%M:%S", &tm);
	put_line(t, name, words);
}

static void put_size(struct text *t, const char *name, int64_t mb)
{
	char buf[UNITS_ROOM];
	if (mb >= 0)
		put_line(t, name, units_format_size((uint64_t)mb << 20, buf));
}

static void put_gpus(struct text *t, const struct view_job *job, const struct view_attempt *a)
{
	if (a && a->num_gpus > 0) {
		put_name(t, "GPU");
		if (job->node)
			text_appendf(t, "%s:", job->node);
		for (size_t i = 0; i < a->num_gpus; i++)
			text_appendf(t, "%s%d", i ? ", " : "", a->gpus[i]);
		text_append_char(t, '\n');
	} else if (job->num_gpus != 1) {
		text_appendf(t, "%-11s %d\n", "GPUs", job->num_gpus);
	}
}

static void put_attempt(struct text *t, const struct view_job *job, const struct view_attempt *a, int64_t now_ms)
{
	char buf[UNITS_ROOM];
	int64_t took = a->duration_ms >= 0 ? a->duration_ms : (a->end_ms >= 0 ? a->end_ms : now_ms) - a->start_ms;
	put_moment(t, "started", a->start_ms);
	put_line(t, a->end_ms >= 0 ? "took" : "runs for", units_format_duration(took > 0 ? (uint64_t)took : 0, buf));
	if (a->pid > 0 && job->state == VIEW_JOB_RUNNING)
		text_appendf(t, "%-11s %" PRId64 "\n", "PID", a->pid);
	put_size(t, "peak memory", a->peak_mem_mb);
	if (view_job_is_idle(job) && a->idle_since_ms && now_ms > a->idle_since_ms)
		put_line(t, "GPU idle", units_format_duration((uint64_t)(now_ms - a->idle_since_ms), buf));
	if (a->energy_j >= 0)
		put_line(t, "energy", units_format_energy((uint64_t)a->energy_j, buf));
	if (a->signal)
		put_line(t, "ended by", signal_name(a->signal));
	else if (a->exit_code >= 0)
		text_appendf(t, "%-11s %d\n", "exit code", a->exit_code);
	if (job->num_attempts > 1)
		text_appendf(t, "%-11s %zu\n", "attempt", job->num_attempts);
	put_line(t, "log", a->log_file);
}

void top_put_details(struct text *t, const struct view_job *job, int64_t now_ms)
{
	bool waits = job->state == VIEW_JOB_PENDING || job->state == VIEW_JOB_HELD;
	const struct view_attempt *a = waits ? NULL : view_job_last(job);
	char buf[UNITS_ROOM];
	put_line(t, "state", palette_job_word(job));
	put_line(t, "name", job->name);
	put_line(t, "queue", job->queue);
	put_command(t, job->command);
	put_line(t, "directory", job->cwd);
	put_gpus(t, job, a);
	put_size(t, "requested", job->mem_mb);
	if (job->timeout_ms >= 0)
		put_line(t, "time limit", units_format_duration((uint64_t)job->timeout_ms, buf));
	put_moment(t, "added", job->submit_ms);
	if (a)
		put_attempt(t, job, a, now_ms);
	put_line(t, "reason", job->state == VIEW_JOB_COMPLETED ? NULL : job->reason);
	for (size_t i = 0; i < job->num_after; i++)
		text_appendf(t, "%-11s job %" PRIu64 "\n", i ? "" : "after", job->after[i]);
}
