/* SPDX-License-Identifier: MIT */
/* gpuq launch: a separate program, because it links libraries that read audio files. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/helper.h"
#include "cli/command.h"
#include "cli/debug.h"
#include "cli/exit_code.h"
#include "cli/launch_options.h"
#include "cli/say.h"

static int run(int argc, char **argv)
{
	static const struct argp argp = {.options = launch_options, .args_doc = LAUNCH_ARGS_DOC};
	command_show(&argp, argc, argv);
	char program[PATH_MAX];
	struct gd_error err = {0};
	int r = helper_find("gpuq-launch", "GPUQ_LAUNCH", program, sizeof(program), &err);
	if (r < 0) {
		say("%s", err.message);
		return EXIT_USAGE;
	}
	debug_say("executing '%s'", program);
	execv(program, argv);
	say("cannot execute '%s': %s", program, strerror(errno));
	return EXIT_WORK_FAILED;
}

const struct command cmd_launch = {"launch", "Process a folder of files on all GPUs", run};
