/* SPDX-License-Identifier: MIT */
/* `gpuq run`: the lines of its commands file. */
#include "cli/run_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/say.h"
#include "queue/input/submit.h"
#include "queue/journal/environment.h"
#include "queue/journal/follow.h"

extern char **environ;

/* The default file may be missing if the queue has other jobs. */
const char *run_commands_file(const struct run *run)
{
	const struct config *c = &run->queue.config;
	/* A runner in the background only runs queued jobs. */
	if (run->linger_ms)
		return NULL;
	if (config_has(c, CONFIG_COMMANDS_FILE) || access(c->commands_file, F_OK) == 0)
		return c->commands_file;
	return NULL;
}

/* New lines are held if records of the journal are missing: their jobs may already have run. */
static void say_if_held(const struct run *run, struct journal *j)
{
	struct follow f;
	if (follow_open_journal(j, &f, NULL) < 0)
		return;
	if (f.jobs.damaged || f.jobs.lines_lost)
		say("journal '%s' %s: new lines of '%s' are held; run 'gpuq verify', then 'gpuq release'", j->path,
			f.jobs.damaged ? "is damaged" : "has lost jobs", run->file);
	follow_close(&f);
}

/*
 * If we are the runner, our options are the defaults for jobs that do not set them. Another
 * runner does not know our options, so they are recorded with the jobs.
 */
int run_add_commands(struct run *run, struct journal *j, bool another_runs)
{
	const struct config *c = &run->queue.config;
	cleanup_(commands_closep) struct commands *commands = take_ptr(run->commands);
	if (!commands)
		return 0;
	cleanup_(freep) char *cwd = getcwd(NULL, 0);
	/* Input from a pipe differs each time: all of it is new. */
	run->file = commands_is_file(commands) ? realpath(commands_name(commands), NULL) : NULL;
	/* Without the file's path, its lines would be new each time. */
	if (commands_is_file(commands) && !run->file)
		return error_set(
			&run->err, -errno, "commands file '%s': %s", commands_name(commands), error_words(errno));
	char env[HASH_TEXT];
	if (!cwd)
		return error_set(
			&run->err, -errno, "cannot add the commands: current directory: %s", error_words(errno));
	int r = environment_save(j->dir_fd, environ, env, &run->err);
	if (r < 0)
		return r;
	struct job_spec base = {.cwd = cwd,
		.env = env,
		.file = run->file,
		.log_dir = config_has(c, CONFIG_LOG_DIR) ? run->log_dir : NULL,
		.on_finish = c->on_finish,
		.on_idle = c->on_idle,
		.num_gpus = -1,
		.mem_mb = -1,
		.min_free_mem_mb = -1,
		.timeout_ms = -1,
		.retries = -1};
	r = submit_describe_cwd(&base, AT_FDCWD);
	if (r < 0)
		return error_set(
			&run->err, r, "cannot add the commands: current directory '%s': %s", cwd, error_words(r));
	job_spec_set_defaults(&base, c);
	if (another_runs && config_has(c, CONFIG_TIMEOUT))
		base.timeout_ms = (int64_t)c->timeout_ms;
	if (another_runs && config_has(c, CONFIG_RETRIES))
		base.retries = (int)c->retries;
	if (another_runs && config_has(c, CONFIG_MIN_FREE_MEM))
		base.min_free_mem_mb = config_min_free_mem_mb(c);
	size_t before = run->ids.count;
	int e = submit_file(j, commands, &base, NULL, &run->ids, &run->err);
	if (e == 0 && run->file && run->ids.count > before)
		say_if_held(run, j);
	return e;
}

/* Lines that were added before are not retried by running the file again. */
void run_look_at_what_failed_before(struct run *run)
{
	struct follow f;
	size_t failed = 0, cancelled = 0;
	run->failed_before = false;
	if (!run->file || run->ids.count > 0 || follow_open(run->queue.journal_path, false, &f, NULL) < 0)
		return;
	for (size_t i = 0; i < f.jobs.count; i++) {
		const struct job *job = f.jobs.by_id[i];
		if (!job->wish->file || strcmp(job->wish->file, run->file) != 0)
			continue;
		failed += job->state == JOB_FAILED;
		cancelled += job->state == JOB_CANCELLED;
	}
	follow_close(&f);
	run->failed_before = failed || cancelled;
	if (failed && !run->quiet)
		say("nothing new in '%s'; %zu of its commands failed before; 'gpuq retry --failed' runs %s again",
			run->file, failed, failed == 1 ? "it" : "them");
	if (cancelled && !run->quiet)
		say("nothing new in '%s'; %zu of its commands %s cancelled before; 'gpuq retry --cancelled' runs %s again",
			run->file, cancelled, cancelled == 1 ? "was" : "were", cancelled == 1 ? "it" : "them");
}
