/* SPDX-License-Identifier: MIT */
#include "cli/launch_arguments.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/display.h"
#include "base/suggest.h"
#include "cli/launch_options.h"

static void add_pattern(struct launch_arguments *a, const char *value, struct argp_state *state)
{
	size_t n = a->options.num_patterns;
	if (array_reserve(a->patterns, &a->patterns_capacity, n + 1) < 0)
		argp_failure(state, 1, ENOMEM, "--pattern");
	a->patterns[n] = value;
	a->options.patterns = a->patterns;
	a->options.num_patterns = n + 1;
}

static void set_balance(struct launch_arguments *a, const char *text, struct argp_state *state)
{
	static const char *const words[] = {"longest-first", "size", "round-robin", "none"};
	if (gd_balance_parse(text, &a->options.balance) == 0)
		return;
	const char *meant = suggest(text, words, sizeof(words) / sizeof(*words));
	argp_error(state, "--balance '%s': expected longest-first, size, round-robin or none%s%s%s", text,
		meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
}

static error_t parse_worker(int key, char *value, struct argp_state *state)
{
	struct launch_arguments *a = state->input;
	switch (key) {
	case LAUNCH_OPTION_WORKER:
		a->worker = value;
		return 0;
	case LAUNCH_OPTION_LIST_WORKERS:
		a->list_workers = true;
		return 0;
	case LAUNCH_OPTION_MODEL_SIZE:
		pool_arguments_set(&a->pool, "model_size", value, state);
		return 0;
	case LAUNCH_OPTION_LANGUAGE:
		pool_arguments_set(&a->pool, "language", value, state);
		return 0;
	case LAUNCH_OPTION_SETUP_CONCURRENCY:
		a->options.setup_concurrency =
			(int)pool_arguments_number("--setup-concurrency", value, 1, 1000000, state);
		return 0;
	case LAUNCH_OPTION_BALANCE:
		set_balance(a, value, state);
		return 0;
	default:
		return pool_arguments_parse(&a->pool, key, value, state);
	}
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
	struct launch_arguments *a = state->input;
	struct gd_launch_options *o = &a->options;
	switch (key) {
	case LAUNCH_OPTION_INPUT:
		o->input_dir = value;
		return 0;
	case LAUNCH_OPTION_OUTPUT:
		o->output_dir = value;
		return 0;
	case LAUNCH_OPTION_PATTERN:
		add_pattern(a, value, state);
		return 0;
	case 'r':
		o->recursive = 1;
		return 0;
	case LAUNCH_OPTION_FORCE:
		o->force = 1;
		return 0;
	case LAUNCH_OPTION_WATCH:
		o->watch = 1;
		return 0;
	case LAUNCH_OPTION_DRY_RUN:
		a->dry_run = true;
		return 0;
	case ARGP_KEY_ARG:
		/* The command takes all remaining words, including options. */
		o->command = (const char *const *)&state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		/* A command with {language} needs a value there; recognizers know "auto". */
		if (o->command && !pool_arguments_has(&a->pool, "language"))
			pool_arguments_set(&a->pool, "language", "auto", state);
		if (!o->input_dir && !a->list_workers)
			argp_error(state, "no folder was given: --input-dir DIR says where the files are");
		if (a->dry_run && a->pool.json)
			argp_error(state,
				"--json is the summary of a run, and --dry-run makes none: leave one of them out");
		if (a->dry_run && o->watch)
			argp_error(state,
				"--watch waits for new files, and --dry-run does nothing: leave one of them out");
		return 0;
	default:
		return parse_worker(key, value, state);
	}
}

static const struct argp argp = {
	.options = launch_options,
	.parser = parse_option,
	.args_doc = LAUNCH_ARGS_DOC,
	.doc = "Process a folder of files with all GPUs: one worker per GPU, the longest file first, "
	       "a summary at the end."
	       "\vCOMMAND is run for each file, without a shell. In its words {file} is the file, {name} its name, {stem} "
	       "that without the extension, {dir} its folder, {output} the folder for its results; {gpu}, {seed}, "
	       "{model_size}, {language} and each KEY of --set are there, too:\n"
	       "\n"
	       "  gpuq launch --input-dir audio -- whisper-cli -m {model_size} -f {file} -of {output}/{stem}\n"
	       "\n"
	       "A file that is done (same size, time, worker and settings) is not done again: an interrupted run goes on "
	       "where it was. What is done stands in launch.jsonl in the output folder, what workers printed in "
	       "launch.logs there.\n"
	       "\n"
	       "Ctrl-C: files that are being worked on are finished, no new one begins. Once more: they are cancelled.\n"
	       "\n"
	       "Exit status: 0 all done or nothing to do, 1 some failed, 2 wrong usage, 130 interrupted.",
};

void launch_arguments_parse(struct launch_arguments *a, int argc, char **argv)
{
	struct gd_launch_options *o = &a->options;
	struct pool_arguments *pool = &a->pool;
	struct argp_state state = {0};
	*a = (struct launch_arguments){.options.size = sizeof(a->options), .options.output = GD_OUTPUT_FILES};
	pool_arguments_init(pool);
	pool_arguments_set(pool, "model_size", "base", &state);
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, a);
	o->plugin = a->worker;
	o->program = (const char *const *)pool->program;
	o->gpus = pool->gpus;
	o->workers_per_gpu = pool->workers_per_gpu;
	o->task_timeout_ms = pool->timeout_ms;
	o->retries = pool->retries;
	o->max_failures = pool->max_failures;
	o->settings = pool->settings;
	o->num_settings = pool->num_settings;
	o->trust_output_dir = pool->trust;
}

void launch_arguments_finish(struct launch_arguments *a)
{
	pool_arguments_finish(&a->pool);
	free(a->patterns);
}
