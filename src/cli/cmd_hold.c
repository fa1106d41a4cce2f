/* SPDX-License-Identifier: MIT */
#include "cli/command.h"
#include "cli/control_command.h"

static const struct argp_option options[] = {
	{"all", CONTROL_COMMAND_ALL, 0, 0, "Hold all pending jobs", 1},
	{0},
};

static int main_hold(int argc, char **argv)
{
	return control_command_main(
		argc, argv, EVENT_HOLD, "held", options, "Keep pending jobs from starting until 'gpuq release'.");
}

const struct command cmd_hold = {"hold", "Keep pending jobs from starting", main_hold, 1u << JOB_PENDING};
