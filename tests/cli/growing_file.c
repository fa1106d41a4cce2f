/* SPDX-License-Identifier: MIT */
/* For LD_PRELOAD: each read() of the file $GROWING_FILE finds that the file has just grown by a hole of a mebibyte. */
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void grow(int fd)
{
	const char *path = getenv("GROWING_FILE");
	struct stat st, wanted;
	if (!path || fstat(fd, &st) < 0 || stat(path, &wanted) < 0)
		return;
	if (st.st_dev == wanted.st_dev && st.st_ino == wanted.st_ino && truncate(path, st.st_size + (1 << 20)) < 0)
		abort();
}

ssize_t read(int fd, void *data, size_t size)
{
	grow(fd);
	return syscall(SYS_read, fd, data, size);
}

/* The same function, if the program was compiled with _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *data, size_t size, size_t room);
ssize_t __read_chk(int fd, void *data, size_t size, size_t room)
{
	(void)room;
	return read(fd, data, size);
}
