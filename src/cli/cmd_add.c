/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/lock.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/log_dir.h"
#include "cli/queue_choice.h"
#include "queue/input/submit.h"
#include "queue/journal/environment.h"
#include "queue/journal/follow.h"

extern char **environ;

enum { OPTION_HOLD = 0x200, OPTION_NO_START, OPTION_LOG_DIR, OPTION_ON_FINISH, OPTION_FIRST };

struct add {
	struct queue_choice queue;
	struct job_options options;
	bool hold, no_start;
	char **words;
	int num_words;
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"mem", OPTION_FIRST + JOB_OPTION_MEM, "SIZE", 0, "GPU memory it needs, on each GPU: 12G, 800M", 1},
	{"num-gpus", OPTION_FIRST + JOB_OPTION_NUM_GPUS, "N", 0, "How many GPUs; 0: none", 1},
	{"after", OPTION_FIRST + JOB_OPTION_AFTER, "ID[,ID…]", 0, "Start when these are completed", 1},
	{"name", OPTION_FIRST + JOB_OPTION_NAME, "NAME", 0, "What to call it", 1},
	{"timeout", OPTION_FIRST + JOB_OPTION_TIMEOUT, "TIME", 0, "End it after 90s, 2h, 1d…", 1},
	{"retries", OPTION_FIRST + JOB_OPTION_RETRIES, "N", 0, "Try again so often when it fails", 1},
	{"priority", OPTION_FIRST + JOB_OPTION_PRIORITY, "N", 0, "Higher goes first; 0", 1},
	{"hold", OPTION_HOLD, 0, 0, "Do not start it before 'gpuq release'", 1},
	{"no-start", OPTION_NO_START, 0, 0, "Start no runner in the background", 1},
	{"log-dir", OPTION_LOG_DIR, "DIR", 0, "Where its log goes", 1},
	{"on-finish", OPTION_ON_FINISH, "COMMAND", 0, "Run this when it is over, the end as JSON on its standard input",
		1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct add *a = state->input;
	int r = 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->queue;
		return 0;
	case OPTION_HOLD:
		a->hold = true;
		return 0;
	case OPTION_NO_START:
		a->no_start = true;
		return 0;
	case OPTION_LOG_DIR:
		r = config_set(&a->queue.command_line, CONFIG_LOG_DIR, "--log-dir", arg, &a->err);
		break;
	case OPTION_ON_FINISH:
		r = config_set(&a->queue.command_line, CONFIG_ON_FINISH, "--on-finish", arg, &a->err);
		break;
	case ARGP_KEY_ARGS:
		a->words = state->argv + state->next;
		a->num_words = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "what is to be run? gpuq add [OPTION…] -- COMMAND");
		return EINVAL;
	default:
		if (key < OPTION_FIRST || key >= OPTION_FIRST + JOB_OPTIONS)
			return ARGP_ERR_UNKNOWN;
		r = job_options_set(&a->options, (enum job_option)(key - OPTION_FIRST), arg, &a->err);
	}
	if (r < 0)
		argp_error(state, "%s", a->err.message);
	return 0;
}

