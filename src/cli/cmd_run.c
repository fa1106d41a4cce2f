/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/units.h"
#include "cli/own_jobs.h"
#include "cli/queue_cli.h"
#include "cli/run_panel.h"
#include "cli/run_report.h"
#include "queue/environment.h"
#include "queue/follow.h"
#include "queue/runner.h"
#include "queue/trust.h"

extern char **environ;

/* Between SIGTERM and SIGKILL. */
#define GRACE_MS 10000

enum { OPTION_LINGER = 0x200, OPTION_QUIET, OPTION_NO_PANEL, OPTION_GRACE, OPTION_FIRST };

struct run {
	struct queue_choice queue;
	uint64_t linger_ms, grace_ms;
	bool quiet, no_panel;
	/* As they were typed, for a runner in the background; NULL: not given. */
	const char *given[CONFIG_KEYS], *given_grace;
	struct gd_error err;
	struct commands *commands; /* to be added; NULL: none, or done */
	struct id_list ids;        /* that this command has added */
	struct own_jobs own;       /* the same, since another runs them */
	struct run_report report;
	char *file; /* the commands file; NULL: none, or a pipe */
	char *log_dir;
};

static const struct argp_option options[] = {
	{"commands-file", OPTION_FIRST + CONFIG_COMMANDS_FILE, "FILE", 0,
		"One shell command per line; - is standard input (commands.txt)", 1},
	{"gpus", OPTION_FIRST + CONFIG_GPUS, "SPEC", 0, "Which GPUs: auto, 0,1,2, 0-3, a UUID, or sim:4 ($GPUQ_GPUS)",
		1},
	{"gpu-ids", OPTION_FIRST + CONFIG_GPUS, "SPEC", OPTION_ALIAS, 0, 1},
	{"min-free-mem-mb", OPTION_FIRST + CONFIG_MIN_FREE_MEM, "MB", 0, "GPU memory for jobs that do not say (6000)",
		1},
	{"jobs-per-gpu", OPTION_FIRST + CONFIG_JOBS_PER_GPU, "N", 0,
		"At most so many at once on a GPU (as memory allows)", 1},
	{"poll-interval", OPTION_FIRST + CONFIG_POLL_INTERVAL, "SECONDS", 0,
		"How late what others do on the GPUs may be seen (60)", 1},
	{"timeout", OPTION_FIRST + CONFIG_TIMEOUT, "TIME", 0, "End jobs that do not say after 90s, 2h…", 1},
	{"retries", OPTION_FIRST + CONFIG_RETRIES, "N", 0, "Try jobs that do not say again so often when they fail (0)",
		1},
	{"max-failures", OPTION_FIRST + CONFIG_MAX_FAILURES, "N", 0, "Start nothing new after so many failures", 1},
	{"log-dir", OPTION_FIRST + CONFIG_LOG_DIR, "DIR", 0, "Where logs go (logs beside the journal)", 1},
	{"on-finish", OPTION_FIRST + CONFIG_ON_FINISH, "COMMAND", 0,
		"Run this after each job, its end as JSON on standard input", 1},
	{"keep", OPTION_FIRST + CONFIG_KEEP, 0, 0, "Wait for more when the queue is empty", 1},
	{"background", OPTION_FIRST + CONFIG_BACKGROUND, 0, 0, "Leave the work to a runner in the background", 1},
	{"json", OPTION_FIRST + CONFIG_JSON, 0, 0,
		"At the end, print the jobs of this run as 'status --json' does; lines for people go to standard error",
		1},
	{"grace", OPTION_GRACE, "TIME", 0, "Between SIGTERM and SIGKILL (10s)", 1},
	{"quiet", OPTION_QUIET, 0, 0, "Print no line per job", 1},
	{"no-panel", OPTION_NO_PANEL, 0, 0, "Only lines, no panel under them, also on a terminal", 1},
	{"linger", OPTION_LINGER, "TIME", OPTION_HIDDEN, 0, 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct run *run = state->input;
	int r = 0;
	char option[64] = "--";
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &run->queue;
		return 0;
	case OPTION_QUIET:
		run->quiet = true;
		return 0;
	case OPTION_NO_PANEL:
		run->no_panel = true;
		return 0;
	case OPTION_LINGER:
		r = units_parse_duration(arg, &run->linger_ms, &run->err);
		break;
	case OPTION_GRACE:
		r = units_parse_duration(arg, &run->grace_ms, &run->err);
		run->given_grace = arg;
		break;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s': commands come from --commands-file, or by 'gpuq add'", arg);
		return 0;
	default:
		if (key < OPTION_FIRST || key >= OPTION_FIRST + CONFIG_KEYS)
			return ARGP_ERR_UNKNOWN;
		for (const struct argp_option *o = options; o->name; o++)
			if (o->key == key) {
				snprintf(option, sizeof(option), "--%s", o->name);
				break;
			}
		run->given[key - OPTION_FIRST] = arg ? arg : "";
		r = config_set(&run->queue.command_line, (enum config_key)(key - OPTION_FIRST), option, arg, &run->err);
	}
	if (r < 0)
		argp_error(state, "%s", run->err.message);
	return 0;
}

