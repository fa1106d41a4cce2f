/* SPDX-License-Identifier: MIT */
/* Loads a plug-in into this process, which is gpuq-worker. */
#ifndef LAUNCH_PLUGIN_LOAD_H
#define LAUNCH_PLUGIN_LOAD_H

#include "gpu_dispatch_launch.h"

/* Returns the hooks, which stay loaded, and the plug-in itself in *ret_plugin; ret_plugin may be NULL. */
int plugin_load(const char *path, struct gd_worker_ops *ret, struct gd_plugin *ret_plugin, struct gd_error *err);

/* Loads a plug-in and sends a struct plugin_report to the process that called plugin_inspect(). */
_Noreturn void plugin_report_main(const char *path);

#endif
