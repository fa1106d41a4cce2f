/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"

/* Not in linux/magic.h. */
#define BCACHEFS_MAGIC 0xca451a4e
#define ZFS_MAGIC      0x2fc12fc1

/* Most locks are held for less than the first pause. */
#define FIRST_PAUSE_NS   (NS_PER_MS / 20)
#define SHORT_PAUSE_NS   (10 * NS_PER_MS)
#define LONGEST_PAUSE_NS (100 * NS_PER_MS)
/* In a long wait, a pause is at most 1/PAUSE_PART of the time waited so far. */
#define PAUSE_PART 10

static int lock_call(int fd, short type)
{
	struct flock f = {.l_type = type, .l_whence = SEEK_SET};
	for (;;) {
		if (fcntl(fd, F_SETLK, &f) == 0)
			return 0;
		if (errno != EINTR)
			return errno == EACCES ? -EAGAIN : -errno;
	}
}

/* The lock that prevents ours; l_type is F_UNLCK if there is none. */
static int find_blocker(int fd, struct flock *f)
{
	*f = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return fcntl(fd, F_GETLK, f) < 0 ? -errno : 0;
}

/*
 * Whether the process does not belong to the user. The owner of /proc/PID does not show this: it is root while a
 * process of any user executes a set-user-ID program.
 */
static bool is_of_another_user(pid_t pid)
{
	char path[32];
	struct stat process;
	if (kill(pid, 0) < 0)
		return errno == EPERM;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	/* Root can signal every process. */
	return geteuid() == 0 && stat(path, &process) == 0 && process.st_uid != 0;
}

/*
 * Whether the lock remains although its process has ended, because another process has the same table of descriptors
 * (CLONE_FILES). No process of this program has, and the kernel releases a lock before its process is gone.
 */
static bool is_left_behind(int fd, pid_t pid)
{
	struct flock now;
	return kill(pid, 0) < 0 && errno == ESRCH && find_blocker(fd, &now) == 0 && now.l_type == F_WRLCK &&
	       now.l_pid == pid;
}

/*
 * A lock of an open file description, which has no process: this program never takes one. Network file systems can
 * report a lock of another host in the same way.
 */
static bool has_no_process(int fd, const struct flock *f)
{
	static const unsigned long local[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
		TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC, ZFS_MAGIC, BCACHEFS_MAGIC};
	struct statfs fs;
	if (f->l_pid != -1 || fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		if ((unsigned long)fs.f_type == local[i])
			return true;
	return false;
}

/*
 * Whether the lock is foreign (see lock.h). Another user with a write lock opened the file before it was protected.
 */
static bool is_intruder(int fd, const struct flock *f)
{
	struct stat st;
	if (f->l_type == F_RDLCK)
		return true;
	return f->l_type == F_WRLCK && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IRWXG | S_IRWXO)) &&
	       (f->l_pid > 0 ? is_of_another_user(f->l_pid) || is_left_behind(fd, f->l_pid) : has_no_process(fd, f));
}

/* Retries are requests to the server of a network file system, where many processes may wait for the same lock. */
static uint64_t next_pause(uint64_t pause_ns, uint64_t waited_ns)
{
	if (waited_ns / PAUSE_PART > SHORT_PAUSE_NS)
		return waited_ns / PAUSE_PART < LONGEST_PAUSE_NS ? waited_ns / PAUSE_PART : LONGEST_PAUSE_NS;
	return pause_ns * 2 < SHORT_PAUSE_NS ? pause_ns * 2 : SHORT_PAUSE_NS;
}

/*
 * Polls instead of using F_SETLKW, because only a signal would end that wait, and a reader can take its lock while we
 * wait for a process of ours. The deadline is LOCK_READER_MS after the first foreign lock. A reader that releases its
 * lock for a moment does not postpone it, but after LOCK_READER_MS without a foreign lock, the next one counts as the
 * first.
 */
static int wait_for_lock(int fd, bool wait_for_writer)
{
	const uint64_t limit_ns = LOCK_READER_MS * NS_PER_MS;
	uint64_t pause_ns = FIRST_PAUSE_NS, waited_ns = 0;
	uint64_t first_ns = 0, last_ns = 0; /* when the first and the last foreign lock was seen; 0: none */
	int r;
	while ((r = lock_try(fd)) == -EAGAIN) {
		struct flock f;
		r = find_blocker(fd, &f);
		if (r < 0)
			return r;
		bool intruder = is_intruder(fd, &f);
		if (f.l_type == F_WRLCK && !intruder && !wait_for_writer)
			return -EAGAIN;
		uint64_t now = clock_now_ns();
		if (intruder) {
			first_ns = first_ns ? first_ns : now;
			last_ns = now;
		} else if (now - last_ns >= limit_ns) {
			first_ns = 0;
		}
		if (intruder && now - first_ns >= limit_ns)
			return LOCK_BLOCKED;
		/* If interrupted, retry earlier. */
		(void)nanosleep(&(struct timespec){.tv_nsec = (long)pause_ns}, NULL);
		waited_ns += pause_ns;
		pause_ns = next_pause(pause_ns, waited_ns);
	}
	return r;
}

int lock_take(int fd)
{
	return wait_for_lock(fd, true);
}

int lock_take_free(int fd)
{
	return wait_for_lock(fd, false);
}

int lock_try(int fd)
{
	return lock_call(fd, F_WRLCK);
}

int lock_release(int fd)
{
	return lock_call(fd, F_UNLCK);
}

int lock_holder(int fd, pid_t *ret)
{
	struct flock f;
	int r = find_blocker(fd, &f);
	if (r < 0)
		return r;
	if (f.l_type != F_WRLCK || is_intruder(fd, &f))
		*ret = 0;
	else
		*ret = f.l_pid > 0 ? f.l_pid : -1;
	return 0;
}

int lock_holder_at(int dirfd, const char *name, pid_t *ret)
{
	cleanup_(closep) int fd = file_open_regular(dirfd, name, O_NOFOLLOW);
	if (fd == -ENOENT) {
		*ret = 0;
		return 0;
	}
	if (fd < 0)
		return fd;
	return lock_holder(fd, ret);
}

void lock_describe_reader(int fd, char ret[LOCK_WORDS_ROOM])
{
	char path[32], room[4096];
	struct passwd pw, *user = NULL;
	struct stat st;
	struct flock f;
	snprintf(ret, LOCK_WORDS_ROOM, "a process");
	if (find_blocker(fd, &f) < 0 || !is_intruder(fd, &f) || f.l_pid <= 0)
		return;
	int pid = (int)f.l_pid;
	snprintf(ret, LOCK_WORDS_ROOM, "process %d", pid);
	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &st) < 0)
		return;
	if (getpwuid_r(st.st_uid, &pw, room, sizeof(room), &user) == 0 && user)
		snprintf(ret, LOCK_WORDS_ROOM, "process %d of user '%.80s'", pid, user->pw_name);
	else
		snprintf(ret, LOCK_WORDS_ROOM, "process %d of user %u", pid, (unsigned)st.st_uid);
}

void lock_protect(int fd)
{
	struct stat st;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_mode & (S_IRWXG | S_IRWXO))
		(void)fchmod(fd, st.st_mode & S_IRWXU);
}
