/* SPDX-License-Identifier: MIT */
#include "queue/keeper/job_order.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/shell_words.h"
#include "queue/journal/content_store.h"
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

static bool is_in_tree(const struct job_wish *w)
{
	size_t length = w->tree ? strlen(w->tree) : 0;
	return w->tree && w->cwd && *w->tree == '/' && strncmp(w->cwd, w->tree, length) == 0 &&
	       (w->cwd[length] == '/' || !w->cwd[length]);
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);
	return length >= tail && strcmp(text + length - tail, end) == 0;
}

/*
 * Whether the directory of the queue was renamed, not copied. Then the keeper itself finds the directories of the job
 * and of its log, by their paths relative to the directory of the queue (`below`). It cannot if the journal was
 * renamed, because `below` contains the name of the journal's folder.
 */
static bool was_renamed(const struct job_wish *w, const char *directory, const char *below)
{
	struct stat st;
	return ends_with(w->cwd, below) && access(w->tree, F_OK) < 0 && stat(directory, &st) == 0 &&
	       st.st_ino == w->cwd_id.ino;
}

int job_order_append_directory(struct text *payload, const struct job *job, const struct order_defaults *d)
{
	const struct job_wish *w = job->wish;
	cleanup_(text_finish) struct text own = {0};
	bool is_own = d->folder && is_in_tree(w);
	if (is_own)
		text_appendf(&own, "%s/trees%s%s", d->folder, strrchr(w->tree, '/'), w->cwd + strlen(w->tree));
	if (text_error(&own))
		return -ENOMEM;
	if (is_own)
		is_own = !was_renamed(w, text_string(&own), text_string(&own) + (strrchr(d->folder, '/') - d->folder));
	append_string(payload, is_own ? text_string(&own) : w->cwd ? w->cwd : d->cwd);
	return 0;
}

/* A job added by an array job has inherited its environment: without an index of its own, unset the variable. */
static void set_index(const struct job *job, struct keeper_order *o, struct text *payload)
{
	char index[16];
	snprintf(index, sizeof(index), "%d", (int)job->array_index);
	job_order_set_variable(o, payload, "GPUQ_ARRAY_INDEX", job->array_index >= 0 ? index : NULL);
}

/* The word of the command that is the path of the stored script; NULL: none. */
static const char *find_script(const struct text *words, int count, const char *end)
{
	const char *word = text_string(words);
	for (int i = 0; i < count && i < 3; i++, word += strlen(word) + 1) {
		if (word[0] == '/' && ends_with(word, end))
			return word;
	}
	return NULL;
}

/*
 * The command has the path of the stored script at the time of `add`. If the directory of the queue was renamed or
 * copied since then, another user may own that path: the script is executed from the folder of this queue.
 */
static int append_command(struct text *payload, const struct job *job, const char *folder)
{
	cleanup_(text_finish) struct text words = {0}, end = {0}, path = {0}, old = {0}, new = {0};
	const char *script = job->wish->script, *found = NULL, *at = NULL;
	if (script && folder) {
		text_appendf(&end, "/" STORE_SCRIPTS "/%s", script);
		text_appendf(&path, "%s%s", folder, text_string(&end));
		int count = shell_split(job->command, &words);
		found = count > 0 && !text_error(&end) ? find_script(&words, count, text_string(&end)) : NULL;
	}
	if (found && strcmp(found, text_string(&path)) != 0) {
		shell_quote(&old, found, strlen(found));
		shell_quote(&new, text_string(&path), path.length);
		at = strstr(job->command, text_string(&old));
	}
	if (text_error(&words) || text_error(&path) || text_error(&old) || text_error(&new))
		return -ENOMEM;
	if (at) {
		text_append(payload, job->command, (size_t)(at - job->command));
		text_append_string(payload, text_string(&new));
		append_string(payload, at + old.length);
	} else {
		append_string(payload, job->command);
	}
	return 0;
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
	int r = append_command(payload, job, d->folder);
	if (r == 0)
		r = job_order_append_directory(payload, job, d);
	if (r < 0)
		return r;
	const char *const strings[] = {w->env ? w->env : d->env, job_order_log_dir(job, d), hook, job->name, claim};
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
