/* SPDX-License-Identifier: MIT */
#include "cli/command.h"
#include "cli/control_command.h"

static int main_release(int argc, char **argv)
{
	return control_command_main(
		argc, argv, EVENT_RELEASE, "released", NULL, "Release held jobs, so that they can start.");
}

const struct command cmd_release = {"release", "Release held jobs", main_release, 1u << JOB_HELD};
