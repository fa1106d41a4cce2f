/* SPDX-License-Identifier: MIT */
#include "cli/launch_slurm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/display.h"
#include "base/error.h"
#include "base/file.h"
#include "base/helper.h"
#include "base/shell_words.h"
#include "base/units.h"
#include "cli/exit_code.h"
#include "cli/say.h"
#include "cli/slurm_launch.h"
#include "cli/stop_signals.h"
#include "launch/outputs.h"
#include "launch/remote_brief.h"
#include "slurm/file_worker.h"
#include "slurm/pilot_kind.h"

#define DIR_NAME      "launch.slurm"
#define COMMANDS_NAME "commands.txt"
#define LEASE_MS      (900 * 1000) /* as in `gpuq run` */
#define SILENCE_MS    (15 * 1000)
#define MOST_WORKERS  4096
#define MOST_RESTARTS 5
#define ALONE_NS      (30 * NS_PER_S)
/* When to send the coordinator each stop signal, after the run: start no jobs; end running jobs; kill them; exit. */
static const unsigned stop_after_ms[] = {0, 1000, 20000, 40000};

/* ---- Options ----------------------------------------------------------------------------------- */

static int parse_time(const char *text, const char *name, uint64_t otherwise, uint64_t *ret, struct gd_error *err)
{
	struct gd_error why = {0};
	*ret = otherwise;
	if (!text || units_parse_duration(text, ret, &why) == 0)
		return 0;
	return error_set(err, -EINVAL, "%s: %s", name, why.message);
}

static int count_gpus(const struct launch_slurm_options *o, unsigned *ret, struct gd_error *err)
{
	*ret = 0;
	for (size_t i = 0; i < o->num_kinds; i++) {
		struct pilot_kind kind = {0};
		char quoted[DISPLAY_QUOTE_ROOM];
		pilot_kind_parse(&kind, o->kinds[i]);
		if (!kind.gpus_known || kind.gpus == 0)
			return error_set(err, -EINVAL,
				"--slurm: '%s' does not say how many GPUs a node has; add, for example, --gres=gpu:4",
				display_quote(o->kinds[i], quoted));
		if (kind.gpus > *ret)
			*ret = kind.gpus;
	}
	return 0;
}

int launch_slurm_check(struct launch_slurm_options *o, struct gd_error *err)
{
	unsigned gpus;
	if (!o->max_nodes)
		o->max_nodes = 1;
	int r = count_gpus(o, &gpus, err);
	if (r == 0)
		r = parse_time(o->lease, "--slurm-lease", LEASE_MS, &o->lease_ms, err);
	if (r == 0)
		r = parse_time(o->silence, "--slurm-silence", SILENCE_MS, &o->silence_ms, err);
	if (r < 0)
		return r;
	o->workers = (size_t)gpus * o->max_nodes;
	if (o->workers > MOST_WORKERS)
		return error_set(err, -EINVAL, "--max-nodes %u with %u GPUs each: at most %d GPUs are supported",
			o->max_nodes, gpus, MOST_WORKERS);
	snprintf(o->gpus, sizeof(o->gpus), "sim:%zu", o->workers);
	return 0;
}

/* ---- Start ------------------------------------------------------------------------------------- */

/* Ends the workers of a launch that was killed, and waits until it is certain that they are dead. */
static int end_earlier(struct launch_slurm *s, struct gd_error *err)
{
	bool told = false;
	int r;
	while ((r = launch_slurm_prepare(s, err)) == -EBUSY) {
		if (!told)
			say("waiting until the workers of an earlier launch have ended");
		told = true;
		if (!s->coordinator && (r = launch_slurm_start(s, NULL, err)) < 0)
			return r;
		(void)launch_slurm_wait(s, 500);
		launch_slurm_say(s);
		if (stop_signals_count() > 0)
			return error_set(err, -ECANCELED, "interrupted");
	}
	while (r == 0 && !launch_slurm_wait(s, 1000))
		;
	return r;
}

