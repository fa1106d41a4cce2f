/* SPDX-License-Identifier: MIT */
/* The common body of cancel, hold, release, retry and urgent: appends the same event for each of several jobs. */
#ifndef CLI_CONTROL_COMMAND_H
#define CLI_CONTROL_COMMAND_H

#include <argp.h>

#include "queue/journal/record.h"

/* Keys of the options that a command may offer. */
enum {
	CONTROL_COMMAND_FAILED = 0x200, /* all jobs that have failed */
	CONTROL_COMMAND_CANCELLED,      /* all jobs that were cancelled */
	CONTROL_COMMAND_ALL,            /* all jobs that have not ended */
};

/*
 * The whole command: parses, appends the events, prints one line about the result, returns the exit code.
 * done: "cancelled". options: its own options, or NULL.
 */
int control_command_main(
	int argc, char **argv, enum event event, const char *done, const struct argp_option *options, const char *doc);

#endif
