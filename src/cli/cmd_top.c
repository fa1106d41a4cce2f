/* SPDX-License-Identifier: MIT */
/* gpuq top: a separate program, because it links ncurses. */
#include "cli/command.h"
#include "cli/queue_choice.h"
#include "cli/subprogram.h"
#include "cli/top_options.h"

static int main_top(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {.options = top_options, .children = children};
	command_show(&argp, argc, argv);
	return subprogram_become("gpuq-top", "ncursesw (Debian: libncurses-dev)", argv);
}

const struct command cmd_top = {"top", "Watch GPUs and jobs, full screen", main_top};
