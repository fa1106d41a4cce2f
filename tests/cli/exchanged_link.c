/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: as soon as the program has read where the symbolic link $EXCHANGED_LINK leads, lets another process
 * put something else in its place: opens and closes the FIFO $EXCHANGED_LINK_GATE, and waits until this process has
 * done the same with $EXCHANGED_LINK_GATE.done.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whether a path relative to the directory, or the directory itself if it is "", is the link. */
static int is_link(int dir_fd, const char *path)
{
	const char *link = getenv("EXCHANGED_LINK");
	struct stat st, wanted;
	return link && fstatat(dir_fd, path, &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) &&
	       lstat(link, &wanted) == 0 && st.st_dev == wanted.st_dev && st.st_ino == wanted.st_ino;
}

static void exchange(void)
{
	char done[PATH_MAX];
	const char *gate = getenv("EXCHANGED_LINK_GATE");
	int error = errno;
	snprintf(done, sizeof(done), "%s.done", gate);
	close(open(gate, O_WRONLY | O_CLOEXEC));
	close(open(done, O_RDONLY | O_CLOEXEC));
	errno = error;
}

ssize_t readlinkat(int dir_fd, const char *path, char *target, size_t size)
{
	int found = is_link(dir_fd, path);
	ssize_t n = syscall(SYS_readlinkat, dir_fd, path, target, size);
	if (found)
		exchange();
	return n;
}

/* The same functions, if the program was compiled with _FORTIFY_SOURCE. */
ssize_t __readlinkat_chk(int dir_fd, const char *path, char *target, size_t size, size_t room);
ssize_t __readlinkat_chk(int dir_fd, const char *path, char *target, size_t size, size_t room)
{
	(void)room;
	return readlinkat(dir_fd, path, target, size);
}

char *realpath(const char *path, char *resolved)
{
	static char *(*real)(const char *, char *);
	int found = is_link(AT_FDCWD, path);
	if (!real)
		real = (char *(*)(const char *, char *))dlsym(RTLD_NEXT, "realpath");
	char *result = real(path, resolved);
	if (found)
		exchange();
	return result;
}

char *__realpath_chk(const char *path, char *resolved, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	(void)room;
	return realpath(path, resolved);
}
