/* SPDX-License-Identifier: MIT */
#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

int machine_get(struct machine *ret)
{
	struct machine m = {0};
	if (gethostname(m.host, sizeof(m.host) - 1) < 0)
		return -errno;
	char boot[64];
	int r = file_read_small(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	snprintf(m.boot, sizeof(m.boot), "%.36s", r < 0 ? "unknown" : boot);
	ssize_t n = readlink("/proc/self/ns/pid", m.pidns, sizeof(m.pidns) - 1);
	if (n < 0)
		return -errno;
	/* "pid:[4026531836]": the number alone. */
	size_t digits = strcspn(m.pidns, "0123456789");
	memmove(m.pidns, m.pidns + digits, strlen(m.pidns + digits) + 1);
	m.pidns[strspn(m.pidns, "0123456789")] = '\0';
	*ret = m;
	return 0;
}

bool machine_same(const struct machine *a, const struct machine *b)
{
	return strcmp(a->host, b->host) == 0 && strcmp(a->boot, b->boot) == 0 && strcmp(a->pidns, b->pidns) == 0;
}

int process_info(pid_t pid, struct process_info *ret)
{
	char path[64], stat[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int r = file_read_small(AT_FDCWD, path, stat, sizeof(stat));
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	/* The name stands in parentheses and may have any characters. */
	char *p = strrchr(stat, ')');
	if (!p)
		return -EIO;
	struct process_info i = {0};
	int ppid, pgrp, session;
	unsigned long long start;
	if (sscanf(p + 1, " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &i.state,
		    &ppid, &pgrp, &session, &start) != 5)
		return -EIO;
	i.ppid = ppid;
	i.session = session;
	i.start_ticks = start;
	*ret = i;
	return 0;
}

struct family {
	pid_t *pids, *parents;
	size_t count, room;
};

static int family_add(struct family *f, pid_t pid, pid_t parent)
{
	if (f->count == f->room) {
		size_t room = f->room ? f->room * 2 : 256;
		pid_t *pids = realloc(f->pids, room * sizeof(pid_t));
		if (!pids)
			return -ENOMEM;
		f->pids = pids;
		pid_t *parents = realloc(f->parents, room * sizeof(pid_t));
		if (!parents)
			return -ENOMEM;
		f->parents = parents;
		f->room = room;
	}
	f->pids[f->count] = pid;
	f->parents[f->count++] = parent;
	return 0;
}

static void family_finish(struct family *f)
{
	free(f->pids);
	free(f->parents);
}

static void closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

typedef int pid_fn(void *context, pid_t pid);

static int each_process(pid_fn *fn, void *context)
{
	cleanup_(closedirp) DIR *d = opendir("/proc");
	if (!d)
		return -errno;
	struct dirent *e;
	while ((e = readdir(d))) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		int r = fn(context, (pid_t)atoi(e->d_name));
		if (r < 0)
			return r;
	}
	return 0;
}

static int note_parent(void *context, pid_t pid)
{
	struct process_info i;
	if (process_info(pid, &i) < 0 || i.state == 'Z')
		return 0;
	return family_add(context, pid, i.ppid);
}

int process_children(pid_t pid, pid_t **ret)
{
	cleanup_(family_finish) struct family all = {0};
	int r = each_process(note_parent, &all);
	if (r < 0)
		return r;
	size_t n = 0;
	for (size_t i = 0; i < all.count; i++)
		if (all.parents[i] == pid)
			all.pids[n++] = all.pids[i];
	*ret = all.pids;
	all.pids = NULL;
	return (int)n;
}

int process_signal_descendants(pid_t pid, int signal)
{
	cleanup_(family_finish) struct family all = {0};
	cleanup_(family_finish) struct family tree = {0};
	int r = each_process(note_parent, &all);
	if (r < 0)
		return r;
	r = family_add(&tree, pid, 0);
	for (size_t i = 0; r == 0 && i < tree.count; i++)
		for (size_t k = 0; r == 0 && k < all.count; k++)
			if (all.parents[k] == tree.pids[i])
				r = family_add(&tree, all.pids[k], tree.pids[i]);
	if (r < 0)
		return r;
	for (size_t i = 1; i < tree.count; i++)
		kill(tree.pids[i], signal);
	return (int)tree.count - 1;
}

struct marked {
	const char *entry;
	size_t size;
	int signal;
	int count;
};

static bool environ_has(pid_t pid, const char *entry, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	char buf[65536];
	size_t have = 0;
	for (;;) {
		ssize_t n = read(fd, buf + have, sizeof(buf) - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		have += (size_t)n;
		/* An entry is preceded by a NUL, but for the first, and followed by one. */
		for (char *p = buf; (p = memmem(p, have - (size_t)(p - buf), entry, size + 1)); p++)
			if (p == buf || p[-1] == '\0')
				return true;
		size_t keep = have < size + 2 ? have : size + 2;
		if (have > sizeof(buf) / 2) {
			memmove(buf, buf + have - keep, keep);
			have = keep;
		}
	}
}

static int signal_if_marked(void *context, pid_t pid)
{
	struct marked *m = context;
	struct process_info i;
	if (pid == getpid() || !environ_has(pid, m->entry, m->size) || process_info(pid, &i) < 0 || i.state == 'Z')
		return 0;
	m->count++;
	kill(pid, m->signal);
	return 0;
}

int process_signal_marked(const char *entry, int signal)
{
	struct marked m = {entry, strlen(entry), signal, 0};
	int r = each_process(signal_if_marked, &m);
	return r < 0 ? r : m.count;
}

/* As the kernel knows it; sigaction() refuses the C library's own signals. */
struct kernel_action {
	void (*handler)(int);
	unsigned long flags;
	void *restorer;
	uint64_t mask[2];
};

void process_reset_signals(void)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL};
	for (int s = 1; s < NSIG; s++) {
		/* Refused for SIGKILL and SIGSTOP, which is fine, and for those of the C library. */
		if (sigaction(s, &plain, NULL) == 0 || s == SIGKILL || s == SIGSTOP)
			continue;
		const struct kernel_action usual = {.handler = SIG_DFL};
		struct kernel_action now = usual;
		/* A handler there is the C library's, and it may still need it: setuid() with threads does. */
		if (syscall(SYS_rt_sigaction, s, NULL, &now, (NSIG - 1) / 8) == 0 && now.handler == SIG_IGN)
			syscall(SYS_rt_sigaction, s, &usual, NULL, (NSIG - 1) / 8);
	}
}

