/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json_put.h"
#include "base/terminal_text.h"
#include "cli/add_parts.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/frozen_tree.h"
#include "cli/gpus_option.h"
#include "cli/log_dir.h"
#include "cli/say.h"
#include "queue/input/submit.h"
#include "queue/journal/environment.h"
#include "queue/journal/follow.h"

extern char **environ;

/* One job for each command of the sweep, or for each index of the array. */
static size_t num_jobs(const struct add *a)
{
	return a->indices.count ? a->indices.count : a->sweep.count;
}

static bool is_group(const struct add *a)
{
	return a->indices.count || a->sweep.num_axes;
}

static int add_each(struct add *a, struct submit *s, struct job_spec *spec)
{
	cleanup_(text_finish) struct text command = {0};
	int r = 0;
	for (size_t i = 0; r == 0 && i < num_jobs(a); i++) {
		text_clear(&command);
		sweep_fill(&a->sweep, a->indices.count ? 0 : i, &command);
		if (text_error(&command))
			return error_set(&a->err, -ENOMEM, "cannot add the job: out of memory");
		spec->command = text_string(&command);
		spec->command_size = command.length;
		spec->in_array = a->indices.count > 0;
		spec->array_index = spec->in_array ? (int32_t)a->indices.ids[i] : 0;
		r = submit_add(s, spec, &a->err);
	}
	return r;
}

/* Checks and adds under one lock, so that no prune removes the jobs' dependencies in between. */
static int add_jobs(struct add *a, struct journal *j, struct job_spec *spec, struct id_list *ids)
{
	struct follow f;
	struct submit s;
	struct job_after after = {0};
	bool follows = job_options_have_after(&a->options);
	int r = follows ? follow_open_journal(j, &f, &a->err) : 0;
	if (r < 0)
		return r;
	r = submit_begin(&s, j, ids, &a->err);
	if (r == 0) {
		s.grouped = is_group(a);
		if (follows)
			r = follow_update(&f, &a->err);
		struct gd_error why;
		if (r == 0 && follows && (r = job_options_resolve(&a->options, &f.jobs, NULL, &after, spec, &why)) < 0)
			error_set(&a->err, r, "cannot add the job %s", why.message);
		if (r == 0)
			r = add_each(a, &s, spec);
		/* A very long list of jobs is written in parts: if a part fails, the parts before it are kept. */
		bool none = r < 0 && ids->count == s.pending_ids;
		struct gd_error commit_error;
		int committed = none ? 0 : submit_commit(&s, &commit_error);
		if (none)
			submit_abort(&s);
		else if (r == 0 && committed < 0)
			r = error_set(&a->err, committed, "%s", commit_error.message);
	}
	job_after_finish(&after);
	if (follows)
		follow_close(&f);
	return r;
}

static int fill_spec(struct add *a, struct job_spec *s, char **ret_cwd, char **ret_log_dir)
{
	const struct config *c = &a->queue.config;
	*ret_cwd = getcwd(NULL, 0);
	*ret_log_dir = log_dir_configured(c);
	if (!*ret_cwd || (config_has(c, CONFIG_LOG_DIR) && !*ret_log_dir))
		return error_set(&a->err, -errno, "cannot add the job: current directory: %s", error_words(errno));
	*s = (struct job_spec){.cwd = *ret_cwd,
		.log_dir = *ret_log_dir,
		.on_finish = c->on_finish,
		.on_idle = c->on_idle,
		.num_gpus = -1,
		.mem_mb = -1,
		.min_free_mem_mb = -1,
		.timeout_ms = config_has(c, CONFIG_TIMEOUT) ? (int64_t)c->timeout_ms : -1,
		.retries = config_has(c, CONFIG_RETRIES) ? (int)c->retries : -1,
		.held = a->hold};
	int r = submit_describe_cwd(s, a->cwd_fd);
	if (r < 0)
		return error_set(&a->err, r, "cannot add the job: current directory '%s': %s", s->cwd, error_words(r));
	job_spec_set_defaults(s, c);
	r = job_options_apply(&a->options, s, &a->err);
	if (r == 0 && s->warn_signal && s->timeout_ms <= 0)
		return error_set(&a->err, -EINVAL, "--signal needs a time limit; give --timeout, too");
	return r;
}

/* A new queue is removed if no runner can be started. */
static int check_runner(struct add *a, struct journal *j)
{
	struct gd_error why;
	int r = a->no_start ? 0 : background_check(&a->queue, j->dir_fd, &why);
	if (r == 0)
		return 0;
	journal_remove_empty(j);
	return error_set(&a->err, r, "%s, or use --no-start", why.message);
}

/* Checks after the append: either the runner sees the job, or we see that there is no runner. */
static int start_runner(const struct add *a, const struct journal *j, bool *ret_started, struct gd_error *err)
{
	if (a->no_start)
		return 0;
	if (background_has_runner(j->dir_fd)) {
		gpus_option_settle(true);
		return 0;
	}
	*ret_started = true;
	background_say_unused(&a->queue);
	return background_start(&a->queue, j->dir_fd, NULL, BACKGROUND_READY_SOON_MS, err);
}

