/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD in a coordinator: each sync of $SLOW_SYNC_JOURNAL takes $SLOW_SYNC_MS longer. After the sync, the size
 * that the journal had at its start is written to $SLOW_SYNC_FILE. A test simulates a power cut by killing the
 * coordinator and truncating the journal to that size.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_journal(int fd)
{
	char link[64], path[4096];
	const char *journal = getenv("SLOW_SYNC_JOURNAL");
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof(path));
	return journal && n == (ssize_t)strlen(journal) && memcmp(path, journal, (size_t)n) == 0;
}

static void note(long long size)
{
	char text[32];
	int fd = open(getenv("SLOW_SYNC_FILE"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	int n = snprintf(text, sizeof(text), "%020lld", size);
	if (fd < 0 || pwrite(fd, text, (size_t)n, 0) != n)
		abort();
	close(fd);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int sync_slowly(int (*call)(int), int fd)
{
	struct stat st;
	if (!is_journal(fd) || fstat(fd, &st) < 0)
		return call(fd);
	usleep((useconds_t)atoi(getenv("SLOW_SYNC_MS")) * 1000);
	int r = call(fd);
	if (r == 0)
		note((long long)st.st_size);
	return r;
}

int fsync(int fd)
{
	return sync_slowly(NEXT(fsync), fd);
}

int fdatasync(int fd)
{
	return sync_slowly(NEXT(fdatasync), fd);
}
