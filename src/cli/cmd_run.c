/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"
#include "base/trust.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/log_dir.h"
#include "cli/run_parts.h"
#include "cli/say.h"
#include "cli/subprogram.h"
#include "queue/input/commands.h"
#include "queue/runner/runner.h"

/* Time between SIGTERM and SIGKILL. */
#define GRACE_MS 10000

enum {
	OPTION_LINGER = 0x200,
	OPTION_READY,
	OPTION_QUIET,
	OPTION_NO_PANEL,
	OPTION_GRACE,
	OPTION_TAKEOVER,
	OPTION_FIRST
};

static const struct argp_option options[] = {
	{"commands-file", OPTION_FIRST + CONFIG_COMMANDS_FILE, "FILE", 0,
		"One shell command per line; - is standard input (commands.txt)", 1},
	{"gpus", OPTION_FIRST + CONFIG_GPUS, "SPEC", 0, "Which GPUs: auto, 0,1,2, 0-3, a UUID, or sim:4 ($GPUQ_GPUS)",
		1},
	{"gpu-ids", OPTION_FIRST + CONFIG_GPUS, "SPEC", OPTION_ALIAS, 0, 1},
	{"min-free-mem-mb", OPTION_FIRST + CONFIG_MIN_FREE_MEM, "MB", 0, "Default GPU memory of a job (6000)", 1},
	{"jobs-per-gpu", OPTION_FIRST + CONFIG_JOBS_PER_GPU, "N", 0,
		"Maximum number of jobs per GPU (as memory allows)", 1},
	{"poll-interval", OPTION_FIRST + CONFIG_POLL_INTERVAL, "SECONDS", 0,
		"How often to poll for other users' GPU usage (60)", 1},
	{"timeout", OPTION_FIRST + CONFIG_TIMEOUT, "TIME", 0, "Default time limit of a job: 90s, 2h", 1},
	{"retries", OPTION_FIRST + CONFIG_RETRIES, "N", 0, "Default number of retries of a job (0)", 1},
	{"exclusive", OPTION_FIRST + CONFIG_EXCLUSIVE, 0, 0,
		"Do not share the GPUs of the commands in the file with other jobs", 1},
	{"host-mem", OPTION_FIRST + CONFIG_HOST_MEM, "SIZE", 0, "Main memory that each command in the file needs", 1},
	{"cpus", OPTION_FIRST + CONFIG_CPUS, "N", 0, "CPUs that each command in the file needs", 1},
	{"cpu-affinity", OPTION_FIRST + CONFIG_CPU_AFFINITY, "gpu|none", 0,
		"gpu: run jobs on the CPUs next to their GPUs; none: on all CPUs (none)", 1},
	{"idle-warn", OPTION_FIRST + CONFIG_IDLE_WARN, "TIME", 0,
		"Default idle warning of a job: mark it, and run --on-idle, if one of its GPUs is idle for this long, such as 15m (0: never)",
		1},
	{"max-failures", OPTION_FIRST + CONFIG_MAX_FAILURES, "N", 0, "Start no more jobs after this many failures", 1},
	{"log-dir", OPTION_FIRST + CONFIG_LOG_DIR, "DIR", 0, "Folder for logs (the folder 'logs' next to the journal)",
		1},
	{"log-access", OPTION_FIRST + CONFIG_LOG_ACCESS, "owner|group|all", 0, "Who may read logs (owner)", 1},
	{"max-log-size", OPTION_FIRST + CONFIG_MAX_LOG_SIZE, "SIZE", 0,
		"Keep only the beginning and the end of larger logs (no limit)", 1},
	{"on-finish", OPTION_FIRST + CONFIG_ON_FINISH, "COMMAND", 0,
		"Run this command after each attempt of a job; it reads the result as JSON on standard input", 1},
	{"slurm", OPTION_FIRST + CONFIG_SLURM, "OPTIONS", 0,
		"Run the jobs on a Slurm cluster: options for sbatch, as in '--partition=gpu --gres=gpu:4 --time=4:00:00'",
		1},
	{"max-nodes", OPTION_FIRST + CONFIG_MAX_NODES, "N", 0, "With --slurm: maximum number of nodes at a time (1)",
		1},
	{"slurm-silence", OPTION_FIRST + CONFIG_SLURM_SILENCE, "SECONDS", 0,
		"With --slurm: start no jobs on a node that has been silent for this long (15)", 1},
	{"slurm-lease", OPTION_FIRST + CONFIG_SLURM_LEASE, "SECONDS", 0,
		"With --slurm: nodes end their jobs after this long without contact with 'gpuq run' (900)", 1},
	{"slurm-address", OPTION_FIRST + CONFIG_SLURM_ADDRESS, "HOST", 0,
		"With --slurm: the address of this host that nodes connect to, or of any host in their network (found by asking Slurm)",
		1},
	{"takeover", OPTION_TAKEOVER, 0, 0,
		"With --slurm: take over a queue whose coordinator ran on another host and is gone", 1},
	{"on-idle", OPTION_FIRST + CONFIG_ON_IDLE, "COMMAND", 0,
		"Run this command when --idle-warn marks a job; it reads the job as JSON on standard input", 1},
	{"keep", OPTION_FIRST + CONFIG_KEEP, 0, 0, "Wait for more jobs when the queue is empty", 1},
	{"background", OPTION_FIRST + CONFIG_BACKGROUND, 0, 0, "Start a runner in the background and return", 1},
	{"json", OPTION_FIRST + CONFIG_JSON, 0, 0,
		"At the end, print the jobs of this run like 'status --json'; other output goes to standard error", 1},
	{"grace", OPTION_GRACE, "TIME", 0, "Time between SIGTERM and SIGKILL (10s)", 1},
	{"quiet", OPTION_QUIET, 0, 0, "Do not print a line per job", 1},
	{"no-panel", OPTION_NO_PANEL, 0, 0, "Print only lines, without the panel, even on a terminal", 1},
	{"linger", OPTION_LINGER, "TIME", OPTION_HIDDEN, 0, 1},
	{"ready-fd", OPTION_READY, "FD", OPTION_HIDDEN, 0, 1},
	{0},
};

