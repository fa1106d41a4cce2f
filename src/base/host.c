/* SPDX-License-Identifier: MIT */
#include "base/host.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

#define FILE_ROOM (32 * 1024)
#define PATH_ROOM 4096

/* File names of the same values in cgroup versions 1 and 2. */
struct cgroup_files {
	const char *limit, *usage, *stat_key;
};
static const struct cgroup_files memory_v1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
static const struct cgroup_files memory_v2 = {"memory.max", "memory.current", "inactive_file"};

/* A line "key 123" or "key:   123 kB" of a file. */
static bool find_number(const char *text, const char *key, uint64_t *ret)
{
	size_t length = strlen(key);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) == 0 && (line[length] == ' ' || line[length] == ':')) {
			*ret = strtoull(line + length + 1, NULL, 10);
			return true;
		}
	}
	return false;
}

static bool read_in(const char *dir, const char *name, char *buf, size_t size)
{
	char path[PATH_ROOM + 64];
	int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
	return n > 0 && (size_t)n < sizeof(path) && file_read_small(AT_FDCWD, path, buf, size) > 0;
}

/* False for "max", and if the file does not exist. */
static bool read_number(const char *dir, const char *name, uint64_t *ret)
{
	char text[64], *end;
	if (!read_in(dir, name, text, sizeof(text)))
		return false;
	*ret = strtoull(text, &end, 10);
	return end != text && *text != '-';
}

/* ---- One cgroup ---------------------------------------------------------------------------- */

static void limit_memory(const char *dir, const struct cgroup_files *files, struct host_limits *h)
{
	uint64_t limit, usage = 0, inactive = 0;
	/* Version 1 reports a very large number if there is no limit. */
	if (!read_number(dir, files->limit, &limit) || limit >= UINT64_C(1) << 60)
		return;
	cleanup_(freep) char *stat = malloc(FILE_ROOM);
	if (stat && read_in(dir, "memory.stat", stat, FILE_ROOM))
		find_number(stat, files->stat_key, &inactive);
	if (!read_number(dir, files->usage, &usage))
		usage = 0;
	usage -= inactive < usage ? inactive : usage;
	uint64_t available = usage < limit ? limit - usage : 0;
	if (!h->memory_known || limit < h->memory_total_bytes)
		h->memory_total_bytes = limit;
	if (!h->memory_known || available < h->memory_available_bytes)
		h->memory_available_bytes = available;
	h->memory_known = true;
}

static void limit_cpus(const char *dir, bool v2, struct host_limits *h)
{
	uint64_t quota, period;
	char text[64], *rest;
	if (v2) {
		if (!read_in(dir, "cpu.max", text, sizeof(text)) || !strncmp(text, "max", 3))
			return;
		quota = strtoull(text, &rest, 10);
		period = strtoull(rest, NULL, 10);
	} else if (!read_number(dir, "cpu.cfs_quota_us", &quota) || !read_number(dir, "cpu.cfs_period_us", &period)) {
		return;
	}
	if (quota == 0 || period == 0)
		return;
	uint64_t cpus = quota / period > 0 ? quota / period : 1;
	if (cpus < h->cpus)
		h->cpus = (unsigned)cpus;
}

/* ---- The cgroups above the process --------------------------------------------------------- */

enum { CGROUP_MEMORY = 1, CGROUP_CPU = 2 };

/*
 * The group and all above it, up to the root of the hierarchy. In a container without a cgroup namespace the path is
 * the host's, and only the root, which is the container's own group, can be found.
 */
static void limit_all(const char *root, const char *path, bool v2, int controllers, struct host_limits *h)
{
	char dir[PATH_ROOM];
	int n = snprintf(dir, sizeof(dir), "%s%s", root, path);
	if (n < 0 || (size_t)n >= sizeof(dir))
		return;
	for (;;) {
		if (controllers & CGROUP_MEMORY)
			limit_memory(dir, v2 ? &memory_v2 : &memory_v1, h);
		if (controllers & CGROUP_CPU)
			limit_cpus(dir, v2, h);
		char *slash = strrchr(dir, '/');
		if (!slash || strlen(dir) <= strlen(root))
			return;
		*slash = '\0';
	}
}

static bool has_controller(const char *list, const char *name)
{
	size_t length = strlen(name);
	for (const char *p = list; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, name, length) == 0 && (p[length] == ',' || p[length] == '\0'))
			return true;
	}
	return false;
}

/* A line of /proc/self/cgroup: "0::/user.slice/a", "4:cpu,cpuacct:/docker/1234". */
static void limit_by_line(char *line, const char *sys, struct host_limits *h)
{
	char *rest = line, root[PATH_ROOM];
	const char *number = strsep(&rest, ":"), *controllers = strsep(&rest, ":");
	if (!number || !controllers || !rest || *rest != '/')
		return;
	const char *path = strcmp(rest, "/") == 0 ? "" : rest;
	if (*controllers == '\0') {
		snprintf(root, sizeof(root), "%s/fs/cgroup", sys);
		limit_all(root, path, true, CGROUP_MEMORY | CGROUP_CPU, h);
		return;
	}
	if (has_controller(controllers, "memory")) {
		snprintf(root, sizeof(root), "%s/fs/cgroup/memory", sys);
		limit_all(root, path, false, CGROUP_MEMORY, h);
	}
	if (has_controller(controllers, "cpu")) {
		snprintf(root, sizeof(root), "%s/fs/cgroup/cpu", sys);
		limit_all(root, path, false, CGROUP_CPU, h);
	}
}

static unsigned allowed_cpus(void)
{
	/*
	 * If the machine has more CPUs than a cpu_set_t holds, the kernel returns an error; the larger set is enough
	 * for any machine.
	 */
	enum { MOST = 65536 };
	size_t size = CPU_ALLOC_SIZE(MOST);
	cpu_set_t *set = CPU_ALLOC(MOST);
	int count = set && sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
	CPU_FREE(set);
	if (count < 1)
		count = (int)sysconf(_SC_NPROCESSORS_ONLN);
	return count > 0 ? (unsigned)count : 1;
}

void host_read(const char *proc, const char *sys, struct host_limits *ret)
{
	struct host_limits h = {.cpus = allowed_cpus()};
	uint64_t total_kb, available_kb;
	cleanup_(freep) char *text = malloc(FILE_ROOM);
	proc = proc ? proc : "/proc";
	if (text && read_in(proc, "meminfo", text, FILE_ROOM) && find_number(text, "MemTotal", &total_kb)) {
		h.memory_known = true;
		h.memory_total_bytes = total_kb << 10;
		h.memory_available_bytes = (find_number(text, "MemAvailable", &available_kb) ? available_kb : total_kb)
					   << 10;
	}
	if (text && read_in(proc, "self/cgroup", text, FILE_ROOM)) {
		char *rest = text, *line;
		while ((line = strsep(&rest, "\n")))
			limit_by_line(line, sys ? sys : "/sys", &h);
	}
	*ret = h;
}
