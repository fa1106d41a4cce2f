/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD in tests under qemu-user: qemu adds a thread to every process, and a pool does not fork workers from a
 * process with threads. The pool counts the entries of the directory $TEST_TASKS instead of its threads.
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
