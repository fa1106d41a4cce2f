/* SPDX-License-Identifier: MIT */
/* A separate file: term.h has macros named lines, columns and others. */
#include <curses.h>
#include <term.h>
#include <unistd.h>

#include "cli/top_terminal.h"

bool top_terminal_is_known(const char *name)
{
	int status;
	if (setupterm(name, STDOUT_FILENO, &status) != OK)
		return false;
	bool moves = cursor_address != NULL;
	del_curterm(cur_term);
	return moves;
}
