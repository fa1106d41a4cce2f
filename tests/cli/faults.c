/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: a disk that fails for gpuq and its keepers, once or for a while.
 *
 *     FAULT_CALL   write, sync, lock (every lock fails), inotify (every instance fails), fork (of a nursery),
 *                  replace (the journal looks like another file) or unlocked (every write to the journal without the
 *                  append lock fails)
 *     FAULT_ERRNO  the number of the error
 *     FAULT_SHORT  bytes that are written before the call fails
 *     FAULT_FILE   the name of the only affected file; all files if not set
 *     FAULT_COUNTER  a file of two 64-bit numbers, shared by all processes: calls to let pass, then calls to fail
 *
 * Affects only regular files, and only in programs called gpuq and gpuq-….
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int64_t *counter;
static int fault_errno, fault_short, fail_writes, fail_syncs, fail_locks, fail_inotify, fail_forks, replace,
	fail_unlocked;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAULT_COUNTER"), *call = getenv("FAULT_CALL");
	if (!path || !call || strncmp(program_invocation_short_name, "gpuq", 4) != 0)
		return;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	void *page = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return;
	counter = page;
	fault_errno = atoi(getenv("FAULT_ERRNO"));
	fault_short = getenv("FAULT_SHORT") ? atoi(getenv("FAULT_SHORT")) : 0;
	fail_writes = strcmp(call, "write") == 0;
	fail_syncs = strcmp(call, "sync") == 0;
	fail_locks = strcmp(call, "lock") == 0;
	fail_inotify = strcmp(call, "inotify") == 0;
	fail_forks = strcmp(call, "fork") == 0;
	replace = strcmp(call, "replace") == 0;
	fail_unlocked = strcmp(call, "unlocked") == 0;
}

static int count(void)
{
	if (__atomic_fetch_sub(&counter[0], 1, __ATOMIC_SEQ_CST) > 0)
		return 0;
	return __atomic_fetch_sub(&counter[1], 1, __ATOMIC_SEQ_CST) > 0;
}

static int is_the_file(int fd)
{
	char link[64], path[4096];
	const char *name = getenv("FAULT_FILE");
	if (!name)
		return 1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, path, sizeof(path) - 1);
	path[length < 0 ? 0 : length] = '\0';
	const char *last = strrchr(path, '/');
	return last && strcmp(last + 1, name) == 0;
}

static int is_due(int fd)
{
	struct stat st;
	return counter && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_the_file(fd) && count();
}

pid_t fork(void)
{
	pid_t (*next)(void) = dlsym(RTLD_NEXT, "fork");
	char name[16] = "";
	if (fail_forks && prctl(PR_GET_NAME, name) == 0 && strcmp(name, "gpuq-nursery") == 0 && count()) {
		errno = fault_errno;
		return -1;
	}
	return next();
}

int fstatat64(int dir, const char *path, struct stat64 *st, int flags);
int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
	int (*next)(int, const char *, struct stat64 *, int) = dlsym(RTLD_NEXT, "fstatat64");
	int r = next(dir, path, st, flags);
	if (r == 0 && replace && strcmp(path, "jobs.jsonl") == 0 && count())
		st->st_ino++;
	return r;
}

/* Whether fd is the journal and the append lock is free. A process does not see its own locks, but its child does. */
static int is_unlocked_journal(int fd)
{
	char link[64], path[4096 + 16];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, path, 4096);
	if (length < 11 || strncmp(path + length - 11, "/jobs.jsonl", 11) != 0)
		return 0;
	snprintf(path + length, sizeof(path) - (size_t)length, ".d/append.lock");
	int status = 0;
	pid_t child = vfork();
	if (child == 0) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
		int lock_fd = open(path, O_RDWR | O_CLOEXEC);
		_exit(lock_fd >= 0 && fcntl(lock_fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

ssize_t write(int fd, const void *data, size_t size)
{
	static ssize_t (*real)(int, const void *, size_t);
	if (!real)
		real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
	if (fail_unlocked && is_unlocked_journal(fd)) {
		errno = fault_errno;
		return -1;
	}
	if (!fail_writes || !is_due(fd))
		return real(fd, data, size);
	if (fault_short && size > (size_t)fault_short)
		return real(fd, data, (size_t)fault_short);
	errno = fault_errno;
	return -1;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
	static ssize_t (*real)(int, const void *, size_t, off_t);
	if (!real)
		real = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
	if (!fail_writes || !is_due(fd))
		return real(fd, data, size, offset);
	errno = fault_errno;
	return -1;
}

int fdatasync(int fd)
{
	static int (*real)(int);
	if (!real)
		real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	if (!fail_syncs || !is_due(fd))
		return real(fd);
	errno = fault_errno;
	return -1;
}

int fsync(int fd)
{
	static int (*real)(int);
	if (!real)
		real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
	if (!fail_syncs || !is_due(fd))
		return real(fd);
	errno = fault_errno;
	return -1;
}

int fcntl64(int fd, int command, ...);
int fcntl64(int fd, int command, ...)
{
	static int (*real)(int, int, ...);
	va_list args;
	va_start(args, command);
	void *argument = va_arg(args, void *);
	va_end(args);
	if (!real)
		real = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl64");
	if (fail_locks && (command == F_SETLK || command == F_SETLKW || command == F_GETLK)) {
		errno = fault_errno;
		return -1;
	}
	return real(fd, command, argument);
}

int inotify_init1(int flags)
{
	static int (*real)(int);
	if (!real)
		real = (int (*)(int))dlsym(RTLD_NEXT, "inotify_init1");
	if (!fail_inotify)
		return real(flags);
	errno = fault_errno;
	return -1;
}
