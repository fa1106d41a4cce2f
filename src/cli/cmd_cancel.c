/* SPDX-License-Identifier: MIT */
#include "cli/command.h"
#include "cli/control_command.h"

static const struct argp_option options[] = {
	{"all", CONTROL_COMMAND_ALL, 0, 0, "Cancel all jobs that have not ended", 1},
	{0},
};

static int main_cancel(int argc, char **argv)
{
	return control_command_main(argc, argv, EVENT_CANCEL, "cancelled", options,
		"Cancel jobs. A running job is ended with all its processes.");
}

const struct command cmd_cancel = {"cancel", "Cancel jobs", main_cancel,
	1u << JOB_PENDING | 1u << JOB_HELD | 1u << JOB_RUNNING | 1u << JOB_UNKNOWN};
