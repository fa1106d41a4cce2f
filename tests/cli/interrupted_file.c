/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: Ctrl-C during read number $INTERRUPTED_AT of the file $INTERRUPTED_FILE. From then on, each read
 * takes a second, and a program that goes on reading is aborted.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_READS 4 /* after the signal */

static int reads_after;

static void count(int fd)
{
	static int reads;
	const char *path = getenv("INTERRUPTED_FILE"), *at = getenv("INTERRUPTED_AT");
	struct stat st, wanted;
	if (!path || !at || fstat(fd, &st) < 0 || stat(path, &wanted) < 0)
		return;
	if (st.st_dev != wanted.st_dev || st.st_ino != wanted.st_ino || ++reads < atoi(at))
		return;
	if (reads == atoi(at))
		raise(SIGINT);
	else if (++reads_after > MOST_READS)
		abort();
}

ssize_t read(int fd, void *data, size_t size)
{
	count(fd);
	return syscall(SYS_read, fd, data, size);
}

/* The same function, if the program was compiled with _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *data, size_t size, size_t room);
ssize_t __read_chk(int fd, void *data, size_t size, size_t room)
{
	(void)room;
	return read(fd, data, size);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	static int (*real)(clockid_t, struct timespec *);
	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int r = real(clock, ret);
	if (r == 0)
		ret->tv_sec += reads_after;
	return r;
}
