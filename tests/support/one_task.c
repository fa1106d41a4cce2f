/* SPDX-License-Identifier: MIT */
/*
 * For tests under qemu-user, to be preloaded: qemu has a thread of its own in every
 * process, and a pool does not fork workers from a process with threads. Where the
 * pool counts the threads, it finds the directory $TEST_TASKS instead.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

DIR *opendir(const char *name)
{
	DIR *(*real)(const char *) = NULL;
	*(void **)&real = dlsym(RTLD_NEXT, "opendir");
	const char *tasks = getenv("TEST_TASKS");
	return real(tasks && strcmp(name, "/proc/self/task") == 0 ? tasks : name);
}
