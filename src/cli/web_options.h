/* SPDX-License-Identifier: MIT */
/* The options of gpuq web: gpuq-web parses them, gpuq completes them. */
#ifndef CLI_WEB_OPTIONS_H
#define CLI_WEB_OPTIONS_H

#include <argp.h>

enum {
	WEB_OPTION_GPUS = 0x200,
	WEB_OPTION_LISTEN,
	WEB_OPTION_OPEN_READ,
	WEB_OPTION_HOST,
	WEB_OPTION_LOG_DIR,
	WEB_OPTION_ALL
};

extern const struct argp_option web_options[];

#endif
