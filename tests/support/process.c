/* SPDX-License-Identifier: MIT */
#include "support/process.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/pidref.h"
#include "base/process.h"
#include "support/check.h"
#include "support/wait.h"

/* For a host without a free descriptor. A zombie counts as not gone. */
static bool is_reaped(pid_t pid, int timeout_ms)
{
	while (kill(pid, 0) == 0 && timeout_ms-- > 0)
		poll(NULL, 0, 1);
	return kill(pid, 0) < 0;
}

bool process_await_gone(pid_t pid, int timeout_ms)
{
	uint64_t deadline_ns = clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	cleanup_(pidref_close) struct pidref p = PIDREF_NONE;
	int r = pidref_open(pid, &p);
	if (r == -EMFILE)
		return is_reaped(pid, timeout_ms);
	return r < 0 ? r == -ESRCH : pidref_wait(&p, deadline_ns);
}

bool process_alive(pid_t pid)
{
	return !process_await_gone(pid, 0);
}

void process_kill(pid_t pid)
{
	check_true(kill(pid, SIGKILL) == 0);
	check_true(process_await_gone(pid, WAIT_MS));
}

void process_kill_child(pid_t pid)
{
	check_true(kill(pid, SIGKILL) == 0);
	check_equal(waitpid(pid, NULL, 0), pid);
}

int process_exit_code(pid_t pid)
{
	int status;
	check_equal(waitpid(pid, &status, 0), pid);
	check_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

pid_t process_parent(pid_t pid)
{
	struct process_info info;
	check_equal(process_info(pid, &info), 0);
	return info.ppid;
}

/* A thread has an entry in /proc, too, though it is not listed. */
static bool is_asleep(pid_t tid)
{
	struct process_info info;
	check_equal(process_info(tid, &info), 0);
	return info.state == 'S';
}

void process_await_asleep(pid_t tid)
{
	/* A thread can also sleep briefly before that, for example for a lock. */
	int in_a_row = 0;
	wait_until((in_a_row = is_asleep(tid) ? in_a_row + 1 : 0) >= 3);
}

size_t process_status_kib(const char *field)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	size_t kib = 0;
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, field, strlen(field)) == 0 && line[strlen(field)] == ':')
			kib = strtoul(line + strlen(field) + 1, NULL, 10);
	if (f)
		fclose(f);
	return kib;
}

int process_count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	check_true(dir != NULL);
	int n = -3; /* "." and "..", and the descriptor used here */
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

uint64_t process_memfd_at(const void *address)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	uint64_t found = 0;
	while (f && fgets(line, sizeof(line), f)) {
		uintptr_t from, to;
		unsigned long inode;
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %lu", &from, &to, &inode) == 3 &&
			(uintptr_t)address >= from && (uintptr_t)address < to && strstr(line, "memfd:"))
			found = inode;
	}
	if (f)
		fclose(f);
	return found;
}

void process_hang(void)
{
	for (;;)
		pause();
}
