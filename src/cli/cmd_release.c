/* SPDX-License-Identifier: MIT */
#include "cli/command.h"
#include "cli/control_command.h"

static int main_release(int argc, char **argv)
{
	return control_command_main(argc, argv, EVENT_RELEASE, "released", NULL, "Let held jobs start again.");
}

const struct command cmd_release = {"release", "Let held jobs start again", main_release, 1u << JOB_HELD};
