/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: while the file $ENDLESS_FOLDER exists, reading a folder never ends. Each entry is a file that matches
 * no pattern. The first one creates the file $ENDLESS_FOLDER.reached.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dirent64 *readdir64(DIR *dir)
{
	static struct dirent64 *(*real)(DIR *);
	static struct dirent64 entry;
	const char *gate = getenv("ENDLESS_FOLDER");
	if (!real)
		real = (struct dirent64 * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir64");
	int error = errno; /* the end of a folder does not change errno */
	bool open = gate && access(gate, F_OK) == 0;
	errno = error;
	if (!open)
		return real(dir);
	if (entry.d_ino == 0) {
		char reached[4096];
		snprintf(reached, sizeof(reached), "%s.reached", gate);
		close(creat(reached, 0600));
	}
	entry.d_type = DT_REG;
	entry.d_ino = 1;
	strcpy(entry.d_name, "endless");
	return &entry;
}
