/* SPDX-License-Identifier: MIT */
/*
 * Any child that is not one of our helpers was left behind by a job, and is killed. This is true only
 * if no other process can become our child: not for PID 1 of a container, which adopts every orphan,
 * nor for a process that had children before it became a runner ("server & exec gpuq run").
 */
#include "queue/runner/runner_orphans.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/pidref.h"
#include "base/process.h"
#include "gpu/probe.h"
#include "queue/keeper/orphans.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_sync.h"

/* The nursery exits with its last keeper, which syncs the journal first. */
#define LEAVE_MS 10000

/*
 * Keepers and other helpers also become our children, and exit by themselves. A new keeper may not
 * have sent its PID yet, so helpers are recognized by their executable and the name they gave
 * themselves.
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

/* Whether all children are helpers: after a rename of the queue's directory, this process has those of the
 * previous runner. */
static bool has_only_helpers(void)
{
	cleanup_(freep) pid_t *children = NULL;
	int n = process_children(getpid(), &children);
	for (int i = 0; i < n; i++)
		if (!is_helper(children[i]))
			return false;
	return n >= 0;
}

void runner_orphans_open(struct runner *r)
{
	/* If SIGCHLD were ignored, the kernel would reap our children. */
	signal(SIGCHLD, SIG_DFL);
	r->executing.subreaper = getpid() != 1 && has_only_helpers() && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

static bool is_own(void *context, pid_t pid)
{
	const struct runner *r = context;
	return pid == r->executing.nursery_pid || (r->watching.probe && pid == gpu_probe_pid(r->watching.probe)) ||
	       is_helper(pid);
}

void runner_orphans_reap(struct runner *r)
{
	pid_t pid;
	while ((pid = process_reap(NULL)) > 0)
		if (pid == r->executing.nursery_pid) {
			r->executing.nursery_pid = 0;
			r->executing.orphaned = true;
		}
	if (r->executing.orphaned && r->executing.subreaper) {
		runner_sync_plan(r); /* the syncer may have died before a sync */
		/* Each death causes a SIGCHLD, so this repeats until none is left. */
		orphans_kill(is_own, r);
	}
}

void runner_orphans_close(struct runner *r)
{
	cleanup_(pidref_close) struct pidref nursery = PIDREF_NONE;
	pid_t pid = r->executing.nursery_pid;
	if (pid > 0 && pidref_open(pid, &nursery) == 0 && pidref_wait(&nursery, clock_now_ns() + LEAVE_MS * NS_PER_MS))
		(void)waitpid(pid, NULL, WNOHANG);
}
