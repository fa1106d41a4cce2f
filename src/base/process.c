/* SPDX-License-Identifier: MIT */
#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/pidref.h"

#define FLAG_EXITING 0x4 /* the kernel's PF_EXITING */

int process_info(pid_t pid, struct process_info *ret)
{
	char path[64], stat[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int r = file_read_small(AT_FDCWD, path, stat, sizeof(stat));
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	/* The name is in parentheses and may contain any characters. */
	char *name = strchr(stat, '(');
	char *p = strrchr(stat, ')');
	if (!name || !p)
		return -EIO;
	struct process_info i = {0};
	snprintf(i.name, sizeof(i.name), "%.*s", (int)(p - name - 1), name + 1);
	int ppid, pgrp, session;
	unsigned flags;
	unsigned long long start;
	if (sscanf(p + 1, " %c %d %d %d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &i.state,
		    &ppid, &pgrp, &session, &flags, &start) != 6)
		return -EIO;
	i.is_exiting = flags & FLAG_EXITING;
	i.ppid = ppid;
	i.session = session;
	i.start_ticks = start;
	*ret = i;
	return 0;
}

bool process_hides(int64_t pid, enum process_part part)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%" PRId64 "%s", pid, part == PROCESS_PARENT ? "/stat" : "");
	return pid > 0 && pid <= INT32_MAX && stat(path, &st) < 0 && kill((pid_t)pid, 0) < 0 && errno == EPERM;
}

int process_signal(pid_t pid, uint64_t start_ticks, int signal)
{
	struct process_info i;
	/* Without a descriptor (none free, a strict sandbox) use the number. */
	cleanup_(pidref_close) struct pidref p = {.pid = pid, .fd = -1};
	if (pidref_open(pid, &p) == -ESRCH)
		return -ESRCH;
	/* The descriptor refers to the process that has the number now: check its identity only after opening it. */
	int r = process_info(pid, &i);
	if (r < 0 || i.start_ticks != start_ticks)
		return r < 0 ? r : -ESRCH;
	return pidref_signal(&p, signal);
}

struct relative {
	pid_t pid, parent;
	uint64_t start_ticks;
};

struct family {
	struct relative *all;
	size_t count, room;
};

static int family_add(struct family *f, const struct relative *one)
{
	if (array_reserve(f->all, &f->room, f->count + 1) < 0)
		return -ENOMEM;
	f->all[f->count++] = *one;
	return 0;
}

static void family_finish(struct family *f)
{
	free(f->all);
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
	return family_add(context, &(struct relative){pid, i.ppid, i.start_ticks});
}

pid_t process_reap(int *ret_status)
{
	pid_t pid;
	do
		pid = waitpid(-1, ret_status, WNOHANG);
	while (pid < 0 && errno == EINTR);
	return pid;
}

int process_children(pid_t pid, pid_t **ret)
{
	cleanup_(family_finish) struct family family = {0};
	int r = each_process(note_parent, &family);
	if (r < 0)
		return r;
	pid_t *children = calloc(family.count + 1, sizeof(*children));
	if (!children)
		return -ENOMEM;
	size_t n = 0;
	for (size_t i = 0; i < family.count; i++)
		if (family.all[i].parent == pid)
			children[n++] = family.all[i].pid;
	*ret = children;
	return (int)n;
}

static bool catches(pid_t pid, int signal)
{
	char path[64], status[8192];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (file_read_small(AT_FDCWD, path, status, sizeof(status)) < 0)
		return false;
	const char *caught = strstr(status, "\nSigCgt:");
	return caught && strtoull(caught + strlen("\nSigCgt:"), NULL, 16) >> (signal - 1) & 1;
}

static int signal_tree(pid_t pid, int signal, bool only_catching)
{
	cleanup_(family_finish) struct family family = {0};
	cleanup_(family_finish) struct family tree = {0};
	int r = each_process(note_parent, &family);
	if (r < 0)
		return r;
	r = family_add(&tree, &(struct relative){.pid = pid});
	for (size_t i = 0; r == 0 && i < tree.count; i++)
		for (size_t k = 0; r == 0 && k < family.count; k++)
			if (family.all[k].parent == tree.all[i].pid)
				r = family_add(&tree, &family.all[k]);
	if (r < 0)
		return r;
	/* A process that is gone needs no signal, and a later process with its number gets none. */
	int n = 0;
	for (size_t i = 1; i < tree.count; i++) {
		if (only_catching && !catches(tree.all[i].pid, signal))
			continue;
		(void)process_signal(tree.all[i].pid, tree.all[i].start_ticks, signal);
		n++;
	}
	return n;
}

int process_signal_descendants(pid_t pid, int signal)
{
	return signal_tree(pid, signal, false);
}

int process_signal_catching(pid_t pid, int signal)
{
	return signal_tree(pid, signal, true);
}

struct marked {
	const char *name;
	size_t size;
	process_marked_fn *fn;
	void *context;
};

/* The complete value of a variable; NULL: missing or cut off. An entry has a NUL on both sides. */
static const char *find_value(const char *buf, size_t have, const char *name, size_t size)
{
	for (const char *p = buf; (p = memmem(p, have - (size_t)(p - buf), name, size)); p++)
		if (p > buf && p[-1] == '\0' && p[size] == '=')
			return memchr(p, '\0', have - (size_t)(p - buf)) ? p + size + 1 : NULL;
	return NULL;
}

static bool read_variable(pid_t pid, const char *name, size_t size, char *value, size_t room)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	char buf[65536 + 1] = {'\0'}; /* before the first entry too */
	size_t have = 1, keep = size + 3 + room;
	for (;;) {
		ssize_t n = read(fd, buf + have, sizeof(buf) - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		have += (size_t)n;
		buf[have] = '\0';
		const char *found = find_value(buf, have, name, size);
		if (found) {
			snprintf(value, room, "%s", found);
			return true;
		}
		if (have > sizeof(buf) / 2) {
			memmove(buf, buf + have - keep, keep);
			have = keep;
		}
	}
}

static int ask_if_marked(void *context, pid_t pid)
{
	struct marked *m = context;
	struct process_info i;
	char value[PROCESS_MARK_ROOM];
	/* Read the identity before the environment: if another process has the number by then, the signal is not sent.
	 */
	if (pid == getpid() || process_info(pid, &i) < 0 || i.state == 'Z' ||
		!read_variable(pid, m->name, m->size, value, sizeof(value)))
		return 0;
	int signal = m->fn(m->context, pid, value);
	if (signal > 0)
		(void)process_signal(pid, i.start_ticks, signal);
	return 0;
}

int process_signal_marked(const char *name, process_marked_fn *fn, void *context)
{
	struct marked m = {name, strlen(name), fn, context};
	return each_process(ask_if_marked, &m);
}
