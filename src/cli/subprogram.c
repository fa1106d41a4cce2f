/* SPDX-License-Identifier: MIT */
#include "cli/subprogram.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/helper.h"
#include "cli/debug.h"
#include "cli/exit_code.h"
#include "cli/say.h"

static char gpuq_path[PATH_MAX] = "/proc/self/exe";

/* "gpuq-web" → "GPUQ_WEB", the variable that overrides the path of a program. */
static void variable_of(const char *name, char ret[64])
{
	size_t n = 0;
	for (; name[n] && n < 63; n++)
		ret[n] = name[n] == '-' ? '_' : (char)toupper((unsigned char)name[n]);
	ret[n] = '\0';
}

int subprogram_find(const char *name, char *ret, size_t size, struct gd_error *err)
{
	char variable[64];
	variable_of(name, variable);
	return helper_find(name, variable, ret, size, err);
}

int subprogram_become(const char *name, const char *package, char **argv)
{
	char self[PATH_MAX], path[PATH_MAX];
	struct gd_error err = {0};
	int r = subprogram_find(name, path, sizeof(path), &err);
	if (r == -ENOPKG) {
#ifdef GD_WHEEL
		say("'%s' is not part of the Python package because it needs %s; build gpu_dispatch from source with 'make install'",
			name, package);
#else
		say("%s; build gpu_dispatch where %s is installed", err.message, package);
#endif
		return EXIT_USAGE;
	}
	if (r < 0) {
		say("%s", err.message);
		return EXIT_USAGE;
	}
	debug_say("executing '%s'", path);
	if (realpath("/proc/self/exe", self) && setenv(SUBPROGRAM_MARK, self, 1) == 0)
		execv(path, argv);
	say("cannot start '%s': %s", path, error_words(errno));
	return EXIT_WORK_FAILED;
}

int subprogram_enter(const char *command)
{
	const char *mark = getenv(SUBPROGRAM_MARK);
	if (!mark || strlen(mark) >= sizeof(gpuq_path)) {
		say("this program is part of gpuq; run '%s'", command);
		return EXIT_USAGE;
	}
	strcpy(gpuq_path, mark);
	unsetenv(SUBPROGRAM_MARK);
	return 0;
}

const char *subprogram_gpuq(void)
{
	return gpuq_path;
}
