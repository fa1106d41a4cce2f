/* SPDX-License-Identifier: MIT */
/* gpuq web: executes gpuq-web, which links what gpuq does not. */
#include "cli/command.h"
#include "cli/subprogram.h"

static int main_web(int argc, char **argv)
{
	(void)argc;
	return subprogram_become("gpuq-web", "libmicrohttpd", argv);
}

const struct command cmd_web = {"web", "Show the queue as a page in a browser", main_web};
