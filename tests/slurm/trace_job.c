/* SPDX-License-Identifier: MIT */
/*
 * A job that writes a trace: when it began, when it last executed an instruction, and whether it ran to its end.
 *
 *     trace_job DIRECTORY MILLISECONDS CODE [polite|stubborn|meet] [child]
 *
 * Runs for this long and exits with CODE. polite: exits 0 on SIGTERM. stubborn: ignores SIGTERM. meet: starts its
 * time when MEET traces exist, so that this many jobs run in parallel. child: has a child in its own session, which
 * runs until it is killed and leaves a trace, too. A trace is a file DIRECTORY/JOB.ATTEMPT.PID.TIME (main) or …c
 * (child) with one line, written in place; the directory is not on the file system that the nodes share.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS 20000000
#define MEET    64

static const char *directory;
static volatile sig_atomic_t told_to_end;
static int meets;

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void on_term(int number)
{
	(void)number;
	told_to_end = 1;
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : "-";
}

/* Begin, last instruction, how it ended ('r': still running), node, GPUs. */
static void leave_trace(int fd, uint64_t begin, char how)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "%020llu %020llu %c %s %s\n", (unsigned long long)begin,
		(unsigned long long)now_ns(), how, variable("GPUQ_NODE"), variable("CUDA_VISIBLE_DEVICES"));
	if (pwrite(fd, line, (size_t)n, 0) != n)
		_exit(99);
}

static int all_are_there(void)
{
	int n = 0;
	DIR *d = opendir(directory);
	for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n >= MEET;
}

static void run(uint64_t duration_ns, int code, int is_child)
{
	char path[4096];
	uint64_t begin = now_ns();
	snprintf(path, sizeof(path), "%s/%s.%s.%d.%llu%s", directory, variable("GPUQ_JOB_ID"), variable("GPUQ_ATTEMPT"),
		(int)getpid(), (unsigned long long)begin, is_child ? "c" : "");
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		_exit(99);
	uint64_t counted_from = begin;
	while (is_child || meets || now_ns() - counted_from < duration_ns) {
		leave_trace(fd, begin, 'r');
		if (meets && all_are_there()) {
			meets = 0;
			counted_from = now_ns();
		}
		if (told_to_end) {
			leave_trace(fd, begin, 't');
			exit(0);
		}
		nanosleep(&(struct timespec){0, TICK_NS}, NULL);
	}
	leave_trace(fd, begin, 'e');
	exit(code);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	directory = argv[1];
	int child = 0;
	for (int i = 4; i < argc; i++) {
		if (strcmp(argv[i], "polite") == 0)
			signal(SIGTERM, on_term);
		else if (strcmp(argv[i], "stubborn") == 0)
			signal(SIGTERM, SIG_IGN);
		else if (strcmp(argv[i], "meet") == 0)
			meets = 1;
		else if (strcmp(argv[i], "child") == 0)
			child = 1;
	}
	if (child && fork() == 0) {
		setsid();
		signal(SIGTERM, SIG_IGN);
		run(0, 0, 1);
	}
	run(strtoull(argv[2], NULL, 10) * 1000000, atoi(argv[3]), 0);
}
