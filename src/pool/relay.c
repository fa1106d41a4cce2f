/* SPDX-License-Identifier: MIT */
#include "pool/relay.h"

static int pass_success(void *context, const struct gd_event *event)
{
	const struct relay *r = context;
	return r->given.on_success(r->given.context, event);
}

static int pass_error(void *context, const struct gd_event *event)
{
	const struct relay *r = context;
	return r->given.on_error(r->given.context, event);
}

static int pass_timeout(void *context, const struct gd_event *event)
{
	const struct relay *r = context;
	return r->given.on_timeout(r->given.context, event);
}

static int pass_cancelled(void *context, const struct gd_event *event)
{
	const struct relay *r = context;
	if (r->given.on_cancelled)
		return r->given.on_cancelled(r->given.context, event);
	if (event->attempt == 0 || !r->given.on_error)
		return 0;
	return r->given.on_error(r->given.context, event);
}

static int pass_task_start(void *context, const struct gd_event *event)
{
	const struct relay *r = context;
	return r->given.on_task_start(r->given.context, event);
}

static int pass_message(void *context, const struct gd_event *event)
{
	const struct relay *r = context;
	return r->given.on_message(r->given.context, event);
}

static int pass_setup_fail(void *context, const struct gd_event *event)
{
	const struct relay *r = context;
	return r->given.on_setup_fail(r->given.context, event);
}

static int pass_cleanup_fail(void *context, const struct gd_event *event)
{
	const struct relay *r = context;
	return r->given.on_cleanup_fail(r->given.context, event);
}

static void pass_progress(void *context, const struct gd_stats *stats)
{
	const struct relay *r = context;
	r->given.on_progress(r->given.context, stats);
}

static void pass_exit(void *context, const struct gd_stats *stats)
{
	const struct relay *r = context;
	r->on_gone(r->context);
	if (r->given.on_exit)
		r->given.on_exit(r->given.context, stats);
}

struct gd_callbacks relay_callbacks(struct relay *r)
{
	const struct gd_callbacks *given = &r->given;
	return (struct gd_callbacks){
		.size = sizeof(struct gd_callbacks),
		.context = r,
		.on_success = given->on_success ? pass_success : NULL,
		.on_error = given->on_error ? pass_error : NULL,
		.on_timeout = given->on_timeout ? pass_timeout : NULL,
		.on_cancelled = pass_cancelled,
		.on_task_start = given->on_task_start ? pass_task_start : NULL,
		.on_message = given->on_message ? pass_message : NULL,
		.on_setup_fail = given->on_setup_fail ? pass_setup_fail : NULL,
		.on_cleanup_fail = given->on_cleanup_fail ? pass_cleanup_fail : NULL,
		.on_progress = given->on_progress ? pass_progress : NULL,
		.on_exit = pass_exit,
	};
}
