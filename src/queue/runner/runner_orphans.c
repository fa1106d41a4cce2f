/* SPDX-License-Identifier: MIT */
/*
 * What is left when a keeper and its nursery are killed together: processes of the job that have left its
 * session and its environment. They become our children, for we are the subreaper above the nursery.
 *
 * So whatever is our child and none of our own helpers is what a job left behind, and is killed. That holds only if
 * nothing else can come to us: not for PID 1 of a container, to which everything comes, nor for a process that
 * had children before it became a runner ("server & exec gpuq run").
 */
#include "queue/runner/runner_parts.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"

void runner_orphans_open(struct runner *r)
{
	cleanup_(freep) pid_t *children = NULL;
	/* Ignored, it would have the kernel reap our children unseen. */
	signal(SIGCHLD, SIG_DFL);
	r->subreaper =
		getpid() != 1 && process_children(getpid(), &children) == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

/*
 * Keepers and the like become our children, too. They leave by themselves, and one that is about to begin a job has
 * perhaps not said yet who it is, so they are known by what they execute and by the name that they gave themselves.
 */
static bool is_helper(pid_t pid)
{
	char path[64], name[16];
	struct stat own, its;
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat("/proc/self/exe", &own) < 0 || stat(path, &its) < 0 || own.st_dev != its.st_dev ||
		own.st_ino != its.st_ino)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, name, sizeof(name)) >= 5 && memcmp(name, "gpuq-", 5) == 0;
}

static bool is_ours(const struct runner *r, pid_t pid)
{
	return pid == r->nursery_pid || (r->probe && pid == gpu_probe_pid(r->probe)) || is_helper(pid);
}

/* Each death tells us by SIGCHLD, and what it left behind has become our child by then: so it is done until none is
 * left. */
static void kill_orphans(struct runner *r)
{
	cleanup_(freep) pid_t *children = NULL;
	runner_plan_sync(r); /* the one that syncs may be gone as well: what it was told, the next one does */
	int count = process_children(getpid(), &children);
	for (int i = 0; i < count; i++) {
		if (is_ours(r, children[i]))
			continue;
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
