/* SPDX-License-Identifier: MIT */
/* Other names that people know from other programs: short forms, which work, and words that are answered with the right
 * command. */
#ifndef CLI_COMMAND_NAMES_H
#define CLI_COMMAND_NAMES_H

/* The command that a short form stands for: "status" for "ls". NULL: it is none. */
const char *command_names_alias(const char *word);

/* What somebody means who types "submit" or "squeue": the name of a command. NULL: no idea. */
const char *command_names_meaning(const char *word);

#endif
