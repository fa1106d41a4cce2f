/* SPDX-License-Identifier: MIT */
/*
 * What works on a file: a command per file, a persistent program, or a plug-in.
 *
 * All three are hooks of the pool, run in forked workers that see this struct
 * as it was when the pool was opened. The launching process itself never loads a
 * plug-in: its constructors may start CUDA.
 */
#ifndef LAUNCH_WORKER_H
#define LAUNCH_WORKER_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch_launch.h"

enum launch_kind {
	LAUNCH_TEMPLATE = 1, /* argv, run per file, with {file} and so on filled in */
	LAUNCH_PROGRAM,      /* argv, started once per worker, speaks docs/worker-protocol.md */
	LAUNCH_PLUGIN,       /* a shared object that exports `gd_worker` */
};

/* Strings stay the caller's, and must live as long as the run. */
struct launch_worker {
	enum launch_kind kind;
	const char *const *argv; /* of a template or a program; NULL at the end */
	const char *plugin;      /* path */
	const struct gd_setting *settings;
	size_t num_settings;
	int64_t ready_timeout_ms; /* of a program, for its "ready"; 0: none */
};

/*
 * Everything that can be found wrong before a file is touched: no such program, an
 * unknown {word} in the template (named, with those there are), a plug-in that
 * does not load or exports nothing (looked at in a throw-away child). -EINVAL or
 * another negative errno value, with the words.
 */
int launch_worker_check(const struct launch_worker *worker, struct gd_error *err);

/* The hooks for `worker`, for gd_options.worker; one run at a time. */
const struct gd_worker_ops *launch_worker_ops(const struct launch_worker *worker);

/*
 * What a command line stands for, as one string: its words where it has none of the
 * shell's special characters, else /bin/sh -c with it. One allocation, release with
 * free(). -EINVAL where it is empty.
 */
int launch_command_argv(const char *command, char ***ret);

#endif