const char *run_option_name(enum config_key key)
{
	for (const struct argp_option *o = options; o->name; o++)
		if (o->key == OPTION_FIRST + (int)key)
			return o->name;
	return NULL;
}

/* Sets close-on-exec: no process that we start may hold it open. */
static int take_ready_fd(struct run *run, const char *text)
{
	int fd = atoi(text);
	if (fd <= STDERR_FILENO || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return error_set(&run->err, -EINVAL, "--ready-fd '%s': not a file descriptor", text);
	run->ready_fd = fd;
	return 0;
}

/* --slurm may be given several times, once for each kind of pilots: one line each. */
static int add_kind(struct run *run, const char *words)
{
	struct config *c = &run->queue.command_line;
	cleanup_(text_finish) struct text lines = {0};
	text_appendf(&lines, "%s%s%s", c->slurm ? c->slurm : "", c->slurm ? "\n" : "", words);
	int r = text_error(&lines)
			? error_set(&run->err, -ENOMEM, "--slurm: out of memory")
			: config_set(c, CONFIG_SLURM, "--slurm", *words ? text_string(&lines) : "", &run->err);
	/* This string does not move when the settings are merged. */
	run->given[CONFIG_SLURM] = c->slurm;
	return r;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct run *run = state->input;
	int r = 0;
	char option[64];
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
	case OPTION_FIRST + CONFIG_SLURM:
		r = add_kind(run, arg);
		break;
	case OPTION_TAKEOVER:
		run->takeover = true;
		return 0;
	case OPTION_LINGER:
		r = units_parse_duration(arg, &run->linger_ms, &run->err);
		break;
	case OPTION_READY:
		r = take_ready_fd(run, arg);
		break;
	case OPTION_GRACE:
		if (units_parse_duration(arg, &run->grace_ms, &run->err) < 0)
			arguments_error(state, "--grace: %s", run->err.message);
		run->given_grace = arg;
		return 0;
	case ARGP_KEY_ARG:
		arguments_error(
			state, "unexpected argument '%s'; commands come from --commands-file or 'gpuq add'", arg);
		return 0;
	default:
		if (key < OPTION_FIRST || key >= OPTION_FIRST + CONFIG_KEYS)
			return ARGP_ERR_UNKNOWN;
		snprintf(option, sizeof(option), "--%s", run_option_name((enum config_key)(key - OPTION_FIRST)));
		run->given[key - OPTION_FIRST] = arg ? arg : "";
		r = config_set(&run->queue.command_line, (enum config_key)(key - OPTION_FIRST), option, arg, &run->err);
	}
	if (r < 0)
		arguments_error(state, "%s", run->err.message);
	return 0;
}

/* The output of a runner in the background is not read. */
static bool wants_json(const struct run *run)
{
	return run->queue.config.json && !run->linger_ms;
}

FILE *run_out(const struct run *run)
{
	return wants_json(run) ? stderr : stdout;
}

