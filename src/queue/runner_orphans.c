/* SPDX-License-Identifier: MIT */
/*
 * What is left when a keeper and its nursery are killed together: processes of the job that have left its
 * session and its environment. They become our children, for we are the subreaper above the nursery.
 *
 * So whatever is our child and none of our own helpers is what a job left behind, and is killed. That holds only if
 * nothing else can come to us: not for PID 1 of a container, to which everything comes, nor for a process that
 * had children before it became a runner ("server & exec gpuq run").
 */
#include "queue/runner_parts.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

void runner_orphans_open(struct runner *r)
{
	cleanup_(freep) pid_t *children = NULL;
	/* Ignored, it would have the kernel reap our children unseen. */
	signal(SIGCHLD, SIG_DFL);
	r->subreaper =
		getpid() != 1 && process_children(getpid(), &children) == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

static bool is_ours(const struct runner *r, pid_t pid)
{
	if (pid == r->nursery_pid || (r->probe && pid == gpu_probe_pid(r->probe)))
		return true;
	for (const struct slot *s = r->slots; s; s = s->next)
		if (s->pid == pid)
			return true;
	for (const struct running *run = r->running; run; run = run->next) {
		const struct job *job = jobs_find(&r->jobs, run->id);
		if (job && job->keeper && !run->foreign && job->keeper->pid == pid)
			return true;
	}
	return false;
}

/* Each death tells us by SIGCHLD, and what it left behind has become our child by then: so it is done until none is
 * left. */
static void kill_orphans(struct runner *r)
{
	cleanup_(freep) pid_t *children = NULL;
	/* A keeper that has a job has said who it is. One that has none may be killed. */
	slots_receive(r);
	int count = process_children(getpid(), &children);
	for (int i = 0; i < count; i++) {
		if (is_ours(r, children[i]))
			continue;
		/* It may be the one that syncs: what it was told, the next one does. */
		runner_plan_sync(r);
		process_signal_descendants(children[i], SIGKILL);
		/* Our child, and not reaped: the number is still its own. */
		kill(children[i], SIGKILL);
	}
}

void runner_reap(struct runner *r)
{
	pid_t pid;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		if (pid == r->nursery_pid) {
			r->nursery_pid = 0;
			r->orphaned = true;
		}
	if (r->orphaned && r->subreaper)
		kill_orphans(r);
}
