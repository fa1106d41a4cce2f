/* SPDX-License-Identifier: MIT */
#include "cli/command.h"
#include "cli/control_command.h"

static const struct argp_option options[] = {
	{"failed", CONTROL_COMMAND_FAILED, 0, 0, "Retry all failed jobs; with ids, only those of them that failed", 1},
	{"cancelled", CONTROL_COMMAND_CANCELLED, 0, 0,
		"Retry all cancelled jobs; with ids, only those of them that were cancelled", 1},
	{0},
};

static int main_retry(int argc, char **argv)
{
	return control_command_main(argc, argv, EVENT_RETRY, "requeued", options, "Queue finished jobs again.");
}

const struct command cmd_retry = {"retry", "Queue finished jobs again", main_retry,
	1u << JOB_COMPLETED | 1u << JOB_FAILED | 1u << JOB_CANCELLED | 1u << JOB_UNKNOWN};
