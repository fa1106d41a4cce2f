/* SPDX-License-Identifier: MIT */
/*
 * The options that gpuq launch and gpuq map share. Each command has them in its own argp table, and copies the values
 * into its own options.
 */
#ifndef CLI_POOL_ARGUMENTS_H
#define CLI_POOL_ARGUMENTS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch.h"

/* Keys in the argp table. */
enum {
	POOL_OPTION_GPUS = 512,
	POOL_OPTION_WORKERS_PER_GPU,
	POOL_OPTION_TIMEOUT,
	POOL_OPTION_RETRIES,
	POOL_OPTION_MAX_FAILURES,
	POOL_OPTION_SET,
	POOL_OPTION_WORKER_COMMAND,
	POOL_OPTION_JSON,
	POOL_OPTION_TRUST,
};

/* Rows of the argp table that are the same in both commands. */
#define POOL_ROW_GPUS                                                                                                                           \
	{                                                                                                                                       \
		"gpus", POOL_OPTION_GPUS, "SPEC", 0,                                                                                            \
			"auto, all, 0,1,2, 0-3, GPU-uuid, MIG-uuid, or simulated ones: sim:4 (default: auto, which is $GPUQ_GPUS or else all)", \
			0                                                                                                                       \
	}
#define POOL_ROW_WORKERS_PER_GPU                                                                                       \
	{                                                                                                              \
		"workers-per-gpu", POOL_OPTION_WORKERS_PER_GPU, "N", 0, "Start N workers on each GPU (default: 1)", 0  \
	}
#define POOL_ROW_SET                                                                                                   \
	{                                                                                                              \
		"set", POOL_OPTION_SET, "KEY=VALUE", 0, "Setting of the worker; can be given several times", 0         \
	}
#define POOL_ROW_JSON                                                                                                  \
	{                                                                                                              \
		"json", POOL_OPTION_JSON, "FILE", 0,                                                                   \
			"Write the summary to this file as one JSON object; - is standard output", 0                   \
	}
#define POOL_ROW_HELP                                                                                                  \
	{                                                                                                              \
		0, 'h', NULL, OPTION_HIDDEN, NULL, 0                                                                   \
	}

struct pool_arguments {
	const char *gpus;
	int workers_per_gpu;
	int64_t timeout_ms;
	int retries;
	uint64_t max_failures;
	char **program;   /* the words of --worker-command; or NULL */
	const char *json; /* file, "-" or NULL */
	bool trust;
	struct gd_setting *settings;
	size_t num_settings, settings_capacity;
	char **owned; /* keys of settings, and texts of variables */
	size_t num_owned, owned_capacity;
};

/* The beginning of main(): the locale, --version, exit codes; `name` is the program name for messages. */
void pool_arguments_prepare(char *name, char **argv);
/* Takes trust from the environment; everything else is 0. */
void pool_arguments_init(struct pool_arguments *a);
/* Called by the command's argp parser. ARGP_ERR_UNKNOWN: not one of these options. Ends the program on a usage error.
 */
error_t pool_arguments_parse(struct pool_arguments *a, int key, char *value, struct argp_state *state);
/* Ends the program if standard output, which is to be written, is closed. option: names a file instead. */
void pool_arguments_check_stdout(const char *option, struct argp_state *state);
/* Replaces the setting of that key. Both strings are borrowed. */
void pool_arguments_set(struct pool_arguments *a, const char *key, const char *value, struct argp_state *state);
bool pool_arguments_has(const struct pool_arguments *a, const char *key);
/*
 * Sets and removes the settings KEY=VALUE in the variables GPUQ_LAUNCH_SET_0, GPUQ_LAUNCH_SET_1 and so on. Only this
 * user and root can read variables of a process, while all users can read its arguments.
 */
void pool_arguments_take_settings(struct pool_arguments *a, struct argp_state *state);
void pool_arguments_finish(struct pool_arguments *a);

/* The integer value of option `name`. Ends the program on a usage error. */
int64_t pool_arguments_number(const char *name, const char *text, int64_t min, int64_t max, struct argp_state *state);

#endif