const char *process_signal_name(int signal)
{
	static char other[32];
	static const char *names[] = {[SIGHUP] = "SIGHUP",
		[SIGINT] = "SIGINT",
		[SIGQUIT] = "SIGQUIT",
		[SIGILL] = "SIGILL",
		[SIGTRAP] = "SIGTRAP",
		[SIGABRT] = "SIGABRT",
		[SIGBUS] = "SIGBUS",
		[SIGFPE] = "SIGFPE",
		[SIGKILL] = "SIGKILL",
		[SIGUSR1] = "SIGUSR1",
		[SIGSEGV] = "SIGSEGV",
		[SIGUSR2] = "SIGUSR2",
		[SIGPIPE] = "SIGPIPE",
		[SIGALRM] = "SIGALRM",
		[SIGTERM] = "SIGTERM",
		[SIGSTKFLT] = "SIGSTKFLT",
		[SIGCHLD] = "SIGCHLD",
		[SIGCONT] = "SIGCONT",
		[SIGSTOP] = "SIGSTOP",
		[SIGTSTP] = "SIGTSTP",
		[SIGTTIN] = "SIGTTIN",
		[SIGTTOU] = "SIGTTOU",
		[SIGURG] = "SIGURG",
		[SIGXCPU] = "SIGXCPU",
		[SIGXFSZ] = "SIGXFSZ",
		[SIGVTALRM] = "SIGVTALRM",
		[SIGPROF] = "SIGPROF",
		[SIGWINCH] = "SIGWINCH",
		[SIGIO] = "SIGIO",
		[SIGPWR] = "SIGPWR",
		[SIGSYS] = "SIGSYS"};
	if (signal > 0 && signal < (int)(sizeof(names) / sizeof(names[0])) && names[signal])
		return names[signal];
	snprintf(other, sizeof(other), "signal %d", signal);
	return other;
}
