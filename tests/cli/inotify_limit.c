/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: a kernel with few inotify watches. INOTIFY_LIMIT watches are granted, further ones fail with ENOSPC;
 * with a limit of 0 not even an instance can be created.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/inotify.h>

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
