/* SPDX-License-Identifier: MIT */
/* The command line of gpuq-map. */
#ifndef CLI_MAP_ARGUMENTS_H
#define CLI_MAP_ARGUMENTS_H

#include <stdbool.h>

#include "cli/pool_arguments.h"
#include "launch/map.h"

struct map_arguments {
	struct map_options options;
	struct pool_arguments pool;
	bool takes_stdout; /* standard output is used for the output, the errors or the summary */
};

/* Ends the program with a usage message if the arguments are invalid. */
void map_arguments_parse(struct map_arguments *a, int argc, char **argv);
void map_arguments_finish(struct map_arguments *a);

#endif
