/* SPDX-License-Identifier: MIT */
/* The options of gpuq launch: gpuq-launch parses them, gpuq completes them. */
#ifndef CLI_LAUNCH_OPTIONS_H
#define CLI_LAUNCH_OPTIONS_H

#include <argp.h>

enum {
	LAUNCH_OPTION_INPUT = 256,
	LAUNCH_OPTION_OUTPUT,
	LAUNCH_OPTION_PATTERN,
	LAUNCH_OPTION_MODEL_SIZE,
	LAUNCH_OPTION_LANGUAGE,
	LAUNCH_OPTION_BALANCE,
	LAUNCH_OPTION_SETUP_CONCURRENCY,
	LAUNCH_OPTION_FORCE,
	LAUNCH_OPTION_DRY_RUN,
	LAUNCH_OPTION_WORKER,
	LAUNCH_OPTION_LIST_WORKERS,
	LAUNCH_OPTION_WATCH,
};

#define LAUNCH_ARGS_DOC "--input-dir DIR [-- COMMAND [ARG…]]"

extern const struct argp_option launch_options[];

#endif
