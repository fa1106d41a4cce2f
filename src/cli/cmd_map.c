/* SPDX-License-Identifier: MIT */
/* gpuq map: a separate program, which links no more than it needs. */
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/error.h"
#include "base/helper.h"
#include "cli/command.h"
#include "cli/debug.h"
#include "cli/exit_code.h"
#include "cli/map_options.h"
#include "cli/say.h"

static int run(int argc, char **argv)
{
	static const struct argp argp = {.options = map_options, .args_doc = MAP_ARGS_DOC};
	command_show(&argp, argc, argv);
	char program[PATH_MAX];
	struct gd_error err = {0};
	int r = helper_find("gpuq-map", "GPUQ_MAP", program, sizeof(program), &err);
	if (r < 0) {
		say("%s", err.message);
		return EXIT_USAGE;
	}
	debug_say("executing '%s'", program);
	execv(program, argv);
	say("cannot execute '%s': %s", program, error_words(errno));
	return EXIT_WORK_FAILED;
}

const struct command cmd_map = {"map", "Process a file of items on all GPUs", run};