/* ---- Output --------------------------------------------------------------------------- */

static int flush_ids(struct add *a)
{
	if (fflush(stdout) != 0)
		return error_set(&a->err, -errno, "cannot write the id: %s", error_words(errno));
	return 0;
}

static int print(struct add *a, const struct text *t)
{
	if (text_error(t))
		return error_set(&a->err, -ENOMEM, "cannot add the job: out of memory");
	fwrite(text_string(t), 1, t->length, stdout);
	return flush_ids(a);
}

/* Without --json, allocates nothing: the jobs are already added, and a failure would make the user add them again. */
static int print_ids(struct add *a, const struct id_list *ids)
{
	char group[JOB_GROUP_ROOM];
	cleanup_(text_finish) struct text t = {0};
	if (a->json) {
		json_open(&t, NULL, '{');
		json_open(&t, "ids", '[');
		for (size_t i = 0; i < ids->count; i++)
			json_put_int(&t, NULL, (int64_t)ids->ids[i]);
		json_close(&t, ']');
		if (is_group(a) && ids->count)
			json_put_string(&t, "group", job_group_name(ids->ids[0], group));
		else
			json_put_null(&t, "group");
		json_put_any(&t, "jobs_file", a->queue.journal_path, strlen(a->queue.journal_path));
		json_close(&t, '}');
		text_append_char(&t, '\n');
	}
	if (text_error(&t))
		return error_set(&a->err, -ENOMEM,
			"%zu job%s added, starting with job %" PRIu64 "; cannot print the ids: out of memory",
			ids->count, ids->count == 1 ? " was" : "s were", ids->count ? ids->ids[0] : 0);
	for (size_t i = 0; !a->json && i < ids->count; i++)
		printf("%" PRIu64 "\n", ids->ids[i]);
	int r = a->json ? print(a, &t) : flush_ids(a);
	if (r == 0 && is_group(a) && ids->count && !a->json)
		say("%zu job%s, group %s", ids->count, ids->count == 1 ? "" : "s", job_group_name(ids->ids[0], group));
	return r;
}

static void begin_commands(const struct add *a, struct text *t)
{
	if (a->json) {
		json_open(t, NULL, '{');
		json_open(t, "commands", '[');
	}
}

static void put_command(const struct add *a, struct text *t, const char *command, size_t size)
{
	if (a->json) {
		json_put_bytes(t, NULL, command, size);
		return;
	}
	/* Values of a sweep may come from a file of another user. */
	if (isatty(STDOUT_FILENO)) {
		struct terminal_text filter = {.one_line = true};
		terminal_text_append(&filter, t, command, size);
		terminal_text_end(&filter, t);
	} else {
		text_append(t, command, size);
	}
	text_append_char(t, '\n');
}

static int print_commands(struct add *a, struct text *t)
{
	if (a->json) {
		json_close(t, ']');
		json_close(t, '}');
		text_append_char(t, '\n');
	}
	return print(a, t);
}

/* --dry-run: prints the commands, checked as far as possible without the queue. */
static int show_lines(struct add *a, struct commands *lines, const struct job_spec *base)
{
	cleanup_(text_finish) struct text t = {0};
	struct shell_command c;
	int r;
	begin_commands(a, &t);
	while ((r = commands_next(lines, &c, &a->err)) > 0) {
		struct job_spec spec = *base;
		struct gd_error why;
		if (job_options_apply(c.options, &spec, &why) < 0)
			return error_set(
				&a->err, -EINVAL, "%s:%" PRIu64 ": %s", commands_name(lines), c.line, why.message);
		put_command(a, &t, c.bytes.data, c.bytes.size);
	}
	return r < 0 ? r : print_commands(a, &t);
}

static int show_sweep(struct add *a)
{
	cleanup_(text_finish) struct text t = {0};
	cleanup_(text_finish) struct text command = {0};
	begin_commands(a, &t);
	for (size_t i = 0; i < num_jobs(a); i++) {
		text_clear(&command);
		if (a->indices.count && !a->json)
			text_appendf(&command, "GPUQ_ARRAY_INDEX=%" PRIu64 " ", a->indices.ids[i]);
		sweep_fill(&a->sweep, a->indices.count ? 0 : i, &command);
		put_command(a, &t, text_string(&command), command.length);
	}
	if (text_error(&command))
		return error_set(&a->err, -ENOMEM, "cannot add the job: out of memory");
	return print_commands(a, &t);
}

/* ---- The command ---------------------------------------------------------------------- */

static int freeze(struct add *a, const struct journal *j, struct frozen_tree *tree, struct job_spec *spec)
{
	if (!a->freeze)
		return 0;
	cleanup_(freep) char *log_dir = log_dir_find(&a->queue.config, j->path);
	const struct frozen_source source = {.journal_path = j->path,
		.queue_fd = j->dir_fd,
		.log_dir = log_dir,
		.cwd_fd = a->cwd_fd,
		.trust = a->queue.trust};
	int r = frozen_tree_make(&source, tree, &a->err);
	if (r < 0)
		return r;
	spec->cwd = tree->cwd;
	spec->tree = tree->path;
	spec->commit = tree->commit;
	r = submit_describe_cwd(spec, tree->cwd_fd);
	if (r < 0)
		return error_set(&a->err, r, "--freeze: directory '%s': %s", tree->cwd, error_words(r));
	return 0;
}

