/* SPDX-License-Identifier: MIT */
#include "cli/web_options.h"

#include "view/web/web.h"

const struct argp_option web_options[] = {
	{"all", WEB_OPTION_ALL, 0, 0, "Show all your queues on this machine ('gpuq queues' lists them)", 1},
	{"listen", WEB_OPTION_LISTEN, "ADDRESS:PORT|unix:PATH", 0,
		"Address to listen on; port 0: any free port; unix:PATH: a socket that only you can use. Default: " WEB_LISTEN,
		1},
	{"host", WEB_OPTION_HOST, "HOST", 0, "A name of this machine that browsers may use; can be given several times",
		1},
	{"open-read", WEB_OPTION_OPEN_READ, 0, 0,
		"Let everybody read the page, but not change jobs or see environments", 1},
	{"gpus", WEB_OPTION_GPUS, "SPEC", 0, "Which GPUs to show; default: those of the runner; with --all: all", 1},
	{"log-dir", WEB_OPTION_LOG_DIR, "DIR", 0, "Folder in which logs may be read", 1},
	{0},
};
