/* SPDX-License-Identifier: MIT */
#include "cli/top_options.h"

const struct argp_option top_options[] = {
	{"all", TOP_OPTION_ALL, 0, 0, "Show all your queues on this machine ('gpuq queues' lists them)", 1},
	{"gpus", TOP_OPTION_GPUS, "SPEC", 0, "Which GPUs to show (those of the runner; with --all: all)", 1},
	{0},
};