static int write_brief(
	const struct launch_slurm *s, int dir_fd, const struct launch_remote_plan *plan, struct gd_error *err)
{
	cleanup_(freep) char **argv = NULL;
	const struct gd_launch_options *o = plan->options;
	int r = launch_worker_argv(plan->worker, false, &argv, err);
	if (r < 0)
		return r;
	const struct remote_brief brief = {.argv = argv,
		.settings = (struct gd_setting *)(uintptr_t)o->settings,
		.num_settings = o->num_settings,
		.task_timeout_ms = o->task_timeout_ms,
		.setup_timeout_ms = o->setup_timeout_ms,
		.retries = o->retries,
		.log_dir = plan->log_dir,
		.lease_ms = (int64_t)s->options->lease_ms,
		.silence_ms = (int64_t)s->options->silence_ms};
	r = remote_brief_write(dir_fd, FILE_BRIEF_NAME, &brief);
	return r < 0 ? error_set(err, r, "cannot write '%s/" FILE_BRIEF_NAME "': %s", s->dir, error_words(r)) : 0;
}

/* Job N of the queue is worker N-1. */
static int write_commands(const struct launch_slurm *s, const char *path, size_t workers, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	for (size_t i = 0; i < workers; i++) {
		text_append_string(&t, "exec ");
		shell_quote(&t, s->program, strlen(s->program));
		text_append_string(&t, " " SLURM_LAUNCH_WORKER " ");
		shell_quote(&t, s->dir, strlen(s->dir));
		text_appendf(&t, " %zu\n", i);
	}
	cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r = text_error(&t) ? -ENOMEM : fd < 0 ? -errno : file_write_all(fd, t.data, t.length);
	return r < 0 ? error_set(err, r, "cannot write '%s': %s", path, error_words(r)) : 0;
}

static int make_paths(struct launch_slurm *s, const struct launch_remote_plan *plan, struct gd_error *err)
{
	if (snprintf(s->dir, sizeof(s->dir), "%s/" DIR_NAME, plan->output_root) + 64 > (int)sizeof(s->dir))
		return error_set(err, -ENAMETOOLONG, "the path of the output folder is too long");
	if (strchr(s->dir, '\n'))
		return error_set(err, -EINVAL, "--slurm: the path of the output folder has a line break");
	int r = outputs_make_private(plan->output_fd, DIR_NAME);
	if (r < 0)
		return error_set(err, r, "cannot create folder '%s': %s", s->dir,
			r == -EPERM ? "it was created by another user; remove it" : error_words(r));
	return helper_find("gpuq-slurm", "GPUQ_SLURM", s->program, sizeof(s->program), err);
}

/*
 * For a launch on this machine: workers of a killed launch on a cluster may still process the same files.
 * launch_slurm_prepare() cancels them, and their coordinator, if it is alive, ends them.
 */
static int check_alone(struct launch_slurm *s, const struct launch_remote_plan *plan, struct gd_error *err)
{
	uint64_t until_ns = clock_now_ns() + ALONE_NS;
	if (faccessat(plan->output_fd, DIR_NAME "/" FILE_JOURNAL_NAME, F_OK, 0) < 0)
		return 0;
	int r = make_paths(s, plan, err);
	while (r == 0 && (r = launch_slurm_prepare(s, err)) == -EBUSY && clock_now_ns() < until_ns &&
		stop_signals_count() == 0) {
		(void)poll(NULL, 0, 500);
		r = 0;
	}
	return r == -EBUSY
		       ? error_set(err, r,
				 "workers of an earlier launch on a cluster may still process files of this folder; to end them, run the same command with the --slurm options of that launch")
		       : r;
}

