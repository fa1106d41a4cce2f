/* SPDX-License-Identifier: MIT */
/* The options of gpuq top: gpuq-top parses them, gpuq completes them. */
#ifndef CLI_TOP_OPTIONS_H
#define CLI_TOP_OPTIONS_H

#include <argp.h>

enum { TOP_OPTION_GPUS = 0x200, TOP_OPTION_ALL };

extern const struct argp_option top_options[];

#endif
