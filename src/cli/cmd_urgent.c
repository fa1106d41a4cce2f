/* SPDX-License-Identifier: MIT */
#include "cli/command.h"
#include "cli/control_command.h"

static int main_urgent(int argc, char **argv)
{
	return control_command_main(argc, argv, EVENT_URGENT, "prioritized", NULL,
		"Move pending and held jobs to the front of the queue. Held jobs stay held.");
}

const struct command cmd_urgent = {
	"urgent", "Move jobs to the front of the queue", main_urgent, 1u << JOB_PENDING | 1u << JOB_HELD};
