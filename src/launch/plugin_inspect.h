/* SPDX-License-Identifier: MIT */
/*
 * Finds out what a plug-in offers without loading it into this process: its
 * constructors may start CUDA, crash, hang or exit, so a throw-away child loads it.
 */
#ifndef LAUNCH_PLUGIN_INSPECT_H
#define LAUNCH_PLUGIN_INSPECT_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch_launch.h"

#define PLUGIN_SYMBOL "gd_worker"
#define PLUGIN_ABOUT  "gd_worker_about"

struct plugin_facts {
	bool has_batch;
	size_t max_batch;
	bool has_cleanup;
	char about[200]; /* its description of itself, printable; "" if it has none */
};

/* `path` contains a slash, so that dlopen() does not search for it. The child has limit_ms to load it. */
int plugin_inspect(const char *path, int limit_ms, struct plugin_facts *ret, struct gd_error *err);

/* Loads it into this process; for workers. The message in err includes that of dlerror(). */
int plugin_load(const char *path, const struct gd_worker_ops **ret, struct gd_error *err);

#endif
