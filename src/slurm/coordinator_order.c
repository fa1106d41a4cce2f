/* SPDX-License-Identifier: MIT */
#include "slurm/coordinator_order.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "queue/journal/environment.h"
#include "queue/keeper/keeper_messages.h"

extern char **environ;

int coordinator_order_surroundings(const struct journal *j, struct order_defaults *d, struct gd_error *err)
{
	int r = environment_save(j->dir_fd, environ, d->env, err);
	if (r < 0)
		return r;
	d->cwd = strdup(j->parent_path);
	return d->cwd ? 0 : error_set(err, -ENOMEM, "starting the coordinator: out of memory");
}

const char *coordinator_order_log_dir(const struct job *job, const struct order_defaults *d)
{
	return job->wish->log_dir ? job->wish->log_dir : d->log_dir;
}

int64_t coordinator_order_timeout_ms(const struct job *job, const struct order_defaults *d)
{
	return job->wish->timeout_ms >= 0 ? job->wish->timeout_ms : d->timeout_ms;
}

static void put_string(struct text *t, const char *s)
{
	text_append(t, s ? s : "", s ? strlen(s) + 1 : 1);
}

int coordinator_order_write(const struct job *job, const struct order_defaults *d, struct text *t)
{
	const struct job_wish *w = job->wish;
	cleanup_(text_finish) struct text payload = {0};
	/* The coordinator runs the hook, and GPUs are not claimed inside an allocation. */
	const char *const strings[] = {job->command, w->cwd ? w->cwd : d->cwd, w->env ? w->env : d->env,
		coordinator_order_log_dir(job, d), "", job->name, "", ""};
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		put_string(&payload, strings[i]);
	/* A job added by an array job inherits its environment; unless it has an index of its own, remove the inherited
	 * one.
	 */
	text_append_string(&payload, "GPUQ_ARRAY_INDEX");
	if (job->array_index >= 0)
		text_appendf(&payload, "=%d", (int)job->array_index);
	text_append(&payload, "", 1);
	struct keeper_order o = {.bytes = sizeof(o),
		.kind = KEEPER_ORDER_RUN,
		.id = job->id,
		.size = payload.length,
		.timeout_ms = coordinator_order_timeout_ms(job, d),
		.peak_mem_mb = -1,
		.grace_ms = d->grace_ms,
		.max_log_bytes = d->max_log_bytes,
		.num_env = 1,
		.log_access = d->log_access,
		.cwd_own = w->cwd_own,
		.cwd_dev = w->cwd_id.dev,
		.cwd_ino = w->cwd_id.ino,
		.log_accepted = w->log_dir || d->log_accepted,
		.warn_before_ms = w->warn_before_ms,
		.warn_signal = (uint32_t)w->warn_signal,
		.requeue_on = (uint32_t)w->requeue_on};
	text_append(t, &o, sizeof(o));
	text_append(t, payload.data, payload.length);
	return text_error(&payload) ? text_error(&payload) : text_error(t);
}