struct order_defaults run_order_defaults(const struct run *run)
{
	const struct config *c = &run->queue.config;
	return (struct order_defaults){.log_dir = run->log_dir,
		.timeout_ms = (int64_t)c->timeout_ms,
		.grace_ms = (int64_t)run->grace_ms,
		.max_log_bytes = (int64_t)c->max_log_bytes,
		.retries = (int)c->retries,
		.log_access = c->log_access,
		.log_trust = run->queue.trust                ? LOG_TRUST_ALL
			     : config_has(c, CONFIG_LOG_DIR) ? LOG_TRUST_NAMED
							     : LOG_TRUST_OWN};
}

/* ---- Running, or waiting for another runner ---------------------------------------------- */

void run_on_ready(void *context)
{
	struct run *run = context;
	background_tell(run->ready_fd, NULL);
	run->ready_fd = -1;
}

void run_say_lost(const char *journal_path, uint64_t count)
{
	if (count)
		say("journal '%s' is damaged: the 'add' record%s of %" PRIu64
		    " job%s %s lost; run 'gpuq verify' for details",
			journal_path, count == 1 ? "" : "s", count, count == 1 ? "" : "s", count == 1 ? "was" : "were");
}

/* If this process alone ran the queue, all ended jobs count. If it first waited for another runner, only the jobs that
 * it added or waited for count. */
static int finish(struct run *run, struct journal *j, const struct runner_result *result)
{
	struct follow f;
	run_say_lost(j->path, result->left_lost);
	if (result->interrupted || result->left_running)
		return EXIT_INTERRUPTED;
	if (!run->own.states)
		return result->failed || result->cancelled || result->left_pending || result->left_stuck ||
				       result->left_unknown || result->left_lost || result->left_elsewhere ||
				       run->failed_before
			       ? EXIT_WORK_FAILED
			       : EXIT_DONE;
	int r = follow_open_journal(j, &f, &run->err);
	if (r < 0)
		return r;
	r = run_own_jobs_follow(&run->own, &f, &run->err);
	follow_close(&f);
	if (r < 0)
		return r;
	return run_own_jobs_all_completed(&run->own) && !result->left_lost ? EXIT_DONE : EXIT_WORK_FAILED;
}

static int run_queue(struct run *run, struct journal **ret_journal, bool *ret_stop)
{
	struct journal *j = *ret_journal;
	bool continues = run->so_far.moved;
	void *runner = NULL;
	struct runner_result result = {0};
	pid_t holder = 0;
	*ret_stop = true;
	int r = run->engine->create(run, j, &runner, &holder);
	if (r < 0 && r != -EBUSY) {
		if (run->made_queue)
			journal_remove_empty(j);
		return r;
	}
	int added = run_add_commands(run, j, r == -EBUSY);
	if (added < 0) {
		run->engine->destroy(runner);
		return added;
	}
	if (r == 0) {
		if (!continues)
			run_look_at_what_failed_before(run);
		r = run->engine->run(run, runner, &result);
		run->engine->destroy(runner);
		if (r < 0 || !result.moved)
			return r < 0 ? r : finish(run, j, &result);
		run->so_far = result;
		r = run_follow_queue(run, ret_journal);
		*ret_stop = r < 0;
		return r;
	}
	if (run->linger_ms) {
		run_on_ready(run); /* another runner was faster */
		return EXIT_DONE;
	}
	r = run_hand_over(run, holder);
	*ret_stop = r != 1 || run_was_interrupted();
	if (r < 0)
		return r;
	if (run_was_interrupted())
		return EXIT_INTERRUPTED;
	return run_own_jobs_all_completed(&run->own) && !run->lost ? EXIT_DONE : EXIT_WORK_FAILED;
}

static int find_log_dir(struct run *run)
{
	run->log_dir = log_dir_find(&run->queue.config, run->queue.journal_path);
	return run->log_dir ? 0 : error_set(&run->err, -ENOMEM, "log directory: out of memory");
}

/* If there are commands, their queue is in this directory, unless other users could replace it. */
static int find_queue(struct run *run)
{
	run->queue.only_here = true;
	run->queue.creates_here = run_commands_file(run);
	/* The personal queue belongs to this host, so it is not the default for a cluster. */
	run->queue.falls_back = run->queue.creates_here && !run->queue.config.slurm;
	run->queue.adds = run->queue.config.keep;
	int r = queue_choice_resolve(&run->queue, &run->err);
	if (r == 0 && run->queue.source == QUEUE_SOURCE_PERSONAL && !run->queue.creates_here &&
		access(run->queue.journal_path, F_OK) == 0)
		say("running the personal queue '%s'", run->queue.journal_path);
	return r;
}

