/* SPDX-License-Identifier: MIT */
#include "queue/keeper/job_order.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "queue/journal/environment.h"
#include "queue/journal/job.h"
#include "queue/journal/journal.h"
#include "queue/journal/record.h"
#include "queue/keeper/keeper_messages.h"

extern char **environ;

int order_defaults_save(struct order_defaults *d, const struct journal *j, struct gd_error *err)
{
	if (d->cwd)
		return 0;
	int r = environment_save(j->dir_fd, environ, d->env, err);
	if (r < 0)
		return r;
	d->cwd = strdup(j->parent_path);
	return d->cwd ? 0 : error_set(err, -ENOMEM, "cannot store the directory of jobs: out of memory");
}

void order_defaults_finish(struct order_defaults *d)
{
	free(d->cwd);
	d->cwd = NULL;
}

const char *job_order_log_dir(const struct job *job, const struct order_defaults *d)
{
	return job->wish->log_dir ? job->wish->log_dir : d->log_dir;
}

static void append_string(struct text *t, const char *s)
{
	text_append(t, s ? s : "", s ? strlen(s) + 1 : 1);
}

/* A job added by an array job has inherited its environment: without an index of its own, unset the variable. */
static void set_index(const struct job *job, struct keeper_order *o, struct text *payload)
{
	char index[16];
	snprintf(index, sizeof(index), "%d", (int)job->array_index);
	job_order_set_variable(o, payload, "GPUQ_ARRAY_INDEX", job->array_index >= 0 ? index : NULL);
}

int job_order_write(const struct job *job, const struct order_defaults *d, const char *hook, const char *claim,
	struct keeper_order *ret, struct text *payload)
{
	const struct job_wish *w = job->wish;
	*ret = (struct keeper_order){.kind = KEEPER_ORDER_RUN,
		.id = job->id,
		.attempt = job_next_attempt(job),
		.timeout_ms = w->timeout_ms >= 0 ? w->timeout_ms : d->timeout_ms,
		.grace_ms = d->grace_ms,
		.retries = w->has_retries ? 0 : d->retries,
		.max_log_bytes = d->max_log_bytes,
		.log_access = d->log_access,
		.log_trust = w->log_dir && d->log_trust == LOG_TRUST_OWN ? LOG_TRUST_NAMED : d->log_trust,
		.hook_own = w->has_on_finish,
		.cwd_own = w->cwd_own,
		.cwd_dev = w->cwd_id.dev,
		.cwd_ino = w->cwd_id.ino,
		.added_ms = job->submit_ms,
		.warn_before_ms = w->warn_before_ms,
		.warn_signal = (uint32_t)w->warn_signal,
		.requeue_on = (uint32_t)w->requeue_on};
	const char *const strings[] = {job->command, w->cwd ? w->cwd : d->cwd, w->env ? w->env : d->env,
		job_order_log_dir(job, d), hook, job->name, claim};
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		append_string(payload, strings[i]);
	if (hook)
		record_write_job(payload, job);
	append_string(payload, ""); /* terminates the input of the hook */
	set_index(job, ret, payload);
	ret->size = payload->length;
	return text_error(payload);
}

void job_order_set_variable(struct keeper_order *o, struct text *payload, const char *name, const char *value)
{
	text_append_string(payload, name);
	if (value) {
		text_append_char(payload, '=');
		text_append_string(payload, value);
	}
	text_append(payload, "", 1);
	o->num_env++;
	o->size = payload->length;
}

int job_order_set_gpus(struct keeper_order *o, struct text *payload, const int *gpus, size_t num_gpus)
{
	for (size_t i = 0; i < num_gpus; i++) {
		int32_t index = gpus[i];
		text_append(payload, &index, sizeof(index));
	}
	o->num_gpus = (uint32_t)num_gpus;
	o->size = payload->length;
	return text_error(payload);
}
