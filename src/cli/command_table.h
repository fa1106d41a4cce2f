/* SPDX-License-Identifier: MIT */
/* The commands of gpuq, in the order of 'gpuq help --all'. */
#ifndef CLI_COMMAND_TABLE_H
#define CLI_COMMAND_TABLE_H

#include "cli/command.h"

#define COMMAND_TABLE_SIZE 29
extern const struct command *const command_table[COMMAND_TABLE_SIZE];

/* Finds a command by its name or alias; NULL: unknown command. */
const struct command *command_table_find(const char *name);

#endif
