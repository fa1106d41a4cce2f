/* SPDX-License-Identifier: MIT */
/*
 * The state of a runner, in four parts. Only files of this directory include this.
 *
 * Everything runs on one thread, in callbacks of the loop. A callback that finds work sets must_read,
 * must_judge or must_place; the work is done once per round of the loop, in this order, so that a job
 * is never placed based on outdated state. An error that ends the run is put into `fatal`, with its
 * message in `error`.
 */
#ifndef QUEUE_RUNNER_RUNNER_PRIVATE_H
#define QUEUE_RUNNER_RUNNER_PRIVATE_H

#include "base/line_output.h"
#include "base/machine.h"
#include "base/text.h"
#include "queue/keeper/allocation.h"
#include "queue/runner/deciding.h"
#include "queue/runner/executing.h"
#include "queue/runner/following.h"
#include "queue/runner/runner.h"
#include "queue/runner/runner_end.h"
#include "queue/runner/watching.h"

struct loop;

struct runner {
	struct runner_options options;
	struct runner_following following; /* the journal */
	struct runner_deciding deciding;   /* which jobs start where */
	struct runner_executing executing; /* keepers and their jobs */
	struct runner_watching watching;   /* GPUs and claims */

	struct machine machine;
	char allocation[ALLOCATION_TEXT];
	struct loop *loop;
	struct loop_source *tick, *linger, *settle, *look;
	int signal_fd;
	const struct runner_watch *watch;
	struct runner_result result;
	int interrupts; /* how many times Ctrl-C was pressed */
	bool leaving;   /* SIGTERM arrived */
	bool moved;     /* the directory of the queue was renamed: the run ends, and goes on at the new place */
	bool lingering; /* the queue has been empty for linger_ms */
	struct runner_end end;
	unsigned troubles;       /* bits 1u << enum runner_trouble: reported and not resolved */
	char trouble_words[200]; /* the last one, for other processes */
	struct line_output words;
	struct gd_error error;
	int fatal;
};

#endif