/* A file that the user named is used, even if others can write to it, but the user may not know that they can. */
static void note_writers(const struct run *run, const char *path)
{
	struct stat st;
	cleanup_(closep) int fd = run->queue.trust || trust_is_off() ? -1 : open(path, O_PATH | O_CLOEXEC);
	const char *objection = fd < 0 ? NULL : trust_objection(fd);
	if (objection && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && trust_is_user(st.st_uid))
		say("commands file '%s' %s: other users can add commands, which run as you; check its content, and run chmod go-w on it to prevent this",
			path, objection);
}

static int run(struct run *run)
{
	cleanup_(journal_closep) struct journal *j = NULL;
	int r = find_queue(run);
	if (r == 0)
		r = find_log_dir(run);
	if (r < 0)
		return r;
	if (!run_commands_file(run) && !run->linger_ms && !run->queue.config.keep &&
		access(run->queue.journal_path, F_OK) < 0)
		return error_set(&run->err, -EINVAL,
			"nothing to run: neither '%s' nor journal '%s' exists; name a file with --commands-file",
			run->queue.config.commands_file, run->queue.journal_path);
	const char *path = run_commands_file(run);
	if (path && strcmp(path, "-") != 0 && access(path, R_OK) < 0)
		return error_set(&run->err, -ENOENT, "cannot read commands file '%s': %s", path, error_words(errno));
	/* Read before locking and before blocking signals: the writer of a pipe may be slow. */
	if (path)
		r = commands_read(path, queue_choice_trust(&run->queue, run->given[CONFIG_COMMANDS_FILE]),
			&run->commands, &run->err);
	if (r == 0 && path)
		note_writers(run, path);
	if (r == 0)
		r = log_dir_check(&run->queue, run->log_dir, &run->err);
	if (r == 0 && !run->linger_ms)
		log_dir_note_access(&run->queue.config, run->log_dir);
	run->made_queue = access(run->queue.journal_path, F_OK) < 0;
	if (r == 0)
		r = queue_choice_open(&run->queue, &j, &run->err);
	if (r < 0)
		return r;
	bool in_background = run->queue.config.background && !run->linger_ms;
	r = wants_json(run) ? run_report_begin(&run->report, j, &run->err) : 0;
	if (r < 0)
		return r;
	int code;
	if (in_background) {
		code = run_in_background(run, j);
	} else {
		bool stop;
		do
			code = run_queue(run, &j, &stop);
		while (!stop);
	}
	if (code >= 0 && wants_json(run)) {
		bool only_own = in_background || run->own.states;
		r = run_report_print(&run->report, only_own ? &run->ids : NULL, j, &run->err);
	}
	return r < 0 ? r : code;
}

/* The runner for a cluster is a separate program. */
static int become_coordinator(struct run *run, char **argv)
{
	if (run->ready_fd >= 0)
		(void)fcntl(run->ready_fd, F_SETFD, 0);
	return subprogram_become("gpuq-slurm", "nettle (Debian: nettle-dev)", argv);
}

int run_main(int argc, char **argv, const struct run_engine *engine)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "",
		"Run the commands of a file, and other queued jobs, each on a GPU with enough free memory.\v"
		"After an interruption, run the same command again: it adds only new lines. After the first Ctrl-C, no new jobs "
		"start; the second one ends the running jobs, the third one kills them. SIGTERM leaves them running for the "
		"next 'gpuq run'.",
		children, NULL, NULL};
	struct run state = {.grace_ms = GRACE_MS, .ready_fd = -1, .engine = engine};
	command_parse(&argp, argc, argv, &state);
	int r = queue_choice_configure(&state.queue, &state.err), code;
	if (r == 0)
		r = run_check_slurm(&state);
	if (r == 0 && state.queue.config.slurm && !engine->on_slurm) {
		code = become_coordinator(&state, argv);
		queue_choice_finish(&state.queue);
		return code;
	}
	if (r == 0)
		r = run(&state);
	code = r < 0 ? command_fail(&state.err, r) : EXIT_DONE;
	background_tell(state.ready_fd, r < 0 ? &state.err : NULL);
	commands_close(state.commands);
	run_own_jobs_finish(&state.own);
	run_report_finish(&state.report);
	id_list_finish(&state.ids);
	queue_choice_finish(&state.queue);
	free(state.log_dir);
	free(state.file);
	return r < 0 ? code : r;
}
