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

/* `limit_ms`: how long loading it may take. */
int plugin_inspect(const char *path, int limit_ms, struct plugin_facts *ret, struct gd_error *err);

/* ---- For gpuq-worker ---- */

#define PLUGIN_REPORT_FD 3

/* Between programs of the same version; a report of another size is refused. */
struct plugin_report {
	size_t size;
	int code; /* 0, or why it cannot be used */
	char words[400];
	struct plugin_facts facts;
};

#endif