/* Nobody reads what a runner in the background prints at its end. */
static bool wants_json(const struct run *run)
{
	return run->queue.config.json && !run->linger_ms;
}

static int64_t min_free_mem_mb(const struct config *c)
{
	return (int64_t)((c->min_free_mem_bytes + (1 << 20) - 1) >> 20);
}

/* ---- Commands ------------------------------------------------------------------------- */

/* NULL: there are none to add. The default file need not be there, if the queue has something else to do. */
static const char *commands_file(const struct run *run)
{
	const struct config *c = &run->queue.config;
	/* A runner in the background was started for what is queued. */
	if (run->linger_ms)
		return NULL;
	if (config_has(c, CONFIG_COMMANDS_FILE) || access(c->commands_file, F_OK) == 0)
		return c->commands_file;
	return NULL;
}

/*
 * Where we are the runner, our options are the defaults for jobs that have none of
 * their own. Where another is, it knows nothing of them: they are written down with the jobs.
 */
static int add_commands(struct run *run, struct journal *j, bool another_runs)
{
	const struct config *c = &run->queue.config;
	cleanup_(commands_closep) struct commands *commands = take_ptr(run->commands);
	if (!commands)
		return 0;
	cleanup_(freep) char *cwd = getcwd(NULL, 0);
	/* What comes through a pipe is another thing each time: all of it is new. */
	run->file = commands_is_file(commands) ? realpath(commands_name(commands), NULL) : NULL;
	char env[HASH_TEXT];
	if (!cwd)
		return error_set(&run->err, -errno, "this directory: %s", error_words(errno));
	int r = environment_save(j->dir_fd, environ, env, &run->err);
	if (r < 0)
		return r;
	struct job_spec base = {.cwd = cwd,
		.env = env,
		.file = run->file,
		.log_dir = config_has(c, CONFIG_LOG_DIR) ? run->log_dir : NULL,
		.on_finish = c->on_finish,
		.num_gpus = -1,
		.mem_mb = -1,
		.timeout_ms = -1,
		.retries = -1};
	if (another_runs && config_has(c, CONFIG_TIMEOUT))
		base.timeout_ms = (int64_t)c->timeout_ms;
	if (another_runs && config_has(c, CONFIG_RETRIES))
		base.retries = (int)c->retries;
	if (another_runs && config_has(c, CONFIG_MIN_FREE_MEM))
		base.mem_mb = min_free_mem_mb(c);
	return submit_file(j, commands, &base, &run->ids, &run->err);
}

