/* SPDX-License-Identifier: MIT */
#include "queue/runner/allocation_end.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/date.h"

/* A controller that does not answer must not delay the jobs for longer than this. */
#define ASK "timeout 5 squeue -h -j %s -o %%L 2>/dev/null"

int64_t allocation_end_parse_left(const char *text)
{
	long long days = 0, a = 0, b = 0, c = 0;
	const char *dash = strchr(text, '-');
	if (dash && sscanf(text, "%lld-", &days) != 1)
		return -1;
	int n = sscanf(dash ? dash + 1 : text, "%lld:%lld:%lld", &a, &b, &c);
	if (n < 2 || days < 0 || days > 100000 || a < 0 || a > 10000 || b < 0 || b > 59 || c < 0 || c > 59)
		return -1;
	long long s = n == 3 ? a * 3600 + b * 60 + c : a * 60 + b;
	return (days * 86400 + s) * 1000;
}

static int64_t ask_slurm(const char *id)
{
	char command[128], line[64] = "";
	snprintf(command, sizeof(command), ASK, id);
	FILE *f = popen(command, "re");
	if (!f)
		return -1;
	bool got = fgets(line, sizeof(line), f);
	pclose(f);
	return got ? allocation_end_parse_left(line) : -1;
}

/* NULL: no allocation. The id becomes part of a shell command. */
static const char *find_id(void)
{
	const char *id = getenv("SLURM_JOB_ID");
	return id && *id && strlen(id) <= 20 && strspn(id, "0123456789") == strlen(id) ? id : NULL;
}

/* The caller may have blocked or ignored signals. */
static int spawn(const char *const *argv, int out_fd, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	int r = posix_spawn_file_actions_init(&actions);
	if (r)
		return -r;
	r = posix_spawnattr_init(&attributes);
	if (r == 0) {
		posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
		posix_spawnattr_setsigmask(&attributes, &none);
		posix_spawnattr_setsigdefault(&attributes, &all);
		r = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
		if (r == 0)
			r = posix_spawn(ret, "/bin/sh", &actions, &attributes, (char *const *)argv, environ);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int allocation_end_ask(pid_t *ret_pid, int *ret_fd)
{
	char command[128];
	int ends[2];
	const char *id = find_id();
	if (!id)
		return -ENOENT;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	snprintf(command, sizeof(command), "exec " ASK, id);
	int r = spawn((const char *const[]){"sh", "-c", command, NULL}, ends[1], ret_pid);
	close(ends[1]);
	if (r == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	if (r < 0)
		close(ends[0]);
	else
		*ret_fd = ends[0];
	return r;
}

int64_t allocation_end_get(char *ret_whose, size_t room)
{
	const char *id = find_id(), *end = getenv("SLURM_JOB_END_TIME");
	if (!id)
		return 0;
	snprintf(ret_whose, room, "Slurm job %s", id);
	if (end && *end && strlen(end) < 12 && strspn(end, "0123456789") == strlen(end))
		return (int64_t)strtoll(end, NULL, 10) * 1000;
	int64_t left_ms = ask_slurm(id);
	return left_ms < 0 ? 0 : date_now_ms() + left_ms;
}
