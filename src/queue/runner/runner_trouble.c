/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_trouble.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/loop.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"

/* Delay before the next retry. */
#define PAUSE_MS 1000

void runner_pause(struct runner *r, enum runner_trouble trouble, int code)
{
	runner_pause_at(r, trouble, "", code);
}

const char *runner_trouble_words(const struct runner *r, int code, struct gd_error *room)
{
	if (code != LOCK_BLOCKED)
		return error_words(code);
	journal_lock_words(r->following.journal, code, room);
	return room->message;
}

void runner_pause_at(struct runner *r, enum runner_trouble trouble, const char *where, int code)
{
	static const char *const doing[] = {[RUNNER_TROUBLE_FOLLOW] = "cannot follow the journal",
		[RUNNER_TROUBLE_WRITE] = "cannot write the journal",
		[RUNNER_TROUBLE_START] = "cannot start a job",
		[RUNNER_TROUBLE_KEEPER] = "cannot start a keeper",
		[RUNNER_TROUBLE_END] = "cannot record the end of a job",
		[RUNNER_TROUBLE_GPUS] = "cannot query the GPUs"};
	struct gd_error room;
	if (!(r->troubles & 1u << trouble))
		runner_say(
			r, "gpuq: %s%s: %s; retrying\n", doing[trouble], where, runner_trouble_words(r, code, &room));
	r->troubles |= 1u << trouble;
	/* Without paths, so that it is short. */
	snprintf(r->trouble_words, sizeof(r->trouble_words),
		"the runner (PID %d) is retrying after an error: %s: %.60s; see its output or runner.log",
		(int)getpid(), doing[trouble],
		code == LOCK_BLOCKED ? "another process has locked the journal" : error_words(code));
	r->deciding.pause_until_ns = clock_now_ns() + PAUSE_MS * NS_PER_MS;
	loop_advance_deadline(r->tick, r->deciding.pause_until_ns + NS_PER_MS);
}

void runner_works(struct runner *r, unsigned works)
{
	if (!(r->troubles & works))
		return;
	r->troubles &= ~works;
	if (!r->troubles)
		runner_say(r, "gpuq: the error is gone; continuing\n");
}
