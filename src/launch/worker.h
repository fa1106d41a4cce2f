/* SPDX-License-Identifier: MIT */
/*
 * The worker that processes files: a command per file, a persistent program, or a plug-in.
 *
 * All three run in gpuq-worker, a helper program that the pool executes: the
 * launching program may have threads, and never loads a plug-in, whose constructors
 * may start CUDA.
 */
#ifndef LAUNCH_WORKER_H
#define LAUNCH_WORKER_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch_launch.h"

enum launch_kind {
	LAUNCH_TEMPLATE = 1, /* argv, run per file, with {file} and so on filled in */
	LAUNCH_PROGRAM,      /* argv, started once per worker, speaks docs/worker-protocol.md */
	LAUNCH_ITEMS,        /* the same program, for the items of gpuq map */
	LAUNCH_PLUGIN,       /* a shared object that exports gd_plugin_get() */
	LAUNCH_ARGV,         /* argv, a program that calls gd_worker_main() with hooks for files */
};

/* Strings are borrowed and must outlive the run. */
struct launch_worker {
	enum launch_kind kind;
	const char *const *argv;           /* NULL at the end */
	const char *plugin;                /* path */
	const struct gd_setting *settings; /* strings */
	size_t num_settings;
	int64_t ready_timeout_ms; /* for the "ready" of a program; 0: no limit */
	size_t in_flight;         /* for items: messages that the program has at a time */
};

/*
 * Checks everything before a file is touched: a missing program, an unknown {word} in the template, a plug-in that
 * cannot be loaded or exports nothing, a missing gpuq-worker. A negative errno value with the message.
 */
int launch_worker_check(const struct launch_worker *worker, struct gd_error *err);

/*
 * The command line of the worker, for gd_options.worker_argv. One allocation, release with free(). is_local: workers
 * run on this machine, so they can check whether a plug-in still belongs to this user; paths of other machines may
 * contain links.
 */
int launch_worker_argv(const struct launch_worker *worker, bool is_local, char ***ret, struct gd_error *err);

/*
 * The arguments of a command line given as one string: its words if it has no special characters of the shell,
 * otherwise /bin/sh -c with it. One allocation, release with free(). -EINVAL if it is empty.
 */
int launch_command_argv(const char *command, char ***ret);

#endif
