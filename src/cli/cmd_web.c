/* SPDX-License-Identifier: MIT */
/* gpuq web: executes gpuq-web, which links libraries that gpuq does not. */
#include "cli/command.h"
#include "cli/queue_choice.h"
#include "cli/subprogram.h"
#include "cli/web_options.h"

static int main_web(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {.options = web_options, .children = children};
	command_show(&argp, argc, argv);
	return subprogram_become("gpuq-web", "libmicrohttpd", argv);
}

const struct command cmd_web = {"web", "Watch GPUs and jobs in a browser", main_web};
