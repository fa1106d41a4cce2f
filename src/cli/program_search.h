/* SPDX-License-Identifier: MIT */
/* Programs as the shell finds them, before a job waits for hours to learn that there is none. */
#ifndef CLI_PROGRAM_SEARCH_H
#define CLI_PROGRAM_SEARCH_H

#include <stdbool.h>

/* Whether PATH has an executable file of this name. */
bool program_search_in_path(const char *name);

/* The same; a name with a slash is a file. */
bool program_search_finds(const char *name);

/* Whether sh itself has this command: "cd", "if", "{". */
bool program_search_is_builtin(const char *name);

#endif
