/* SPDX-License-Identifier: MIT */
#include "queue/runner/order_payload.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gpu/affinity.h"
#include "queue/journal/environment.h"
#include "queue/journal/record.h"
#include "queue/keeper/hook_order.h"
#include "queue/keeper/keeper_messages.h"
#include "queue/runner/runner_claims.h"
#include "queue/runner/runner_hooks.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/running.h"

extern char **environ;

/* One string of a payload, with its NUL; NULL is "". */
static void append_string(struct text *t, const char *s)
{
	text_append(t, s ? s : "", s ? strlen(s) + 1 : 1);
}

/* Fills own_env and own_cwd, for jobs without an environment or directory. */
static int save_surroundings(struct runner *r, struct gd_error *err)
{
	if (r->following.own_cwd)
		return 0;
	const char *slash = strrchr(r->following.journal->path, '/');
	int e = environment_save(r->following.journal->dir_fd, environ, r->following.own_env, err);
	if (e == 0)
		r->following.own_cwd = strndup(r->following.journal->path,
			slash == r->following.journal->path ? 1 : (size_t)(slash - r->following.journal->path));
	return e < 0 ? e : r->following.own_cwd ? 0 : -ENOMEM;
}

/* The CPUs of the job, to which its first process restricts itself. */
static void append_cpus(const struct gd_gpu *const *gpus, size_t num_gpus, struct keeper_order *o, struct text *t)
{
	cleanup_(text_finish) struct text cpus = {0};
	if (num_gpus > 0)
		gpu_affinity(gpus, num_gpus, &cpus);
	text_append_string(t, KEEPER_CPUS);
	if (cpus.length)
		text_appendf(t, "=%s", text_string(&cpus));
	text_append(t, "", 1);
	o->num_env++;
}

/* A job added by an array job has inherited its environment: without an index of its own, unset the variable. */
static void append_index(const struct job *job, struct keeper_order *o, struct text *t)
{
	text_append_string(t, "GPUQ_ARRAY_INDEX");
	if (job->array_index >= 0)
		text_appendf(t, "=%d", (int)job->array_index);
	text_append(t, "", 1);
	o->num_env++;
}

int order_payload_write_job(struct runner *r, const struct job *job, const struct running *run, struct keeper_order *o,
	struct text *t, struct gd_error *err)
{
	const struct gd_gpu *gpus[256];
	for (size_t i = 0; i < run->num_gpus; i++)
		gpus[i] = r->watching.gpus->gpus[run->gpus[i]];
	cleanup_(freep) struct gd_env_change *changes = NULL;
	int e = gd_gpu_bind(gpus, run->num_gpus, &changes, err);
	if (e < 0)
		return e;
	append_string(t, job->command);
	if (!job->wish->env && (e = save_surroundings(r, err)) < 0)
		return e;
	append_string(t, job->wish->cwd ? job->wish->cwd : r->following.own_cwd);
	append_string(t, job->wish->env ? job->wish->env : r->following.own_env);
	append_string(t, job->wish->log_dir ? job->wish->log_dir : r->options.log_dir);
	append_string(t, runner_hook_of(r, job));
	append_string(t, job->name);
	if ((e = running_claim_text(run, t)) < 0)
		return e;
	append_string(t, ""); /* terminates the claim */
	if (runner_hook_of(r, job))
		record_write_job(t, job);
	append_string(t, ""); /* terminates the input of the hook */
	o->hook_own = job->wish->has_on_finish;
	for (; changes[o->num_env].name; o->num_env++) {
		const struct gd_env_change *c = &changes[o->num_env];
		text_append_string(t, c->name);
		if (c->value) {
			text_append_char(t, '=');
			text_append_string(t, c->value);
		}
		text_append(t, "", 1);
	}
	append_index(job, o, t);
	if (r->options.cpu_affinity)
		append_cpus(gpus, run->num_gpus, o, t);
	o->cwd_own = job->wish->cwd_own;
	o->cwd_dev = job->wish->cwd_id.dev;
	o->cwd_ino = job->wish->cwd_id.ino;
	o->num_gpus = (uint32_t)run->num_gpus;
	for (size_t i = 0; i < run->num_gpus; i++) {
		int32_t index = gpus[i]->index;
		text_append(t, &index, sizeof(index));
	}
	o->size = t->length;
	return text_error(t);
}

int order_payload_write_hook(
	struct runner *r, const struct job *job, const struct due_hook *h, struct keeper_order *o, struct text *t)
{
	int e = job->wish->env ? 0 : save_surroundings(r, NULL);
	if (e < 0)
		return e;
	return hook_order_write(job, h, r->following.own_cwd, r->following.own_env, r->following.fence, o, t);
}
