/* SPDX-License-Identifier: MIT */
/* gpuq slurm: a separate program, because it links nettle. */
#include "cli/command.h"
#include "cli/queue_choice.h"
#include "cli/slurm_options.h"
#include "cli/subprogram.h"

static int main_slurm(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {.options = slurm_options, .children = children};
	command_show(&argp, argc, argv);
	return subprogram_become("gpuq-slurm", "nettle (Debian: nettle-dev)", argv);
}

const struct command cmd_slurm = {"slurm", "Check a Slurm cluster with a tiny job", main_slurm};
