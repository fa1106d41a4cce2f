/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "cli/command.h"
#include "cli/exec_parts.h"
#include "cli/exit_code.h"

static int main_shell(int argc, char **argv)
{
	static char interactive[] = "-i", default_shell[] = "/bin/sh";
	struct exec e = {.shell = true};
	argp_err_exit_status = EXIT_WAIT;
	command_parse(&exec_shell_argp, argc, argv, &e);
	char *shell = getenv("SHELL");
	char *words[] = {shell && *shell ? shell : default_shell, interactive, NULL};
	e.command = (struct command_words){words, 2};
	return exec_main(&e);
}

const struct command cmd_shell = {"shell", "Start a shell on a free GPU", main_shell};
