/* SPDX-License-Identifier: MIT */
/*
 * Finds out what a plug-in offers without loading it into this process: its
 * constructors may start CUDA, crash, hang or exit. `gpuq-worker --inspect` loads it
 * and sends a report through a pipe.
 */
#ifndef LAUNCH_PLUGIN_INSPECT_H
#define LAUNCH_PLUGIN_INSPECT_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch_launch.h"

struct plugin_facts {
	bool has_batch;
	size_t max_batch;
	char about[200]; /* its description of itself, printable; "" if it has none */
};

/* Settings for the plug-in to check; NULL: only describe the plug-in. */
struct plugin_settings {
	const struct gd_setting *list; /* strings */
	size_t count;
};

/* `limit_ms`: time limit for loading it and for its check. */
int plugin_inspect(const char *path, const struct plugin_settings *settings, int limit_ms, struct plugin_facts *ret,
	struct gd_error *err);

/* ---- For gpuq-worker ---- */

#define PLUGIN_REPORT_FD 3

/*
 * Standard input is the settings: key and value of each, with their NULs; at least one byte, a NUL if there is no
 * setting. Empty: the plug-in's check is not called.
 */

/* Between programs of the same version; a report of another size is refused. */
struct plugin_report {
	size_t size;
	int code;        /* 0, or why it cannot be used */
	char words[508]; /* as in struct gd_error */
	struct plugin_facts facts;
};

#endif