/* Another command that failed may have removed the folder of a new queue; journal_lock() creates it again. */
static int save_environment(struct journal *j, char ret_name[HASH_TEXT], struct gd_error *err)
{
	int r = environment_save(j->dir_fd, environ, ret_name, err);
	if (r != -ENOENT || journal_lock(j, NULL) < 0)
		return r;
	journal_unlock(j);
	return environment_save(j->dir_fd, environ, ret_name, err);
}

/* Adds the jobs, prints their ids and starts a runner. lines: NULL for the command line. */
static int submit(struct add *a, struct commands *lines, struct job_spec *spec)
{
	cleanup_(frozen_tree_finish) struct frozen_tree tree = FROZEN_TREE_INIT;
	cleanup_(journal_closep) struct journal *j = NULL;
	char env[HASH_TEXT], script[HASH_TEXT];
	struct id_list ids = {0};
	int r = queue_choice_open(&a->queue, &j, &a->err);
	if (r == 0)
		r = check_runner(a, j);
	if (r == 0 && (r = freeze(a, j, &tree, spec)) < 0)
		journal_remove_empty(j);
	if (r == 0)
		r = save_environment(j, env, &a->err);
	if (r == 0)
		r = add_keep_script(a, j, script, spec);
	if (r < 0)
		return r;
	spec->env = env;
	r = lines ? submit_file(j, lines, spec, &a->options, &ids, &a->err) : add_jobs(a, j, spec, &ids);
	if (ids.count == 0 && tree.path)
		(void)frozen_tree_remove(tree.path, NULL, a->queue.trust, NULL);
	struct gd_error err;
	bool started = false;
	int e = ids.count || r == 0 ? print_ids(a, &ids) : 0;
	r = r < 0 ? r : e;
	if (ids.count)
		queue_choice_say_where_added(&a->queue);
	if (ids.count && !lines)
		add_warn_of_missing_program(a);
	e = ids.count ? start_runner(a, j, &started, &err) : 0;
	if (e < 0 && r == 0)
		r = error_set(&a->err, e, "%s", err.message);
	else if (e == 0 && ids.count)
		add_warn(j, spec, &ids, started);
	if (r == 0 && ids.count == 1 && job_options_have_after(&a->options))
		add_warn_of_dependencies(j, &ids);
	id_list_finish(&ids);
	return r;
}

static int check_sweep(struct add *a, bool from_input)
{
	if (is_group(a) && from_input)
		return error_set(&a->err, -EINVAL,
			"--param, --param-file and --array cannot be used with commands from standard input");
	if (a->indices.count && a->sweep.num_axes)
		return error_set(&a->err, -EINVAL, "--array cannot be used with --param or --param-file");
	return sweep_prepare(&a->sweep, a->zip, a->words, (size_t)a->num_words, &a->err);
}

static int add(struct add *a)
{
	cleanup_(freep) char *cwd = NULL;
	cleanup_(freep) char *log_dir = NULL;
	cleanup_(commands_closep) struct commands *lines = NULL;
	struct job_spec spec;
	bool from_input = a->num_words == 1 && strcmp(a->words[0], "-") == 0;
	/* Other users may be able to rename it later, so that its path leads elsewhere. */
	a->cwd_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (a->cwd_fd < 0)
		return error_set(&a->err, -errno, "cannot add the job: current directory: %s", error_words(errno));
	int r = from_input ? 0 : add_read_script(a);
	if (r == 0)
		r = queue_choice_resolve(&a->queue, &a->err);
	if (r == 0)
		r = add_take_script(a);
	if (r == 0)
		r = check_sweep(a, from_input);
	if (r == 0 && from_input)
		r = commands_read("-", TRUST_NAMED, &lines, &a->err);
	if (r == 0)
		r = fill_spec(a, &spec, &cwd, &log_dir);
	if (r < 0)
		return r;
	cleanup_(freep) char *logs = log_dir_find(&a->queue.config, a->queue.journal_path);
	if (logs)
		log_dir_note_access(&a->queue.config, logs);
	if (a->dry_run)
		return lines ? show_lines(a, lines, &spec) : show_sweep(a);
	return submit(a, lines, &spec);
}

static int main_add(int argc, char **argv)
{
	struct add a = {.cwd_fd = -1};
	command_parse_in_order(&add_argp, argc, argv, &a);
	a.queue.adds = !a.dry_run;
	int r = add(&a);
	int code = r < 0 ? command_fail(&a.err, r) : EXIT_DONE;
	job_options_finish(&a.options);
	sweep_finish(&a.sweep);
	script_finish(&a.script);
	free(a.script_path);
	free(a.script_words);
	id_list_finish(&a.indices);
	closep(&a.cwd_fd);
	queue_choice_finish(&a.queue);
	return code;
}

const struct command cmd_add = {"add", "Queue a command, a script or a sweep", main_add};
