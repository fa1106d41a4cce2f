/* SPDX-License-Identifier: MIT */
/* `gpuq doctor`: system limits, and whether the queue's file system supports what a queue needs. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/units.h"
#include "cli/doctor_parts.h"

#define LEAST_FILES     256
#define LEAST_PROCESSES 256
#define LEAST_FILE_SIZE ((rlim_t)1 << 30)
#define LEAST_FREE      ((uint64_t)100 << 20)
#define SLOW_SYNC_MS    200
#define INOTIFY_WAIT_MS 2000

/* ---- Limits ------------------------------------------------------------------------------ */

static void format_limit(rlim_t limit, char ret[32])
{
	if (limit == RLIM_INFINITY)
		snprintf(ret, 32, "unlimited");
	else
		snprintf(ret, 32, "%" PRIu64, (uint64_t)limit);
}

static void check_limit(struct doctor *d, const char *name, int resource, rlim_t least, const char *advice)
{
	struct rlimit l;
	char soft[32], hard[32];
	if (getrlimit((__rlimit_resource_t)resource, &l) < 0)
		return;
	format_limit(l.rlim_cur, soft);
	format_limit(l.rlim_max, hard);
	bool low = l.rlim_cur < least;
	doctor_add(d, low ? DOCTOR_PROBLEM : DOCTOR_OK, name, low ? advice : NULL, "%s (hard limit %s)", soft, hard);
}

static uint64_t read_number(const char *path)
{
	uint64_t n = 0;
	cleanup_(fclosep) FILE *f = fopen(path, "re");
	return f && fscanf(f, "%" SCNu64, &n) == 1 ? n : 0;
}

static void check_inotify_limits(struct doctor *d)
{
	uint64_t watches = read_number("/proc/sys/fs/inotify/max_user_watches");
	uint64_t instances = read_number("/proc/sys/fs/inotify/max_user_instances");
	static const char advice[] = "raise sysctl fs.inotify.max_user_instances and max_user_watches; "
				     "until then, changes are noticed up to a second late";
	cleanup_(closep) int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	int e = fd < 0 || inotify_add_watch(fd, "/", IN_DELETE_SELF) < 0 ? errno : 0;
	if (e)
		doctor_add(d, DOCTOR_PROBLEM, "inotify", advice,
			"all in use (%s): %" PRIu64 " instances, %" PRIu64 " watches for each user", error_words(e),
			instances, watches);
	else
		doctor_add(d, DOCTOR_OK, "inotify", NULL, "%" PRIu64 " instances, %" PRIu64 " watches for each user",
			instances, watches);
}

void doctor_check_limits(struct doctor *d)
{
	check_limit(d, "open files", RLIMIT_NOFILE, LEAST_FILES, "raise it: ulimit -n 1024");
	check_limit(d, "processes", RLIMIT_NPROC, LEAST_PROCESSES, "raise it: ulimit -u 4096; each job needs several");
	check_limit(d, "file size", RLIMIT_FSIZE, LEAST_FILE_SIZE,
		"raise it: ulimit -f unlimited; journal and logs cannot grow beyond it");
	check_inotify_limits(d);
}

/* ---- The file system ------------------------------------------------------------------------ */

struct file_system {
	uint32_t type;
	bool remote;
	const char *name;
};

static const struct file_system file_systems[] = {
	{0x6969, true, "NFS"},
	{0xff534d42, true, "CIFS"},
	{0xfe534d42, true, "SMB2"},
	{0x517b, true, "SMB"},
	{0x65735546, true, "FUSE"},
	{0x01021997, true, "9p"},
	{0x00c36400, true, "Ceph"},
	{0x0bd00bd0, true, "Lustre"},
	{0x47504653, true, "GPFS"},
	{0x19830326, true, "BeeGFS"},
	{0x5346414f, true, "AFS"},
	{0xef53, false, "ext4"},
	{0x58465342, false, "XFS"},
	{0x9123683e, false, "Btrfs"},
	{0x2fc12fc1, false, "ZFS"},
	{0xf2f52010, false, "F2FS"},
	{0x01021994, false, "tmpfs"},
	{0x794c7630, false, "overlayfs"},
	{0xca451a4e, false, "bcachefs"},
};

