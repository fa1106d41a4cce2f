/* SPDX-License-Identifier: MIT */
#include "cli/program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/say.h"

/* How a program learns which gpuq it belongs to. Taken out of the environment at once. */
#define MARK "GPUQ_EXECUTED_BY"

static char gpuq_path[PATH_MAX] = "/proc/self/exe";

static int find(const char *name, const char *self, char *ret, size_t size)
{
	const char *slash = strrchr(self, '/');
	int n = snprintf(ret, size, "%.*s/%s", (int)(slash - self), self, name);
	if (n > 0 && (size_t)n < size && access(ret, X_OK) == 0)
		return 0;
	n = snprintf(ret, size, GD_LIBEXECDIR "/%s", name);
	return n > 0 && (size_t)n < size && access(ret, X_OK) == 0 ? 0 : -ENOENT;
}

int program_become(const char *name, const char *package, char **argv)
{
	char self[PATH_MAX], path[PATH_MAX + 64];
	if (!realpath("/proc/self/exe", self)) {
		say("starting '%s': where gpuq itself lies is not known: %s", name, error_words(errno));
		return EXIT_WORK_FAILED;
	}
	if (find(name, self, path, sizeof(path)) < 0) {
		say("'%s' is not installed, neither beside gpuq nor in '" GD_LIBEXECDIR
		    "'; build gpu_dispatch where %s is installed",
			name, package);
		return EXIT_USAGE;
	}
	if (setenv(MARK, self, 1) == 0)
		execv(path, argv);
	say("starting '%s': %s", path, error_words(errno));
	return EXIT_WORK_FAILED;
}

int program_enter(const char *command)
{
	const char *mark = getenv(MARK);
	if (!mark || strlen(mark) >= sizeof(gpuq_path)) {
		say("this program is a part of gpuq; type '%s'", command);
		return EXIT_USAGE;
	}
	strcpy(gpuq_path, mark);
	unsetenv(MARK);
	return 0;
}

const char *program_gpuq(void)
{
	return gpuq_path;
}
