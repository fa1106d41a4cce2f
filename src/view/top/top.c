/* SPDX-License-Identifier: MIT */
#include "view/top/top.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

const struct top_states top_states[TOP_STATES] = {
	{"all", 0},
	{"running", 1u << VIEW_JOB_RUNNING},
	{"pending", 1u << VIEW_JOB_PENDING | 1u << VIEW_JOB_HELD | 1u << VIEW_JOB_UNKNOWN},
	{"failed", 1u << VIEW_JOB_FAILED},
	{"cancelled", 1u << VIEW_JOB_CANCELLED},
	{"completed", 1u << VIEW_JOB_COMPLETED},
};

const struct top_order top_orders[TOP_ORDERS] = {
	{"state", VIEW_BY_STATE, false},
	{"id", VIEW_BY_ID, false},
	{"start, newest first", VIEW_BY_START, true},
	{"time, longest first", VIEW_BY_DURATION, true},
	{"GPU", VIEW_BY_GPU, false},
	{"memory, most first", VIEW_BY_MEMORY, true},
	{"name", VIEW_BY_NAME, false},
};

void top_init(struct top *t, const struct view_model *m)
{
	*t = (struct top){.model = m, .order = VIEW_BY_STATE, .stale = true, .log_follows = true, .log_wraps = true};
}

void top_finish(struct top *t)
{
	free(t->jobs);
	free(t->tagged);
	text_finish(&t->page);
	log_tail_finish(&t->log);
}

void top_say(struct top *t, bool bad, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(t->message, sizeof(t->message), format, args);
	va_end(args);
	t->message_bad = bad;
}

bool top_is_tagged(const struct top *t, uint64_t id)
{
	for (size_t i = 0; i < t->num_tagged; i++)
		if (t->tagged[i] == id)
			return true;
	return false;
}

const uint64_t *top_chosen(const struct top *t, size_t *ret_count)
{
	if (t->num_tagged) {
		*ret_count = t->num_tagged;
		return t->tagged;
	}
	*ret_count = t->job != 0;
	return &t->job;
}

void top_show_page(struct top *t, const char *title, const char *text)
{
	text_clear(&t->page);
	text_append_string(&t->page, text);
	snprintf(t->page_title, sizeof(t->page_title), "%s", title);
	t->page_first = 0;
	t->mode = TOP_PAGE;
}

void top_show_log(struct top *t, uint64_t job)
{
	log_tail_finish(&t->log);
	t->log_job = job;
	t->log_follows = true;
	t->log_left = 0;
	t->mode = TOP_LOG;
}

/* ---- The list --------------------------------------------------------------------------- */

/* The cursor stays on its job; if the job is gone, at its position. */
static void find_cursor(struct top *t)
{
	if (t->job == 0) {
		t->cursor = 0;
		return;
	}
	if (t->cursor < t->num_jobs && t->jobs[t->cursor]->id == t->job)
		return;
	for (size_t i = 0; i < t->num_jobs; i++)
		if (t->jobs[i]->id == t->job) {
			t->cursor = i;
			return;
		}
	if (t->cursor >= t->num_jobs)
		t->cursor = t->num_jobs ? t->num_jobs - 1 : 0;
	t->job = t->num_jobs ? t->jobs[t->cursor]->id : 0;
}

int top_list(struct top *t, int64_t now_ms)
{
	uint64_t version = view_version(t->model);
	if (!t->stale && version == t->listed_version)
		return 0;
	if (array_reserve(t->jobs, &t->jobs_capacity, view_num_jobs(t->model)) < 0)
		return -ENOMEM;
	struct view_selection s = {.states = top_states[t->states].states,
		.text = t->filter[0] ? t->filter : NULL,
		.order = t->order,
		.reverse = t->reverse,
		.now_ms = now_ms};
	t->num_jobs = view_select(t->model, &s, t->jobs, t->jobs_capacity);
	t->listed_version = version;
	t->stale = false;
	find_cursor(t);
	return 0;
}
