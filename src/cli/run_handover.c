/* SPDX-License-Identifier: MIT */
/* `gpuq run` where another one runs the queue already. */
#include "cli/run_parts.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"
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

static int wait_for_own(struct run *run, struct follow *f)
{
	while (run->own.open > 0 && !interrupted) {
		if (follow_runner(f) == 0)
			return 1;
		follow_wait(f);
		int r = follow_update(f, &run->err);
		if (r == 0)
			r = run_own_jobs_update(&run->own, f, &run->err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Those that hold for a runner, and cannot be written down with a job. */
void run_say_what_is_ignored(const struct run *run)
{
	static const enum config_key keys[] = {CONFIG_GPUS, CONFIG_JOBS_PER_GPU, CONFIG_POLL_INTERVAL,
		CONFIG_MAX_FAILURES, CONFIG_KEEP, CONFIG_LOG_ACCESS, CONFIG_MAX_LOG_SIZE};
	cleanup_(text_finish) struct text names = {0};
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (run->given[keys[i]])
			text_appendf(&names, "%s--%s", names.length ? ", " : "", run_option_name(keys[i]));
	if (names.length && !text_error(&names))
		say("%s: not used, for that runner has its own", text_string(&names));
}

int run_hand_over(struct run *run, pid_t holder)
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
		run_say_what_is_ignored(run);
		if (run_own_jobs_init(&run->own, &run->ids) < 0)
			return error_set(&run->err, -ENOMEM, "waiting: out of memory");
	}
	struct sigaction sa = {.sa_handler = on_interrupt};
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	int r = follow_open(run->queue.journal_path, true, &f, &run->err);
	if (r < 0)
		return r;
	follow_insist_on_trust(&f);
	r = run_own_jobs_follow(&run->own, &f, &run->err);
	if (r == 0)
		r = wait_for_own(run, &f);
	follow_close(&f);
	return r;
}
