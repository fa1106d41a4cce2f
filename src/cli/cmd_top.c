/* SPDX-License-Identifier: MIT */
/* gpuq top: a program of its own, for it links ncurses. */
#include "cli/command.h"
#include "cli/subprogram.h"

static int main_top(int argc, char **argv)
{
	(void)argc;
	return subprogram_become("gpuq-top", "ncursesw (Debian: libncurses-dev)", argv);
}

const struct command cmd_top = {"top", "Watch GPUs and jobs, full screen", main_top};
