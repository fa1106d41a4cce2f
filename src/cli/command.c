/* SPDX-License-Identifier: MIT */
#include "cli/command.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "cli/exit_code.h"
#include "cli/say.h"

void command_parse(const struct argp *argp, int argc, char **argv, void *input)
{
	error_t e = argp_parse(argp, argc, argv, 0, NULL, input);
	if (e) {
		say("reading the command line: %s", error_words(e));
		exit(EXIT_USAGE);
	}
}

int command_fail(const struct gd_error *err, int code)
{
	say_error(err);
	switch (code) {
	case -EINVAL:
	case -ENODEV:
	case -ENOENT:
	case -EISDIR:
	case -EPERM:
	case -ENOTDIR:
		return EXIT_USAGE;
	default:
		return EXIT_WORK_FAILED;
	}
}
