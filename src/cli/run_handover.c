/* SPDX-License-Identifier: MIT */
/* `gpuq run` if another process already runs the queue. */
#include "cli/run_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/obstacles.h"
#include "cli/run_onlooker.h"
#include "cli/say.h"
#include "queue/journal/follow.h"

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

bool run_was_interrupted(void)
{
	return interrupted;
}

static int wait_for_own(struct run *run, struct follow *f, struct obstacles *o, struct run_onlooker *onlooker)
{
	enum obstacles_found found;
	while (run->own.open > 0 && !interrupted) {
		if (follow_runner(f) == 0)
			return 1;
		run_onlooker_look(onlooker, false);
		if (run_onlooker_has_panel(onlooker))
			follow_wait_at_most(f, RUN_ONLOOKER_PERIOD_MS);
		else
			follow_wait(f);
		int r = follow_update(f, &run->err);
		if (r == 0)
			r = run_own_jobs_update(&run->own, f, &run->err);
		if (r == 0)
			r = obstacles_tell(o, f, &run->ids, &found, &run->err);
		if (r < 0)
			return r;
	}
	/* Held jobs are not waited for: report them now. */
	o->next_ns = 0;
	return interrupted ? 0 : obstacles_tell(o, f, &run->ids, &found, &run->err);
}

/* Options of the runner that cannot be recorded with a job. */
void run_say_what_is_ignored(const struct run *run)
{
	static const enum config_key keys[] = {CONFIG_GPUS, CONFIG_JOBS_PER_GPU, CONFIG_POLL_INTERVAL,
		CONFIG_MAX_FAILURES, CONFIG_KEEP, CONFIG_LOG_ACCESS, CONFIG_MAX_LOG_SIZE, CONFIG_CPU_AFFINITY,
		CONFIG_SLURM, CONFIG_MAX_NODES, CONFIG_SLURM_SILENCE, CONFIG_SLURM_LEASE, CONFIG_SLURM_ADDRESS};
	cleanup_(text_finish) struct text names = {0};
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (run->given[keys[i]])
			text_appendf(&names, "%s--%s", names.length ? ", " : "", run_option_name(keys[i]));
	if (names.length && !text_error(&names))
		say("%s: ignored, because the active runner has its own settings", text_string(&names));
}

/*
 * Whether this run waits for a job that was already queued. Without a commands file, it waits for all queued jobs. A
 * job that runs 'gpuq run' does not wait for itself.
 */
static bool is_own(const struct run *run, const struct job *job)
{
	const char *inside = getenv("GPUQ_JOB_ID");
	if (job->state != JOB_PENDING && job->state != JOB_RUNNING && job->state != JOB_UNKNOWN)
		return false;
	if (inside && strtoull(inside, NULL, 10) == job->id)
		return false;
	if (!run_commands_file(run))
		return true;
	return run->file && job->wish->file && strcmp(job->wish->file, run->file) == 0;
}

/* Adds commands that were already queued and have not ended: this run must also wait for them. */
static int add_open_jobs(struct run *run, const struct follow *f)
{
	size_t added = run->ids.count;
	int r = 0;
	for (size_t i = 0; r == 0 && i < f->jobs.count; i++)
		if (is_own(run, f->jobs.by_id[i]))
			r = id_list_add(&run->ids, f->jobs.by_id[i]->id);
	id_list_sort(&run->ids);
	if (r == 0)
		r = run_own_jobs_init(&run->own, &run->ids);
	if (r == 0 && run->ids.count > added)
		say("waiting for %zu job%s already in the queue", run->ids.count - added,
			run->ids.count - added == 1 ? " that was" : "s that were");
	return r;
}

/* Reports why this run does not exit with 0. The runner prints the same, but not in this terminal. */
static void say_damage(struct run *run, const struct follow *f)
{
	uint64_t first, unknown = run_own_jobs_unknown(&run->own, &first);
	if (unknown == 1)
		say("job %" PRIu64 " may or may not have run: its record was lost; use 'gpuq retry %" PRIu64
		    "' or 'gpuq cancel %" PRIu64 "'",
			first, first, first);
	else if (unknown > 1)
		say("%" PRIu64 " jobs may or may not have run (the first is job %" PRIu64
		    "): their records were lost; 'gpuq verify' lists them; use 'gpuq retry ID' or 'gpuq cancel ID'",
			unknown, first);
	run->lost = f->jobs.damaged ? number_set_size(&f->jobs.lost_ids) : 0;
	run_say_lost(f->path, run->lost);
}

int run_hand_over(struct run *run, pid_t holder)
{
	struct follow f;
	struct obstacles o = {0};
	char who[32] = "another machine";
	if (holder > 0)
		snprintf(who, sizeof(who), "PID %d", (int)holder);
	if (run->ids.count)
		say("a runner is already active (%s) and received %zu new job%s", who, run->ids.count,
			run->ids.count == 1 ? "; waiting for it" : "s; waiting for them");
	else
		say("a runner is already active (%s); nothing new to run", who);
	if (!run->own.states)
		run_say_what_is_ignored(run);
	struct sigaction sa = {.sa_handler = on_interrupt};
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	/* The engine that could not start may have blocked signals for its loop. */
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
	int r = follow_open(run->queue.journal_path, true, &f, &run->err);
	if (r < 0)
		return r;
	/* The journal passed this check when it was opened. From now on, its new files and its archive must pass, too.
	 */
	if (!run->queue.trust)
		(void)follow_insist_on_trust(&f, NULL);
	if (!run->own.states && add_open_jobs(run, &f) < 0)
		r = error_set(&run->err, -ENOMEM, "cannot wait: out of memory");
	struct run_onlooker *onlooker = NULL;
	if (r == 0 && run_onlooker_create(run, &f, &onlooker) < 0)
		r = error_set(&run->err, -ENOMEM, "cannot wait: out of memory");
	if (r == 0) {
		run_own_jobs_watch(&run->own, run_onlooker_changed, onlooker);
		r = run_own_jobs_follow(&run->own, &f, &run->err);
	}
	if (r == 0)
		r = wait_for_own(run, &f, &o, onlooker);
	if (r == 0)
		run_onlooker_look(onlooker, true);
	run_own_jobs_watch(&run->own, NULL, NULL);
	run_onlooker_destroy(onlooker);
	if (r == 0 && interrupted)
		say("no longer waiting; the jobs continue, and 'gpuq status' shows them");
	if (r == 0 && !interrupted)
		say_damage(run, &f);
	follow_close(&f);
	obstacles_finish(&o);
	return r;
}
