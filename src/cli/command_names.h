/* SPDX-License-Identifier: MIT */
/* Names known from other programs: aliases, which work, and words for which the error message suggests the right
 * command. */
#ifndef CLI_COMMAND_NAMES_H
#define CLI_COMMAND_NAMES_H

/* The command of an alias: "status" for "ls". NULL: not an alias. */
const char *command_names_alias(const char *word);

/* The command that a word such as "submit" or "squeue" means. NULL: unknown. */
const char *command_names_meaning(const char *word);

#endif
