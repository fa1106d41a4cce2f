/* SPDX-License-Identifier: MIT */
/* All runs of the user on this host. */
#include "cli/run_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/state_dir.h"
#include "base/units.h"
#include "cli/run_file.h"
#include "cli/run_history.h"

#define RUNS_NAME "runs"
#define MOST_RUNS 100
#define MOST_SIZE (1 << 20)

void run_name(char ret[RUN_NAME_ROOM], pid_t pid, const char *ending)
{
	snprintf(ret, RUN_NAME_ROOM, "%d.%s", (int)pid, ending);
}

int run_files_open(bool make, int *ret_fd)
{
	return state_dir_open_part(RUNS_NAME, make, ret_fd);
}

/* *ret_ms: when it was written; may be NULL. */
static int read_run(int dir_fd, pid_t pid, struct run_text *ret, int64_t *ret_ms)
{
	char name[RUN_NAME_ROOM];
	struct stat st;
	run_name(name, pid, "json");
	cleanup_(closep) int fd = file_open_regular(dir_fd, name, O_NOFOLLOW);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || st.st_size > MOST_SIZE)
		return -EBADMSG;
	cleanup_(freep) char *data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	ssize_t n = file_read_full(fd, data, (size_t)st.st_size);
	int r = n < 0 ? (int)n : run_file_parse(data, (size_t)n, ret);
	if (r == 0)
		ret->run.pid = pid;
	if (r == 0 && ret_ms)
		*ret_ms = file_mtime_ms(&st);
	return r;
}

/* The run was killed: a run that ends normally removes its files. */
static void remember_dead(int dir_fd, pid_t pid)
{
	struct run_text t;
	int64_t end_ms = 0; /* gcc -O3 does not see that it is always set */
	if (read_run(dir_fd, pid, &t, &end_ms) < 0)
		return;
	t.run.end_ms = end_ms;
	t.run.killed = true;
	run_history_add(&t.run);
	run_text_finish(&t);
}

/* The run has ended: while we hold its lock, no other process removes or recreates its files. */
static void remove_dead(int dir_fd, pid_t pid)
{
	static const char *const endings[] = {"json", "new", "lock"};
	char name[RUN_NAME_ROOM];
	run_name(name, pid, "lock");
	cleanup_(closep) int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || lock_try(fd) < 0)
		return;
	remember_dead(dir_fd, pid);
	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		run_name(name, pid, endings[i]);
		(void)unlinkat(dir_fd, name, 0);
	}
}

/* The PID of "123.lock"; 0 for other names. */
static pid_t pid_of(const char *name)
{
	char number[16];
	int64_t pid;
	size_t digits = strspn(name, "0123456789");
	if (digits == 0 || digits >= sizeof(number) || strcmp(name + digits, ".lock") != 0)
		return 0;
	snprintf(number, sizeof(number), "%.*s", (int)digits, name);
	return units_parse_integer(number, 1, INT32_MAX, &pid, NULL) == 0 ? (pid_t)pid : 0;
}

/* A run that has just begun has no text yet; a run that is ending no longer has one. */
static size_t load_all(DIR *dir, struct run_text *texts)
{
	size_t count = 0;
	const struct dirent *d;
	while (count < MOST_RUNS && (d = readdir(dir))) {
		pid_t pid = pid_of(d->d_name), holder = 0;
		if (pid == 0 || pid == getpid() || lock_holder_at(dirfd(dir), d->d_name, &holder) < 0)
			continue;
		if (holder == 0)
			remove_dead(dirfd(dir), pid);
		else if (read_run(dirfd(dir), pid, &texts[count], NULL) == 0)
			count++;
	}
	return count;
}

int run_files_load(struct view_model *m)
{
	int fd;
	int r = run_files_open(false, &fd);
	if (r < 0)
		return r == -ENOENT ? view_put_runs(m, NULL, 0) : r;
	cleanup_(closedirp) DIR *dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	cleanup_(freep) struct run_text *texts = calloc(MOST_RUNS, sizeof(*texts));
	cleanup_(freep) struct view_run *runs = calloc(MOST_RUNS, sizeof(*runs));
	if (!texts || !runs)
		return -ENOMEM;
	size_t count = load_all(dir, texts);
	for (size_t i = 0; i < count; i++) {
		runs[i] = texts[i].run;
		runs[i].gpus = texts[i].gpus;
	}
	r = view_put_runs(m, runs, count);
	for (size_t i = 0; i < count; i++)
		run_text_finish(&texts[i]);
	return r;
}
