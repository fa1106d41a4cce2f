/* SPDX-License-Identifier: MIT */
/* For LD_PRELOAD: a file system on which each host has its own locks, like NFS with local_lock. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>

/* With large files this is fcntl64(). */
int fcntl(int fd, int command, ...)
{
	static int (*real)(int, int, ...);
	va_list args;
	va_start(args, command);
	void *arg = va_arg(args, void *);
	va_end(args);
	if (!real)
		real = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl");
	if (command == F_GETLK)
		((struct flock *)arg)->l_type = F_UNLCK;
	if (command == F_GETLK || command == F_SETLK || command == F_SETLKW)
		return 0;
	return real(fd, command, arg);
}
