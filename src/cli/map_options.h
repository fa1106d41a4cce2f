/* SPDX-License-Identifier: MIT */
/* The options of gpuq map: gpuq-map parses them, gpuq completes them. */
#ifndef CLI_MAP_OPTIONS_H
#define CLI_MAP_OPTIONS_H

#include <argp.h>

enum {
	MAP_OPTION_INPUT = 256,
	MAP_OPTION_OUTPUT,
	MAP_OPTION_ERRORS,
	MAP_OPTION_LINES,
	MAP_OPTION_ORDERED,
	MAP_OPTION_BATCH,
	MAP_OPTION_IN_FLIGHT,
};

#define MAP_ARGS_DOC "[--input FILE] [--output FILE] --worker-command COMMAND"

extern const struct argp_option map_options[];

#endif