static int start(
	void *context, const struct launch_remote_plan *plan, struct launch_remote_workers *ret, struct gd_error *err)
{
	struct launch_slurm *s = context;
	cleanup_(text_finish) struct text commands = {0};
	*ret = (struct launch_remote_workers){0};
	if (s->options->num_kinds == 0)
		return check_alone(s, plan, err);
	size_t workers = plan->num_files < s->options->workers ? plan->num_files : s->options->workers;
	int r = make_paths(s, plan, err);
	if (r == 0)
		r = end_earlier(s, err);
	if (r < 0)
		return r;
	cleanup_(closep) int dir_fd = open(s->dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	text_appendf(&commands, "%s/" COMMANDS_NAME, s->dir);
	if (dir_fd < 0 || text_error(&commands))
		return error_set(err, -EIO, "cannot open '%s': %s", s->dir, error_words(errno));
	r = write_brief(s, dir_fd, plan, err);
	if (r == 0)
		r = write_commands(s, text_string(&commands), workers, err);
	if (r == 0)
		r = launch_slurm_start(s, text_string(&commands), err);
	if (r < 0)
		return r;
	snprintf(s->proxies, sizeof(s->proxies), "%.*s/proxies", PATH_MAX - 10, s->dir);
	*ret = (struct launch_remote_workers){s->proxy_argv, workers, s->proxies};
	return 0;
}

void launch_slurm_init(struct launch_slurm *s, const struct launch_slurm_options *options)
{
	*s = (struct launch_slurm){.options = options, .log_fd = -1};
	s->remote = (struct launch_remote){start, s};
	s->proxy_argv[0] = s->program;
	s->proxy_argv[1] = SLURM_LAUNCH_PROXY;
	s->proxy_argv[2] = s->dir;
}

/* ---- During the run, and its end ---------------------------------------------------------------- */

/* Removes the coordinator's prefix "gpuq: ": say() adds the same one. */
static void say_line(const struct text *line)
{
	static const char name[] = "gpuq: ";
	cleanup_(text_finish) struct text shown = {0};
	display_append(&shown, text_string(line), line->length, DISPLAY_ALL);
	const char *words = text_string(&shown);
	say("%s", strncmp(words, name, sizeof(name) - 1) == 0 ? words + sizeof(name) - 1 : words);
}

void launch_slurm_say(struct launch_slurm *s)
{
	char buf[4096];
	ssize_t n;
	while (s->log_fd >= 0 && (n = read(s->log_fd, buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (buf[i] != '\n') {
				text_append_char(&s->line, buf[i]);
				continue;
			}
			say_line(&s->line);
			text_clear(&s->line);
		}
}

/* Called if the coordinator has ended during the run. */
static void replace_coordinator(struct launch_slurm *s)
{
	struct gd_error err = {0};
	cleanup_(text_finish) struct text commands = {0};
	if (s->refused) {
		s->exit_code = EXIT_USAGE; /* the coordinator has printed the reason */
		return;
	}
	if (s->restarts++ == MOST_RESTARTS) {
		say("the coordinator has ended %d times; see coordinator.log in '%s'", MOST_RESTARTS + 1, s->dir);
		s->exit_code = EXIT_WORK_FAILED;
		return;
	}
	say("the coordinator has ended; starting it again");
	text_appendf(&commands, "%s/" COMMANDS_NAME, s->dir);
	if (text_error(&commands))
		say("cannot start the coordinator again: out of memory");
	else if (launch_slurm_start(s, text_string(&commands), &err) < 0)
		say("%s", err.message);
}

bool launch_slurm_look(struct launch_slurm *s)
{
	launch_slurm_say(s);
	if (!s->proxies[0] || s->exit_code || !launch_slurm_wait(s, 0))
		return s->exit_code != 0;
	launch_slurm_say(s);
	replace_coordinator(s);
	return s->exit_code != 0;
}

/* Each Ctrl-C of the user sends the next stop signal at once. */
void launch_slurm_end(struct launch_slurm *s)
{
	uint64_t begun_ns = clock_now_ns();
	int stops = stop_signals_count();
	for (size_t sent = 0; s->coordinator && !launch_slurm_wait(s, 50);) {
		uint64_t gone_ms = (clock_now_ns() - begun_ns) / NS_PER_MS;
		bool asked = stop_signals_count() > stops;
		if (sent < sizeof(stop_after_ms) / sizeof(*stop_after_ms) &&
			(asked || gone_ms >= stop_after_ms[sent])) {
			(void)kill(s->coordinator, SIGINT);
			sent++;
			stops += asked;
		}
	}
	closep(&s->log_fd);
	text_finish(&s->line);
}
