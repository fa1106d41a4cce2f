/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: another command removes the queue $REMOVED_QUEUE during gpuq's fstatfs() number $REMOVED_AT, and
 * creates $REMOVED_QUEUE.removed.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/vfs.h>

int fstatfs(int fd, struct statfs *buf)
{
	int (*real)(int, struct statfs *) = (int (*)(int, struct statfs *))dlsym(RTLD_NEXT, "fstatfs");
	const char *path = getenv("REMOVED_QUEUE"), *at = getenv("REMOVED_AT");
	static int calls;
	char command[4096];
	if (path && at && ++calls == atoi(at)) {
		snprintf(command, sizeof(command), "rm -r '%s' '%s.d' && touch '%s.removed'", path, path, path);
		unsetenv("REMOVED_QUEUE");
		if (system(command) != 0)
			abort();
	}
	return real(fd, buf);
}
