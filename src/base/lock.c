/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"

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
 * Whether the lock remains although its process has ended, because another process has the same table of descriptors
 * (CLONE_FILES). No process of this program has, and the kernel releases a lock before its process is gone.
 */
static bool is_left_behind(int fd, pid_t pid)
{
	struct flock now;
	return kill(pid, 0) < 0 && errno == ESRCH && find_blocker(fd, &now) == 0 && now.l_type == F_WRLCK &&
	       now.l_pid == pid;
}

enum blocker {
	BLOCKER_OURS,
	BLOCKER_UNKNOWN, /* perhaps foreign */
	BLOCKER_FOREIGN, /* see lock.h */
};

/*
 * Another user with a write lock on a private file opened the file before it was protected. A process of root may
 * belong to another user who executes a set-user-ID program, but it may also be the file server of other hosts, on
 * which processes of ours run; the same applies to locks without a process. So these are not foreign for certain.
 */
static enum blocker judge(int fd, const struct flock *f)
{
	char path[32];
	struct stat st, process;
	if (f->l_type == F_RDLCK)
		return BLOCKER_FOREIGN;
	if (f->l_type != F_WRLCK || fstat(fd, &st) < 0 || st.st_uid != geteuid() || st.st_mode & (S_IRWXG | S_IRWXO))
		return BLOCKER_OURS;
	if (f->l_pid <= 0)
		return f->l_pid == -1 ? BLOCKER_UNKNOWN : BLOCKER_OURS;
	snprintf(path, sizeof(path), "/proc/%d", (int)f->l_pid);
	if (stat(path, &process) < 0)
		return is_left_behind(fd, f->l_pid) ? BLOCKER_UNKNOWN : BLOCKER_OURS;
	if (process.st_uid == st.st_uid)
		return BLOCKER_OURS;
	return process.st_uid == 0 ? BLOCKER_UNKNOWN : BLOCKER_FOREIGN;
}

/* Retries are requests to the server of a network file system, where many processes may wait for the same lock. */
static uint64_t next_pause(uint64_t pause_ns, uint64_t waited_ns)
{
	if (waited_ns / PAUSE_PART > SHORT_PAUSE_NS)
		return waited_ns / PAUSE_PART < LONGEST_PAUSE_NS ? waited_ns / PAUSE_PART : LONGEST_PAUSE_NS;
	return pause_ns * 2 < SHORT_PAUSE_NS ? pause_ns * 2 : SHORT_PAUSE_NS;
}

/* For how long a kind of blocker has prevented the lock. */
struct obstacle {
	uint64_t limit_ns, first_ns, last_ns; /* when it was first and last seen; 0: not yet */
};

/*
 * Whether the time limit is over: it begins when the obstacle is first seen. An obstacle that is gone for a moment does
 * not postpone the end, but if it was gone for the time of the limit, the time begins again.
 */
static bool is_over(struct obstacle *o, bool seen, uint64_t now_ns)
{
	if (seen) {
		o->first_ns = o->first_ns ? o->first_ns : now_ns;
		o->last_ns = now_ns;
	} else if (now_ns - o->last_ns >= o->limit_ns) {
		o->first_ns = 0;
	}
	return seen && now_ns - o->first_ns >= o->limit_ns;
}

/*
 * Polls instead of using F_SETLKW, because only a signal would end that wait, and a reader can take its lock while we
 * wait for a process of ours.
 */
static int wait_for_lock(int fd, bool wait_for_writer)
{
	struct obstacle foreign = {.limit_ns = LOCK_READER_MS * NS_PER_MS};
	struct obstacle unknown = {.limit_ns = LOCK_UNKNOWN_MS * NS_PER_MS};
	uint64_t pause_ns = FIRST_PAUSE_NS, waited_ns = 0;
	int r;
	while ((r = lock_try(fd)) == -EAGAIN) {
		struct flock f;
		r = find_blocker(fd, &f);
		if (r < 0)
			return r;
		enum blocker blocker = judge(fd, &f);
		if (f.l_type == F_WRLCK && blocker != BLOCKER_FOREIGN && !wait_for_writer)
			return -EAGAIN;
		uint64_t now = clock_now_ns();
		bool is_foreign_over = is_over(&foreign, blocker == BLOCKER_FOREIGN, now);
		if (is_over(&unknown, blocker == BLOCKER_UNKNOWN, now) || is_foreign_over)
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
	if (f.l_type != F_WRLCK || judge(fd, &f) == BLOCKER_FOREIGN)
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
	if (find_blocker(fd, &f) < 0 || judge(fd, &f) == BLOCKER_OURS || f.l_pid <= 0)
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
