/* SPDX-License-Identifier: MIT */
/* What cancel, hold, release, retry and urgent share: they append the same event for each of several jobs. */
#ifndef CLI_CONTROL_H
#define CLI_CONTROL_H

#include <argp.h>

#include "queue/journal/record.h"

/* Keys of the options that a command may offer. */
enum {
	CONTROL_OPTION_FAILED = 0x200, /* all jobs that have failed */
	CONTROL_OPTION_ALL,            /* all jobs that have not ended */
};

/* The whole command: parses, appends the events, returns the exit code. options: its own, or NULL. */
int control_main(int argc, char **argv, enum event event, const struct argp_option *options, const char *doc);

#endif
