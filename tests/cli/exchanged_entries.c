/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: another user exchanges $EXCHANGED and $EXCHANGED.other before call number $EXCHANGED_AT that opens or
 * examines the first of them, or opens a descriptor in /proc again. $EXCHANGED.log tells that this has happened.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Programs that are compiled with _FORTIFY_SOURCE call these instead of open64() and openat64(). */
int __open64_2(const char *path, int flags);
int __openat64_2(int fd, const char *path, int flags);

static void exchange(const char *path)
{
	const char *entry = getenv("EXCHANGED"), *at = getenv("EXCHANGED_AT");
	static int calls;
	char other[4096], log[4096];
	if (!entry || !at)
		return;
	snprintf(other, sizeof(other), "%s.other", entry);
	snprintf(log, sizeof(log), "%s.log", entry);
	size_t length = strlen(path), named = strlen(entry);
	bool ends = length <= named && length > 0 && strcmp(entry + named - length, path) == 0;
	if ((!ends && strncmp(path, "/proc/self/fd/", 14) != 0) || ++calls != atoi(at) || access(log, F_OK) == 0)
		return;
	if (renameat2(AT_FDCWD, entry, AT_FDCWD, other, RENAME_EXCHANGE) < 0)
		abort();
	int (*make)(const char *, mode_t) = (int (*)(const char *, mode_t))dlsym(RTLD_NEXT, "creat64");
	close(make(log, 0600));
}

static int open_at(int fd, const char *path, int flags, mode_t mode)
{
	int (*real)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat64");
	exchange(path);
	return real(fd, path, flags, mode);
}

static mode_t take_mode(int flags, va_list list)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
}

int open64(const char *path, int flags, ...)
{
	va_list list;
	va_start(list, flags);
	int fd = open_at(AT_FDCWD, path, flags, take_mode(flags, list));
	va_end(list);
	return fd;
}

int openat64(int dir_fd, const char *path, int flags, ...)
{
	va_list list;
	va_start(list, flags);
	int fd = open_at(dir_fd, path, flags, take_mode(flags, list));
	va_end(list);
	return fd;
}

int __open64_2(const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}

int __openat64_2(int fd, const char *path, int flags)
{
	return open_at(fd, path, flags, 0);
}

int fstatat64(int fd, const char *restrict path, struct stat64 *restrict st, int flags)
{
	int (*real)(int, const char *, struct stat64 *, int) =
		(int (*)(int, const char *, struct stat64 *, int))dlsym(RTLD_NEXT, "fstatat64");
	exchange(path);
	return real(fd, path, st, flags);
}

int stat64(const char *restrict path, struct stat64 *restrict st)
{
	return fstatat64(AT_FDCWD, path, st, 0);
}

int lstat64(const char *restrict path, struct stat64 *restrict st)
{
	return fstatat64(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}
