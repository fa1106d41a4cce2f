/* SPDX-License-Identifier: MIT */
#include "support/callbacks.h"

static int pass_on(void *context, enum callback_kind kind, const struct gd_event *event)
{
	const struct callbacks *c = context;
	return c->on_event(c->context, kind, event);
}

static int on_success(void *context, const struct gd_event *event)
{
	return pass_on(context, CALLBACK_SUCCESS, event);
}

static int on_error(void *context, const struct gd_event *event)
{
	return pass_on(context, CALLBACK_ERROR, event);
}

static int on_timeout(void *context, const struct gd_event *event)
{
	return pass_on(context, CALLBACK_TIMEOUT, event);
}

static int on_cancelled(void *context, const struct gd_event *event)
{
	return pass_on(context, CALLBACK_CANCELLED, event);
}

static int on_task_start(void *context, const struct gd_event *event)
{
	return pass_on(context, CALLBACK_START, event);
}

static int on_setup_fail(void *context, const struct gd_event *event)
{
	return pass_on(context, CALLBACK_SETUP_FAIL, event);
}

static int on_cleanup_fail(void *context, const struct gd_event *event)
{
	return pass_on(context, CALLBACK_CLEANUP_FAIL, event);
}

static int on_message(void *context, const struct gd_event *event)
{
	return pass_on(context, CALLBACK_MESSAGE, event);
}

static void on_end(void *context, const struct gd_stats *stats)
{
	const struct callbacks *c = context;
	c->on_exit(c->context, stats);
}

void callbacks_install(struct callbacks *c, struct gd_callbacks *ret)
{
	*ret = (struct gd_callbacks){
		.size = sizeof(*ret),
		.context = c,
		.on_success = on_success,
		.on_error = on_error,
		.on_timeout = on_timeout,
		.on_cancelled = on_cancelled,
		.on_task_start = on_task_start,
		.on_message = on_message,
		.on_setup_fail = on_setup_fail,
		.on_cleanup_fail = on_cleanup_fail,
		.on_exit = c->on_exit ? on_end : NULL,
	};
}
