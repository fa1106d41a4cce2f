/* SPDX-License-Identifier: MIT */
/*
 * Runs a program and kills one of its processes, with SIGKILL, at its n-th system call.
 *
 *     killer DEPTH N PROGRAM [ARGUMENT…]
 *     killer DEPTH count PROGRAM [ARGUMENT…]
 *
 * DEPTH 0 is the program itself, 1 its children, and so on; calls of all processes
 * of that depth are counted together. After the program has ended, exits with 42 if it killed a process and 0 if not; 1
 * on errors. The process is killed before the call is made. With "count" nothing is killed, and the number of calls is
 * printed when the program has ended.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_TRACED 4096
#define OPTIONS    (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE)

static struct traced {
	pid_t pid;
	int depth; /* -1: it stopped before the event of its parent */
	int in_call;
} all[MAX_TRACED];
static int count;
static int target_depth;
static long countdown;

static struct traced *find(pid_t pid)
{
	for (int i = 0; i < count; i++)
		if (all[i].pid == pid)
			return &all[i];
	if (count == MAX_TRACED)
		exit(1);
	all[count] = (struct traced){pid, -1, 0};
	return &all[count++];
}

static void go_on(struct traced *t, int signal)
{
	if (t->depth > target_depth)
		ptrace(PTRACE_DETACH, t->pid, NULL, (void *)(long)signal);
	else
		ptrace(t->depth == target_depth && countdown > 0 ? PTRACE_SYSCALL : PTRACE_CONT, t->pid, NULL,
			(void *)(long)signal);
}

static void on_stop(struct traced *t, int status)
{
	int signal = WSTOPSIG(status), event = status >> 16;
	if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
		unsigned long child;
		ptrace(PTRACE_GETEVENTMSG, t->pid, NULL, &child);
		int depth = t->depth + 1;
		struct traced *c = find((pid_t)child);
		int stopped = c->depth == -2;
		c->depth = depth;
		if (stopped)
			go_on(c, 0);
		go_on(find(t->pid), 0);
	} else if (t->depth == -1) {
		t->depth = -2; /* the event of its parent follows */
	} else {
		go_on(t, event || signal == SIGSTOP || signal == SIGTRAP ? 0 : signal);
	}
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 1;
	target_depth = atoi(argv[1]);
	const int counting = strcmp(argv[2], "count") == 0;
	countdown = counting ? LONG_MAX : atol(argv[2]);
	pid_t root = fork();
	if (root == 0) {
		raise(SIGSTOP);
		execvp(argv[3], argv + 3);
		_exit(127);
	}
	int status;
	/* Seized, not attached: a new child of a seized process is never left with a SIGSTOP after this process has
	 * ended. */
	if (root < 0 || waitpid(root, &status, WUNTRACED) != root || ptrace(PTRACE_SEIZE, root, NULL, OPTIONS) < 0)
		return 1;
	find(root)->depth = 0;
	kill(root, SIGCONT);
	for (;;) {
		pid_t pid = waitpid(-1, &status, __WALL);
		if (pid < 0)
			return errno == ECHILD ? 0 : 1;
		struct traced *t = find(pid);
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			*t = all[--count];
			/* The kernel detaches the remaining processes. */
			if (pid == root && counting)
				return printf("%ld\n", LONG_MAX - countdown) < 0;
			if (pid == root)
				return countdown > 0 ? 0 : 42;
		} else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			t->in_call = !t->in_call;
			if (t->in_call && t->depth == target_depth && --countdown == 0) {
				kill(pid, SIGKILL);
				continue;
			}
			go_on(t, 0);
		} else {
			on_stop(t, status);
		}
	}
}
