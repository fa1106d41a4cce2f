/* SPDX-License-Identifier: MIT */
#include "cli/pool_arguments.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/named_file.h"
#include "base/trust.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "launch/worker.h"

#define SETTING_VARIABLE "GPUQ_LAUNCH_SET_"

void pool_arguments_prepare(char *name, char **argv)
{
	setlocale(LC_ALL, "");
	setlocale(LC_NUMERIC, "C"); /* numbers must be written so that programs can read them */
	argp_program_version = "gpuq " GD_VERSION;
	argp_err_exit_status = EXIT_USAGE;
	output_check_at_exit();
	argv[0] = name;
}

void pool_arguments_init(struct pool_arguments *a)
{
	*a = (struct pool_arguments){.trust = trust_is_off()};
}

/* ---- Settings ---------------------------------------------------------------- */

static size_t position_of(const struct pool_arguments *a, const char *key)
{
	size_t at = 0;
	while (at < a->num_settings && strcmp(a->settings[at].key, key) != 0)
		at++;
	return at;
}

bool pool_arguments_has(const struct pool_arguments *a, const char *key)
{
	return position_of(a, key) < a->num_settings;
}

void pool_arguments_set(struct pool_arguments *a, const char *key, const char *value, struct argp_state *state)
{
	size_t at = position_of(a, key);
	if (at == a->num_settings) {
		if (array_reserve(a->settings, &a->settings_capacity, at + 1) < 0)
			argp_failure(state, 1, ENOMEM, "--set");
		a->num_settings++;
	}
	a->settings[at] = (struct gd_setting){.key = key, .value = value};
}

static void add_setting(struct pool_arguments *a, const char *text, struct argp_state *state)
{
	const char *equals = strchr(text, '=');
	if (!equals || equals == text)
		arguments_error(state, "--set '%s': expected KEY=VALUE", text);
	char *key = strndup(text, (size_t)(equals - text));
	if (!key || array_reserve(a->owned, &a->owned_capacity, a->num_owned + 1) < 0)
		argp_failure(state, 1, ENOMEM, "--set");
	a->owned[a->num_owned++] = key;
	pool_arguments_set(a, key, equals + 1, state);
}

void pool_arguments_take_settings(struct pool_arguments *a, struct argp_state *state)
{
	for (unsigned n = 0;; n++) {
		char name[sizeof(SETTING_VARIABLE) + 16];
		snprintf(name, sizeof(name), SETTING_VARIABLE "%u", n);
		const char *value = getenv(name);
		if (!value)
			return;
		char *copy = strdup(value);
		if (!copy || array_reserve(a->owned, &a->owned_capacity, a->num_owned + 1) < 0)
			argp_failure(state, 1, ENOMEM, "%s", name);
		a->owned[a->num_owned++] = copy;
		add_setting(a, copy, state);
		unsetenv(name);
	}
}

void pool_arguments_check_stdout(const char *option, struct argp_state *state)
{
	if (!file_is_passed(STDOUT_FILENO))
		argp_error(state, "standard output is closed; name the file to write, as in %s FILE", option);
}

/* ---- Options ----------------------------------------------------------------- */

int64_t pool_arguments_number(const char *name, const char *text, int64_t min, int64_t max, struct argp_state *state)
{
	struct gd_error err;
	int64_t n = 0;
	if (units_parse_integer(text, min, max, &n, &err) < 0)
		arguments_error(state, "%s: %s", name, err.message);
	return n;
}

static int64_t get_duration(const char *name, const char *text, struct argp_state *state)
{
	struct gd_error err;
	uint64_t ms = 0;
	if (units_parse_duration(text, &ms, &err) < 0)
		arguments_error(state, "%s: %s", name, err.message);
	return (int64_t)ms;
}

static void split_command(struct pool_arguments *a, const char *command, struct argp_state *state)
{
	free(a->program);
	a->program = NULL;
	int r = launch_command_argv(command, &a->program);
	if (r == -EINVAL)
		argp_error(state, "--worker-command: empty command");
	if (r < 0)
		argp_failure(state, EXIT_WORK_FAILED, -r, "--worker-command");
}

error_t pool_arguments_parse(struct pool_arguments *a, int key, char *value, struct argp_state *state)
{
	switch (key) {
	case POOL_OPTION_GPUS:
		a->gpus = value;
		return 0;
	case POOL_OPTION_WORKERS_PER_GPU:
		a->workers_per_gpu = (int)pool_arguments_number("--workers-per-gpu", value, 1, 1024, state);
		return 0;
	case POOL_OPTION_TIMEOUT:
		a->timeout_ms = get_duration("--timeout", value, state);
		return 0;
	case POOL_OPTION_RETRIES:
		a->retries = (int)pool_arguments_number("--retries", value, 0, 1000000, state);
		return 0;
	case POOL_OPTION_MAX_FAILURES:
		a->max_failures = (uint64_t)pool_arguments_number("--max-failures", value, 1, INT64_MAX, state);
		return 0;
	case POOL_OPTION_SET:
		add_setting(a, value, state);
		return 0;
	case POOL_OPTION_WORKER_COMMAND:
		split_command(a, value, state);
		return 0;
	case 'h':
		argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
		return 0;
	case POOL_OPTION_JSON:
		a->json = named_file_is_stdout(value) ? "-" : value;
		return 0;
	case POOL_OPTION_TRUST:
		a->trust = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void pool_arguments_finish(struct pool_arguments *a)
{
	for (size_t i = 0; i < a->num_owned; i++)
		free(a->owned[i]);
	free(a->owned);
	free(a->settings);
	free(a->program);
}