/* One word is shell text; several are quoted one by one. */
static void join_words(struct text *t, char **words, int n)
{
	if (n == 1) {
		text_append_string(t, words[0]);
		return;
	}
	for (int i = 0; i < n; i++) {
		if (i)
			text_append_char(t, ' ');
		if (*words[i] && !words[i][strspn(words[i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
							    "0123456789_-./:=,@%+")]) {
			text_append_string(t, words[i]);
			continue;
		}
		text_append_char(t, '\'');
		for (const char *p = words[i]; *p; p++)
			if (*p == '\'')
				text_append_string(t, "'\\''");
			else
				text_append_char(t, *p);
		text_append_char(t, '\'');
	}
}

/* Under one lock with the check: no prune takes what it waits for in between. */
static int add_one(struct journal *j, const struct job_spec *spec, struct id_list *ids, struct gd_error *err)
{
	struct follow f;
	struct submit s;
	bool follows = spec->num_after > 0;
	int r = follows ? follow_open_journal(j, &f, err) : 0;
	if (r < 0)
		return r;
	r = submit_begin(&s, j, ids, err);
	if (r == 0) {
		if (follows)
			r = follow_update(&f, err);
		if (r == 0 && follows)
			r = submit_check_after(&f.jobs, spec, err);
		if (r == 0)
			r = submit_add(&s, spec, err);
		if (r < 0)
			submit_abort(&s);
		else
			r = submit_commit(&s, err);
	}
	if (follows)
		follow_close(&f);
	return r;
}

static int fill_spec(struct add *a, struct job_spec *s, char **ret_cwd, char **ret_log_dir)
{
	const struct job_options *o = &a->options;
	const struct config *c = &a->queue.config;
	*ret_cwd = getcwd(NULL, 0);
	*ret_log_dir = log_dir_configured(c);
	if (!*ret_cwd || (config_has(c, CONFIG_LOG_DIR) && !*ret_log_dir))
		return error_set(&a->err, -errno, "adding a job: this directory: %s", error_words(errno));
	*s = (struct job_spec){.cwd = *ret_cwd,
		.cwd_own = submit_cwd_is_own(),
		.log_dir = *ret_log_dir,
		.name = o->name,
		.on_finish = c->on_finish,
		.after = o->after,
		.num_after = o->num_after,
		.num_gpus = o->set & 1u << JOB_OPTION_NUM_GPUS ? o->num_gpus : -1,
		.mem_mb = o->set & 1u << JOB_OPTION_MEM ? (int64_t)((o->mem_bytes + (1 << 20) - 1) >> 20) : -1,
		.min_free_mem_mb = -1,
		.timeout_ms = o->set & 1u << JOB_OPTION_TIMEOUT ? (int64_t)o->timeout_ms
			      : config_has(c, CONFIG_TIMEOUT)   ? (int64_t)c->timeout_ms
								: -1,
		.retries = o->set & 1u << JOB_OPTION_RETRIES ? o->retries
			   : config_has(c, CONFIG_RETRIES)   ? (int)c->retries
							     : -1,
		.priority = o->set & 1u << JOB_OPTION_PRIORITY ? o->priority : 0,
		.held = a->hold};
	return 0;
}

/* After the append: either the runner sees the job, or we see that there is none. */
static int start_runner(const struct add *a, const struct journal *j, struct gd_error *err)
{
	pid_t holder = 0;
	if (a->no_start || (lock_holder_at(j->dir_fd, "runner.lock", &holder) == 0 && holder != 0))
		return 0;
	return background_start(&a->queue, j->dir_fd, NULL, BACKGROUND_READY_SOON_MS, err);
}

static int add(struct add *a)
{
	cleanup_(journal_closep) struct journal *j = NULL;
	cleanup_(freep) char *cwd = NULL;
	cleanup_(freep) char *log_dir = NULL;
	cleanup_(text_finish) struct text command = {0};
	cleanup_(commands_closep) struct commands *lines = NULL;
	bool many = a->num_words == 1 && strcmp(a->words[0], "-") == 0;
	struct job_spec spec;
	char env[HASH_TEXT];
	struct id_list ids = {0};
	int r = queue_choice_resolve(&a->queue, &a->err);
	if (r == 0 && many)
		r = commands_read("-", TRUST_NAMED, &lines, &a->err);
	if (r == 0)
		r = queue_choice_open(&a->queue, &j, &a->err);
	if (r == 0)
		r = fill_spec(a, &spec, &cwd, &log_dir);
	if (r == 0)
		r = environment_save(j->dir_fd, environ, env, &a->err);
	if (r < 0)
		return r;
	spec.env = env;
	if (many) {
		r = submit_file(j, lines, &spec, &ids, &a->err);
	} else {
		join_words(&command, a->words, a->num_words);
		spec.command = text_string(&command);
		spec.command_size = command.length;
		r = text_error(&command) ? error_set(&a->err, -ENOMEM, "adding a job: out of memory")
					 : add_one(j, &spec, &ids, &a->err);
	}
	for (size_t i = 0; i < ids.count; i++)
		printf("%" PRIu64 "\n", ids.ids[i]);
	if (fflush(stdout) != 0 && r == 0)
		r = error_set(&a->err, -errno, "writing the id: %s", error_words(errno));
	struct gd_error err;
	int started = ids.count ? start_runner(a, j, &err) : 0;
	if (started < 0 && r == 0)
		r = error_set(&a->err, started, "%s", err.message);
	id_list_finish(&ids);
	return r;
}

static int main_add(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "[--] COMMAND [ARGUMENT…]\n-",
		"Queues a command and prints its id.\v"
		"One word after -- is shell text; several are quoted one by one. With -, each line of standard input is a "
		"command. The command gets this environment and this directory.",
		children, NULL, NULL};
	struct add a = {0};
	command_parse(&argp, argc, argv, &a);
	int r = add(&a);
	int code = r < 0 ? command_fail(&a.err, r) : EXIT_DONE;
	job_options_finish(&a.options);
	queue_choice_finish(&a.queue);
	return code;
}

const struct command cmd_add = {"add", "Queue a command", main_add};
