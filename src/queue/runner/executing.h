/* SPDX-License-Identifier: MIT */
/* The keepers, the nursery above them, the jobs that were handed to them, and the hooks that they run. */
#ifndef QUEUE_RUNNER_EXECUTING_H
#define QUEUE_RUNNER_EXECUTING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "queue/runner/runner_leases.h"

struct loop_source;
struct runner_keeper;
struct runner_unknown;
struct running;

struct runner_executing {
	pid_t nursery_pid; /* 0: it died */
	int nursery_fd;
	bool subreaper;                /* orphans of our keepers, and no other processes, become our children */
	bool orphaned;                 /* a nursery died: processes of its jobs may have become our children */
	struct runner_keeper *keepers; /* a list */
	unsigned unborn;               /* keepers in a row that died before their first message */
	struct running *running;       /* a list */
	size_t num_running;            /* without jobs on other machines, stuck jobs and jobs that have ended */
	size_t num_stuck;
	struct runner_unknown *unknown; /* a list: jobs with a lost journal record and a living keeper */
	bool look_for_unknown;          /* there may be more unknown jobs */
	struct runner_leases leases;
	bool must_judge;
	struct loop_source *judge;
};

#endif