/* ---- Running, or waiting for who runs ---------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

/* 1: the runner is gone, try to be it. 0: all are over. */
static int wait_for_own(struct run *run, struct follow *f)
{
	while (run->own.open > 0 && !interrupted) {
		if (follow_runner(f) == 0)
			return 1;
		follow_wait(f);
		int r = follow_update(f, &run->err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Those that hold for a runner, and cannot be written down with a job. */
static void say_what_is_ignored(const struct run *run)
{
	static const enum config_key keys[] = {
		CONFIG_GPUS, CONFIG_JOBS_PER_GPU, CONFIG_POLL_INTERVAL, CONFIG_MAX_FAILURES, CONFIG_KEEP};
	cleanup_(text_finish) struct text names = {0};
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		for (const struct argp_option *o = options; run->given[keys[i]] && o->name; o++)
			if (o->key == OPTION_FIRST + (int)keys[i] && !(o->flags & OPTION_ALIAS))
				text_appendf(&names, "%s--%s", names.length ? ", " : "", o->name);
	if (names.length && !text_error(&names))
		say("%s: not used, for that runner has its own", text_string(&names));
}

static int hand_over(struct run *run, pid_t holder)
{
	struct follow f;
	char who[32] = "another machine";
	if (holder > 0)
		snprintf(who, sizeof(who), "PID %d", (int)holder);
	if (run->ids.count)
		say("the queue is run by %s, which got %zu new; waiting for them", who, run->ids.count);
	else
		say("the queue is run by %s, and there is nothing new for it", who);
	if (!run->own.states) {
		say_what_is_ignored(run);
		if (own_jobs_init(&run->own, &run->ids) < 0)
			return error_set(&run->err, -ENOMEM, "waiting: out of memory");
	}
	struct sigaction sa = {.sa_handler = on_interrupt};
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	int r = follow_open(run->queue.journal_path, true, &f, &run->err);
	if (r < 0)
		return r;
	own_jobs_follow(&run->own, &f);
	r = wait_for_own(run, &f);
	follow_close(&f);
	return r;
}

/* A line that was added before is not tried again by running the file again. */
static void say_what_failed_before(const struct run *run)
{
	struct follow f;
	size_t failed = 0;
	if (run->quiet || !run->file || run->ids.count > 0 || follow_open(run->queue.journal_path, false, &f, NULL) < 0)
		return;
	for (size_t i = 0; i < f.jobs.count; i++) {
		const struct job *job = f.jobs.by_id[i];
		failed += job->state == JOB_FAILED && job->wish->file && strcmp(job->wish->file, run->file) == 0;
	}
	follow_close(&f);
	if (failed)
		say("nothing new in '%s'; %zu of it failed before: 'gpuq retry --failed' tries them again", run->file,
			failed);
}

static void fill_options(const struct run *run, struct runner_options *o)
{
	const struct config *c = &run->queue.config;
	*o = (struct runner_options){.gpus = c->gpus,
		.min_free_mem_mb = min_free_mem_mb(c),
		.poll_interval_ms = (int64_t)c->poll_interval_ms,
		.linger_ms = c->keep ? -1 : (int64_t)run->linger_ms,
		.timeout_ms = (int64_t)c->timeout_ms,
		.grace_ms = (int64_t)run->grace_ms,
		.jobs_per_gpu = (int)c->jobs_per_gpu,
		.retries = (int)c->retries,
		.max_failures = (int)c->max_failures,
		.log_dir = run->log_dir,
		.on_finish = c->on_finish,
		.quiet = run->quiet,
		.out = wants_json(run) ? stderr : stdout};
}

/* Who has run it alone answers for all that ended; who began as a second one, for its own jobs, also those of before.
 */
static int finish(struct run *run, const struct runner_result *result)
{
	struct follow f;
	if (result->interrupted || result->left_running)
		return EXIT_INTERRUPTED;
	if (!run->own.states)
		return result->failed || result->cancelled || result->left_pending ? EXIT_WORK_FAILED : EXIT_DONE;
	int r = follow_open(run->queue.journal_path, false, &f, &run->err);
	if (r < 0)
		return r;
	own_jobs_follow(&run->own, &f);
	follow_close(&f);
	return own_jobs_all_completed(&run->own) ? EXIT_DONE : EXIT_WORK_FAILED;
}

/* With a panel under the lines, where they go to a terminal. */
static int run_shown(struct run *run, struct runner *runner, struct runner_options *o, struct runner_result *result)
{
	struct run_panel *panel = run->no_panel || run->linger_ms ? NULL : run_panel_create(o->out, o->quiet);
	runner_set_watch(runner, run_panel_watch(panel));
	int r = runner_run(runner, result, &run->err);
	run_panel_destroy(panel);
	return r;
}

static int run_queue(struct run *run, struct journal *j, bool *ret_stop)
{
	struct runner_options o;
	struct runner *runner = NULL;
	struct runner_result result = {0};
	pid_t holder = 0;
	fill_options(run, &o);
	*ret_stop = true;
	int r = runner_create(j, &o, &runner, &holder, &run->err);
	if (r < 0 && r != -EBUSY)
		return r;
	int added = add_commands(run, j, r == -EBUSY);
	if (added < 0) {
		runner_destroy(runner);
		return added;
	}
	if (r == 0) {
		say_what_failed_before(run);
		r = run_shown(run, runner, &o, &result);
		runner_destroy(runner);
		return r < 0 ? r : finish(run, &result);
	}
	if (run->linger_ms)
		return EXIT_DONE; /* somebody else was faster */
	r = hand_over(run, holder);
	*ret_stop = r != 1 || interrupted;
	if (r < 0)
		return r;
	return interrupted ? EXIT_INTERRUPTED : own_jobs_all_completed(&run->own) ? EXIT_DONE : EXIT_WORK_FAILED;
}

static int default_log_dir(struct run *run)
{
	const struct config *c = &run->queue.config;
	const char *slash = strrchr(run->queue.journal_path, '/');
	if (config_has(c, CONFIG_LOG_DIR))
		run->log_dir = cli_absolute(c->log_dir);
	else if (asprintf(&run->log_dir, "%.*s/logs", (int)(slash - run->queue.journal_path), run->queue.journal_path) <
		 0)
		run->log_dir = NULL;
	return run->log_dir ? 0 : error_set(&run->err, -ENOMEM, "log directory: out of memory");
}

/* What the runner in the background gets of our options. */
#define MAX_PASSED (CONFIG_KEYS + 3)

static void passed_finish(char *(*passed)[MAX_PASSED])
{
	for (size_t i = 0; i < MAX_PASSED; i++)
		free((*passed)[i]);
}

static int pass(char **passed, size_t *count, const char *name, const char *value)
{
	if (asprintf(&passed[*count], "--%s%s%s", name, *value ? "=" : "", value) < 0) {
		passed[*count] = NULL;
		return -ENOMEM;
	}
	++*count;
	return 0;
}

static int pass_options(const struct run *run, char **passed)
{
	size_t n = 0;
	int r = 0;
	for (const struct argp_option *o = options; r == 0 && o->name; o++) {
		int key = o->key - OPTION_FIRST;
		if (key < 0 || o->flags & OPTION_ALIAS || !run->given[key] || key == CONFIG_COMMANDS_FILE ||
			key == CONFIG_BACKGROUND || key == CONFIG_JSON)
			continue;
		r = pass(passed, &n, o->name, key == CONFIG_LOG_DIR ? run->log_dir : run->given[key]);
	}
	if (r == 0 && run->given_grace)
		r = pass(passed, &n, "grace", run->given_grace);
	if (r == 0 && run->quiet)
		r = pass(passed, &n, "quiet", "");
	return r;
}

static int run_in_background(struct run *run, struct journal *j)
{
	cleanup_(passed_finish) char *passed[MAX_PASSED] = {NULL};
	pid_t holder = 0;
	if (lock_holder_at(j->dir_fd, "runner.lock", &holder) < 0)
		holder = 0;
	int r = add_commands(run, j, holder != 0);
	if (holder != 0)
		say_what_is_ignored(run);
	if (r == 0 && pass_options(run, passed) < 0)
		r = error_set(&run->err, -ENOMEM, "starting a runner: out of memory");
	return r < 0 ? r : cli_start_runner(&run->queue, (const char *const *)passed, &run->err);
}

static int run(struct run *run)
{
	cleanup_(journal_closep) struct journal *j = NULL;
	int r = queue_choose(&run->queue, &run->err);
	if (r == 0)
		r = default_log_dir(run);
	if (r < 0)
		return r;
	if (!commands_file(run) && !run->linger_ms && !run->queue.config.keep &&
		access(run->queue.journal_path, F_OK) < 0)
		return error_set(&run->err, -EINVAL,
			"nothing to run: neither '%s' nor journal '%s' is there; name a file with --commands-file",
			run->queue.config.commands_file, run->queue.journal_path);
	const char *path = commands_file(run);
	if (path && strcmp(path, "-") != 0 && access(path, R_OK) < 0)
		return error_set(&run->err, -ENOENT, "reading commands file '%s': %s", path, error_words(errno));
	/* Before anything is locked and signals are blocked: whoever writes into a pipe may take its time. */
	if (path)
		r = commands_read(path, &run->commands, &run->err);
	if (r == 0)
		r = journal_open(run->queue.journal_path, &j, &run->err);
	if (r == 0 && !run->queue.trust)
		r = trust_check(j->fd, j->path, &run->err);
	if (r < 0)
		return r;
	bool in_background = run->queue.config.background && !run->linger_ms;
	r = wants_json(run) ? run_report_begin(&run->report, j->path, &run->err) : 0;
	if (r < 0)
		return r;
	int code;
	if (in_background) {
		code = run_in_background(run, j);
	} else {
		bool stop;
		do
			code = run_queue(run, j, &stop);
		while (!stop);
	}
	if (code >= 0 && wants_json(run)) {
		bool only_own = in_background || run->own.states;
		r = run_report_print(&run->report, only_own ? &run->ids : NULL, j->path, &run->err);
	}
	return r < 0 ? r : code;
}

static int main_run(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "",
		"Runs the commands of a file, and what else is queued, each on a GPU with room for it.\v"
		"Run it again after an interruption: only lines that are new are added. Ctrl-C: nothing new starts; again: "
		"running jobs are ended; a third time: killed. SIGTERM leaves them running for the next 'gpuq run'.",
		children, NULL, NULL};
	struct run state = {.grace_ms = GRACE_MS};
	cli_parse(&argp, argc, argv, &state);
	int r = run(&state);
	int code = r < 0 ? cli_fail(&state.err, r) : EXIT_DONE;
	commands_close(state.commands);
	own_jobs_finish(&state.own);
	run_report_finish(&state.report);
	id_list_finish(&state.ids);
	queue_choice_finish(&state.queue);
	free(state.log_dir);
	free(state.file);
	return r < 0 ? code : r;
}

const struct command cmd_run = {"run", "Run the commands of a file, and what is queued, on the GPUs", main_run};
