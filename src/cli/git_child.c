/* SPDX-License-Identifier: MIT */
#include "cli/git_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"

/* Enough for git, a filter and the filter's children. */
#define MAX_DEPTH 8

/* CPU time in clock ticks, including children that have ended. */
static uint64_t process_cpu(pid_t pid)
{
	char path[64], text[1024];
	unsigned long long user = 0, system = 0, child_user = 0, child_system = 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (file_read_small(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	/* The program name, in parentheses, can contain any characters. */
	const char *end = strrchr(text, ')');
	if (!end || sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", &user, &system,
			    &child_user, &child_system) != 4)
		return 0;
	return user + system + child_user + child_system;
}

static uint64_t tree_cpu(pid_t pid, int depth)
{
	cleanup_(freep) pid_t *children = NULL;
	uint64_t sum = process_cpu(pid);
	int count = depth < MAX_DEPTH ? process_children(pid, &children) : 0;
	for (int i = 0; i < count; i++)
		sum += tree_cpu(children[i], depth + 1);
	return sum;
}

static int end_child(pid_t pid, int code)
{
	(void)process_signal_descendants(pid, SIGKILL);
	kill(pid, SIGKILL);
	return code;
}

int git_child_read(pid_t pid, int fd, const struct git_patience *patience, struct text *out)
{
	const int look_ms = patience->idle_ms / 8 < 1000 ? (int)(patience->idle_ms / 8) + 1 : 1000;
	const uint64_t end = clock_now_ns() + patience->all_ms * NS_PER_MS;
	uint64_t progress_at = clock_now_ns(), cpu = 0;
	char chunk[65536];
	while (clock_now_ns() < end) {
		struct pollfd p = {fd, POLLIN, 0};
		int ready = poll(&p, 1, look_ms);
		if (ready > 0) {
			ssize_t n = read(fd, chunk, sizeof(chunk));
			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return n < 0 ? -errno : text_error(out);
			text_append(out, chunk, (size_t)n);
			progress_at = clock_now_ns();
			continue;
		}
		uint64_t now = tree_cpu(pid, 0);
		if (now != cpu)
			progress_at = clock_now_ns();
		cpu = now;
		if (clock_now_ns() - progress_at > patience->idle_ms * NS_PER_MS)
			return end_child(pid, -ETIME);
	}
	return end_child(pid, -EFBIG);
}
