/* SPDX-License-Identifier: MIT */
/* The command line of gpuq-launch. */
#ifndef CLI_LAUNCH_ARGUMENTS_H
#define CLI_LAUNCH_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch_launch.h"

struct launch_arguments {
	struct gd_launch_options options;
	const char *json;           /* file, "-" or NULL */
	const char *worker;         /* NAME or FILE.so, or NULL */
	const char *worker_command; /* or NULL */
	bool dry_run;
	bool list_workers;
	/* What the options point to. */
	const char **patterns;
	struct gd_setting *settings;
	size_t patterns_capacity, settings_capacity;
	char **owned; /* keys of settings, cut off their values */
	size_t num_owned, owned_capacity;
	char **program;
	char *plugin;
};

/* Ends the program with a usage message where the arguments make no sense. */
void launch_arguments_parse(struct launch_arguments *a, int argc, char **argv);
void launch_arguments_finish(struct launch_arguments *a);

#endif
