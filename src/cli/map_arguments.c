/* SPDX-License-Identifier: MIT */
#include "cli/map_arguments.h"

#include <argp.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/named_file.h"
#include "cli/arguments.h"
#include "cli/map_options.h"
#include "cli/summary_file.h"

#define DEFAULT_IN_FLIGHT 4

static error_t parse_number(int key, char *value, struct argp_state *state)
{
	struct map_arguments *a = state->input;
	struct map_options *o = &a->options;
	switch (key) {
	case MAP_OPTION_BATCH:
		o->batch = (size_t)pool_arguments_number("--batch", value, 1, 65536, state);
		return 0;
	case MAP_OPTION_IN_FLIGHT:
		o->in_flight = (size_t)pool_arguments_number("--in-flight", value, 1, 64, state);
		return 0;
	default:
		return pool_arguments_parse(&a->pool, key, value, state);
	}
}

static void check(struct map_arguments *a, struct argp_state *state)
{
	const struct map_options *o = &a->options;
	if (!a->pool.program)
		argp_error(state,
			"no worker given; name the program that processes the items, as in --worker-command 'python3 infer.py'");
	if (strcmp(o->input, "-") == 0 && (isatty(STDIN_FILENO) || !file_is_passed(STDIN_FILENO)))
		argp_error(state, "standard input is %s; name the file with the items: --input FILE",
			file_is_passed(STDIN_FILENO) ? "a terminal" : "closed");
	int standard = summary_file_is_standard(o->output) + summary_file_is_standard(o->errors) +
		       summary_file_is_standard(a->pool.json);
	if (standard > 1)
		argp_error(state, "only one of --output, --errors and --json can be standard output");
	a->takes_stdout = standard > 0;
	if (a->takes_stdout)
		pool_arguments_check_stdout("--output", state);
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
	struct map_arguments *a = state->input;
	struct map_options *o = &a->options;
	switch (key) {
	case MAP_OPTION_INPUT:
		o->input = value;
		return 0;
	case MAP_OPTION_OUTPUT:
		o->output = named_file_is_stdout(value) ? "-" : value;
		return 0;
	case MAP_OPTION_ERRORS:
		o->errors = named_file_is_stdout(value) ? "-" : value;
		return 0;
	case MAP_OPTION_LINES:
		o->lines = true;
		return 0;
	case MAP_OPTION_ORDERED:
		o->ordered = true;
		return 0;
	case ARGP_KEY_ARG:
		arguments_error(state,
			"unexpected argument '%s'; quote the command: --worker-command 'python3 infer.py'", value);
		return 0;
	case ARGP_KEY_END:
		check(a, state);
		return 0;
	default:
		return parse_number(key, value, state);
	}
}

static const struct argp argp = {
	.options = map_options,
	.parser = parse_option,
	.args_doc = MAP_ARGS_DOC,
	.doc = "Process a file of items on all GPUs. One program per GPU is started once and receives the items in batches."
	       "\vEach item becomes one line of the output: {\"n\":LINE,\"item\":CHECK,\"result\":…} or "
	       "{\"n\":LINE,\"item\":CHECK,\"error\":REASON}. The same command continues an interrupted run: items "
	       "that have a result in the output are skipped, and failed items are retried.\n"
	       "\n"
	       "  gpuq map --input in.jsonl --output out.jsonl --worker-command ./infer.py\n"
	       "\n"
	       "gpuq-map(1) describes the files, docs/worker-protocol.md the messages of the program.\n"
	       "\n"
	       "Ctrl-C stops after the running messages; a second Ctrl-C cancels them.\n"
	       "\n"
	       "Exit status: 0 all done, 1 some failed or are left, 2 wrong usage, 130 interrupted.",
};

void map_arguments_parse(struct map_arguments *a, int argc, char **argv)
{
	struct map_options *o = &a->options;
	struct pool_arguments *pool = &a->pool;
	*a = (struct map_arguments){
		.options = {.input = "-", .output = "-", .batch = 1, .in_flight = DEFAULT_IN_FLIGHT}};
	pool_arguments_init(pool);
	pool->workers_per_gpu = 1;
	arguments_parse(&argp, argc, argv, 0, a);
	o->program = (const char *const *)pool->program;
	o->gpus = pool->gpus;
	o->workers_per_gpu = pool->workers_per_gpu;
	o->timeout_ms = pool->timeout_ms;
	o->retries = pool->retries;
	o->max_failures = pool->max_failures;
	o->settings = pool->settings;
	o->num_settings = pool->num_settings;
	o->trust = pool->trust;
}

void map_arguments_finish(struct map_arguments *a)
{
	pool_arguments_finish(&a->pool);
}
