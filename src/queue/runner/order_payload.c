/* SPDX-License-Identifier: MIT */
#include "queue/runner/order_payload.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "queue/journal/environment.h"
#include "queue/keeper/hook.h"
#include "queue/keeper/keeper_messages.h"
#include "queue/runner/runner_claims.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/running.h"

extern char **environ;

/* One string of a payload, with its NUL; NULL is "". */
static void append_string(struct text *t, const char *s)
{
	text_append(t, s ? s : "", s ? strlen(s) + 1 : 1);
}

/* Fills own_env and own_cwd, for jobs that have none. */
static int save_surroundings(struct runner *r, struct gd_error *err)
{
	if (r->own_cwd)
		return 0;
	const char *slash = strrchr(r->journal->path, '/');
	int e = environment_save(r->journal->dir_fd, environ, r->own_env, err);
	if (e == 0)
		r->own_cwd =
			strndup(r->journal->path, slash == r->journal->path ? 1 : (size_t)(slash - r->journal->path));
	return e < 0 ? e : r->own_cwd ? 0 : -ENOMEM;
}

int order_payload_write_job(struct runner *r, const struct job *job, const struct running *run, struct keeper_order *o,
	struct text *t, struct gd_error *err)
{
	const struct gd_gpu *gpus[256];
	for (size_t i = 0; i < run->num_gpus; i++)
		gpus[i] = r->gpus->gpus[run->gpus[i]];
	cleanup_(freep) struct gd_env_change *changes = NULL;
	int e = gd_gpu_bind(gpus, run->num_gpus, &changes, err);
	if (e < 0)
		return e;
	append_string(t, job->command);
	if (!job->wish->env && (e = save_surroundings(r, err)) < 0)
		return e;
	append_string(t, job->wish->cwd ? job->wish->cwd : r->own_cwd);
	append_string(t, job->wish->env ? job->wish->env : r->own_env);
	append_string(t, job->wish->log_dir ? job->wish->log_dir : r->options.log_dir);
	append_string(t, job->wish->on_finish ? job->wish->on_finish : r->options.on_finish);
	append_string(t, job->name);
	if ((e = running_claim_text(run, t)) < 0)
		return e;
	append_string(t, ""); /* ends the claim */
	append_string(t, ""); /* the input of the hook: the keeper writes it */
	for (; changes[o->num_env].name; o->num_env++) {
		const struct gd_env_change *c = &changes[o->num_env];
		text_append_string(t, c->name);
		if (c->value) {
			text_append_char(t, '=');
			text_append_string(t, c->value);
		}
		text_append(t, "", 1);
	}
	o->cwd_own = job->wish->cwd_own;
	o->num_gpus = (uint32_t)run->num_gpus;
	for (size_t i = 0; i < run->num_gpus; i++) {
		int32_t index = gpus[i]->index;
		text_append(t, &index, sizeof(index));
	}
	o->size = t->length;
	return text_error(t);
}

int order_payload_write_hook(struct runner *r, struct job *job, const char *hook, struct text *t)
{
	cleanup_(text_finish) struct text input = {0};
	int e = hook_describe_job(job, &input);
	if (e == 0 && !job->wish->env)
		e = save_surroundings(r, NULL);
	if (e < 0)
		return e;
	append_string(t, "");
	append_string(t, job->wish->cwd ? job->wish->cwd : r->own_cwd);
	append_string(t, job->wish->env ? job->wish->env : r->own_env);
	append_string(t, "");
	append_string(t, hook);
	append_string(t, job->name);
	append_string(t, "");
	append_string(t, text_string(&input));
	return text_error(t);
}
