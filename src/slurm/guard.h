/* SPDX-License-Identifier: MIT */
/*
 * The process that holds the lease of a pilot. When the lease ends, everything below it is dead.
 *
 *     sweeper ── guard ── agent ── nursery ── keepers ── jobs
 *
 * The *guard* arms a timer of the kernel, on a clock that also runs while the machine is suspended, that sends SIGKILL
 * to the guard itself. Only renewals move it. So even a guard that is stopped, swapped out or starved dies in time. The
 * guard locks its memory, has `/` as its directory, holds no file and does no file I/O once the agent runs: a hanging
 * file system cannot delay it, not even while it dies. The agent may hang there when it is killed; the sweeper then
 * kills the processes below it directly.
 *
 * All processes below die with the guard. The agent is killed by the kernel when the guard dies (PDEATHSIG), the
 * nursery and the keepers with the agent, jobs with their keepers. If permitted (CAP_SYS_ADMIN), the agent is the first
 * process of a PID namespace: then the kernel kills all processes in it, even those in other sessions. Otherwise the
 * *sweeper*, the process that called guard_run(), kills the remaining processes: it is the subreaper of all of them. If
 * the sweeper itself is killed, the guard sweeps and exits. A process that left its session survives only if both are
 * killed, or the sweeper is stopped.
 *
 * User namespaces, which would give ordinary users a PID namespace, are not used: in them, root's files appear to
 * belong to "nobody", which programs such as ssh refuse.
 */
#ifndef SLURM_GUARD_H
#define SLURM_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu_dispatch.h"

struct guard_options {
	uint64_t first_ns; /* the first deadline, on CLOCK_BOOTTIME: no agent lives longer without a renewal */
	uint64_t until_ns; /* renewals never go beyond this; 0: no limit */
	bool no_namespace; /* for tests: do not use a PID namespace */
	/* The agent's main function. Runs in its own process, which exits with the returned code; `fd` is for
	 * guard_renew(). */
	int (*agent)(void *context, int fd);
	void *context;
};

/* The result of guard_run(). */
struct guard_result {
	int exit_code;        /* of the agent; -1: it was killed */
	bool killed;          /* the guard was killed */
	bool expired;         /* it was killed at the end of its lease, by its timer; otherwise from outside */
	bool namespaced;      /* the agent had a PID namespace */
	uint64_t deadline_ns; /* the last one (CLOCK_BOOTTIME) */
};

/*
 * Call it in a process with one thread and no other children, which becomes the sweeper. Starts guard and agent and
 * returns when none of their processes is left. SIGTERM and SIGINT are passed on to the agent, SIGHUP as SIGTERM.
 * Leaves signal masks and the subreaper attribute changed: the process is expected to exit next.
 */
int guard_run(const struct guard_options *options, struct guard_result *ret, struct gd_error *err);

/* Called by the agent: no process of this pilot survives deadline_ns (CLOCK_BOOTTIME). Replaces the last deadline. */
int guard_renew(int fd, uint64_t deadline_ns);

uint64_t guard_now_ns(void); /* CLOCK_BOOTTIME */

#endif
