/* SPDX-License-Identifier: MIT */
/*
 * A look at a plug-in from outside: it is loaded in a throw-away child, for its
 * constructors may start CUDA, crash, hang or leave.
 */
#ifndef LAUNCH_PLUGIN_H
#define LAUNCH_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch.h"

#define PLUGIN_SYMBOL "gd_worker"
#define PLUGIN_ABOUT  "gd_worker_about"

struct plugin_look {
	bool has_batch;
	size_t max_batch;
	bool has_cleanup;
	char about[200]; /* printable; "" where it says nothing */
};

/* `path` has a slash in it. The child has limit_ms to load it. */
int plugin_look(const char *path, int limit_ms, struct plugin_look *ret, struct gd_error *err);

/* Loads it, in this process; for workers. The words of dlerror() into err. */
int plugin_load(const char *path, const struct gd_worker_ops **ret, struct gd_error *err);

#endif
