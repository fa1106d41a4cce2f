/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: a kernel with few inotify watches. INOTIFY_LIMIT watches are granted, further ones fail with ENOSPC;
 * with a limit of 0 not even an instance can be created. INOTIFY_SYSCTL is the limit that the kernel reports.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

static int limit(void)
{
	const char *text = getenv("INOTIFY_LIMIT");
	return text ? atoi(text) : 1000000;
}

int inotify_init1(int flags)
{
	static int (*real)(int);
	if (!real)
		real = (int (*)(int))dlsym(RTLD_NEXT, "inotify_init1");
	if (limit() > 0)
		return real(flags);
	errno = EMFILE;
	return -1;
}

int inotify_add_watch(int fd, const char *name, uint32_t mask)
{
	static int (*real)(int, const char *, uint32_t);
	if (!real)
		real = (int (*)(int, const char *, uint32_t))dlsym(RTLD_NEXT, "inotify_add_watch");
	int number = real(fd, name, mask);
	if (number <= limit())
		return number;
	inotify_rm_watch(fd, number);
	errno = ENOSPC;
	return -1;
}

/* A file with the limit, instead of the kernel's. */
static int open_sysctl(const char *text)
{
	int fd = memfd_create("limit", MFD_CLOEXEC);
	size_t size = strlen(text);
	if (fd >= 0 && (write(fd, text, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) < 0))
		abort();
	return fd;
}

int openat64(int dirfd, const char *path, int flags, ...)
{
	static int (*real)(int, const char *, int, ...);
	const char *text = getenv("INOTIFY_SYSCTL");
	va_list args;
	va_start(args, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (text && strcmp(path, "/proc/sys/user/max_inotify_watches") == 0)
		return open_sysctl(text);
	if (!real)
		real = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat64");
	return real(dirfd, path, flags, mode);
}