static void check_type(struct doctor *d, const char *dir)
{
	struct statfs st;
	const struct file_system *fs = NULL;
	if (statfs(dir, &st) < 0) {
		doctor_add(d, DOCTOR_PROBLEM, "type", NULL, "'%s': %s", dir, error_words(errno));
		return;
	}
	for (size_t i = 0; i < sizeof(file_systems) / sizeof(*file_systems); i++)
		if (file_systems[i].type == (uint32_t)st.f_type)
			fs = &file_systems[i];
	bool lost_at_boot = fs && strcmp(fs->name, "tmpfs") == 0;
	char size[UNITS_ROOM];
	uint64_t room = (uint64_t)st.f_bavail * (uint64_t)st.f_bsize;
	char hex[24];
	snprintf(hex, sizeof(hex), "type 0x%x", (unsigned)st.f_type);
	doctor_add(d, (fs && fs->remote) || lost_at_boot ? DOCTOR_NOTE : DOCTOR_OK, "type",
		fs && fs->remote
			? "use this queue on one machine at a time; a local disk is faster: choose one with --jobs-file or $GPUQ_JOBS_FILE"
		: lost_at_boot ? "the queue is lost when the machine restarts"
			       : NULL,
		"%s%s, %s", fs ? fs->name : hex, fs && fs->remote ? " (network)" : "", dir);
	doctor_add(d, room < LEAST_FREE ? DOCTOR_PROBLEM : DOCTOR_OK, "free space",
		room < LEAST_FREE ? "make room: journal and logs cannot be written on a full disk" : NULL, "%s",
		units_format_size(room, size));
}

/* Another process must be refused the lock that this process holds. */
static void check_locks(struct doctor *d, int fd)
{
	static const char advice[] =
		"a queue needs fcntl locks: use another file system, with --jobs-file or $GPUQ_JOBS_FILE";
	int r = lock_try(fd), status = 0;
	if (r < 0) {
		doctor_add(d, DOCTOR_PROBLEM, "locks", advice, "%s", error_words(r));
		return;
	}
	pid_t pid = fork();
	if (pid == 0) {
		/* Open the same file through its descriptor: others may have replaced the path. */
		char path[32];
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		int other = open(path, O_RDWR | O_CLOEXEC);
		_exit(other >= 0 && lock_try(other) == -EAGAIN ? 0 : 1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		doctor_add(d, DOCTOR_PROBLEM, "locks", NULL, "cannot be tested: %s", error_words(errno));
	else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		doctor_add(d, DOCTOR_PROBLEM, "locks", advice, "two processes have the same lock at the same time");
	else
		doctor_add(d, DOCTOR_OK, "locks", NULL, "work");
}

static void check_inotify(struct doctor *d, int fd, const char *path)
{
	cleanup_(closep) int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (watch < 0 || inotify_add_watch(watch, path, IN_MODIFY) < 0)
		return; /* reported among the limits */
	struct pollfd p = {watch, POLLIN, 0};
	if (write(fd, "x", 1) == 1 && poll(&p, 1, INOTIFY_WAIT_MS) == 1)
		doctor_add(d, DOCTOR_OK, "inotify", NULL, "reports changes");
	else
		doctor_add(d, DOCTOR_NOTE, "inotify", "changes are noticed up to a second late",
			"reports no changes here");
}

static void check_sync(struct doctor *d, int fd)
{
	uint64_t begin = clock_now_ns();
	if (write(fd, "x", 1) != 1 || fsync(fd) < 0) {
		doctor_add(d, DOCTOR_PROBLEM, "fsync", "jobs cannot be made durable here; use another file system",
			"%s", error_words(errno));
		return;
	}
	unsigned took_ms = (unsigned)((clock_now_ns() - begin) / NS_PER_MS);
	doctor_add(d, took_ms > SLOW_SYNC_MS ? DOCTOR_NOTE : DOCTOR_OK, "fsync",
		took_ms > SLOW_SYNC_MS ? "each 'gpuq add' waits for it; add many jobs at once with a commands file"
				       : NULL,
		"took %u ms", took_ms);
}

/* The queue's directory or, if that is missing, the nearest existing parent. */
static char *find_directory(const char *journal)
{
	char *dir = strdup(journal);
	while (dir) {
		char *slash = strrchr(dir, '/');
		if (!slash)
			break;
		slash[slash == dir] = '\0';
		if (access(dir, F_OK) == 0 || slash == dir)
			return dir;
	}
	free(dir);
	return NULL;
}

/* Through a descriptor: another user may replace a directory of the path between two of these steps. */
void doctor_check_file_system(struct doctor *d)
{
	cleanup_(freep) char *dir = d->has_queue ? find_directory(d->queue.journal_path) : NULL;
	cleanup_(closep) int dir_fd = -1;
	char path[64];
	if (!dir)
		return; /* the settings report why */
	check_type(d, dir);
	/* A link of another user may lead to the directory. */
	if (d->queue.objection && !d->queue.trust)
		return;
	dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/.gpuq-doctor-XXXXXX", dir_fd);
	cleanup_(closep) int fd = dir_fd < 0 ? -1 : mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		doctor_add(d, DOCTOR_PROBLEM, "writing", "use another queue, with --jobs-file or $GPUQ_JOBS_FILE",
			"cannot create a file in '%s': %s", dir, error_words(errno));
		return;
	}
	check_locks(d, fd);
	check_inotify(d, fd, path);
	check_sync(d, fd);
	unlink(path);
}
