/* SPDX-License-Identifier: MIT */
/* Searches for programs as the shell does, so that a missing one is reported before a job has waited for hours. */
#ifndef CLI_PROGRAM_SEARCH_H
#define CLI_PROGRAM_SEARCH_H

#include <stdbool.h>

/* Whether PATH contains an executable file with this name. */
bool program_search_in_path(const char *name);

/* The same, but a name with a slash is a file. */
bool program_search_finds(const char *name);

/* Whether this is a command of sh itself: "cd", "if", "{". */
bool program_search_is_builtin(const char *name);

#endif
