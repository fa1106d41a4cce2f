/* SPDX-License-Identifier: MIT */
#include "cli/launch_arguments.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/display.h"
#include "base/suggest.h"

enum {
	OPTION_INPUT = 256,
	OPTION_OUTPUT,
	OPTION_PATTERN,
	OPTION_MODEL_SIZE,
	OPTION_LANGUAGE,
	OPTION_BALANCE,
	OPTION_SETUP_CONCURRENCY,
	OPTION_FORCE,
	OPTION_DRY_RUN,
	OPTION_WORKER,
	OPTION_LIST_WORKERS,
	OPTION_WATCH,
};

static const struct argp_option options[] = {
	{0, 0, NULL, 0, "Which files:", 1},
	{"input-dir", OPTION_INPUT, "DIR", 0, "Folder with the files; required", 0},
	{"pattern", OPTION_PATTERN, "GLOB", 0,
		"Process files whose names match; can be given several times (default: *.wav). Quote it: --pattern '*.mp3'",
		0},
	{"recursive", 'r', NULL, 0, "Search the folders below, too", 0},
	{"force", OPTION_FORCE, NULL, 0, "Process files again that an earlier run has done", 0},
	{"watch", OPTION_WATCH, NULL, 0,
		"Then wait for new files, and process each one when it is complete, until Ctrl-C", 0},

	{0, 0, NULL, 0, "Worker (one of --worker, --worker-command, COMMAND):", 2},
	{"worker", OPTION_WORKER, "NAME|FILE.so", 0,
		"Plug-in, by its name or as a file (default: the speech recognizer that is installed)", 0},
	{"worker-command", POOL_OPTION_WORKER_COMMAND, "COMMAND", 0,
		"Program that is started once per GPU and reads one file name after the other on its standard input, as a JSON object per line",
		0},
	{"list-workers", OPTION_LIST_WORKERS, NULL, 0, "List the plug-ins that are installed", 0},
	{"model-size", OPTION_MODEL_SIZE, "SIZE", 0, "The worker's setting model_size (default: base)", 0},
	{"language", OPTION_LANGUAGE, "LANG", 0,
		"The worker's setting language (default: none, and recognizers detect the language)", 0},
	POOL_ROW_SET,

	{0, 0, NULL, 0, "Output and GPUs:", 3},
	{"output-dir", OPTION_OUTPUT, "DIR", 0,
		"Folder for the results (default: data/outputs): those of a/b.wav go to DIR/a/b", 0},
	{"trust", POOL_OPTION_TRUST, NULL, 0, "Use an output folder that others can write ($GPUQ_TRUST=1)", 0},
	POOL_ROW_GPUS,
	POOL_ROW_WORKERS_PER_GPU,
	{"balance", OPTION_BALANCE, "ORDER", 0,
		"longest-first (default), size, round-robin or none: the order of files. A free GPU takes the next one; "
		"round-robin deals the files out to the GPUs in turn and processes each where it was dealt to",
		0},
	{"setup-concurrency", OPTION_SETUP_CONCURRENCY, "N", 0,
		"Load at most N models at the same time (default: all workers at once)", 0},

	{0, 0, NULL, 0, "Error handling:", 4},
	{"timeout", POOL_OPTION_TIMEOUT, "TIME", 0, "Time limit per file: 30s, 5m, 1h (default: none)", 0},
	{"retries", POOL_OPTION_RETRIES, "N", 0, "Retry a file that failed N times (default: 0)", 0},
	{"max-failures", POOL_OPTION_MAX_FAILURES, "N", 0,
		"Begin no new file after N have failed (default: no limit); files that run are finished", 0},

	{0, 0, NULL, 0, "Dry run and summary:", 5},
	{"dry-run", OPTION_DRY_RUN, NULL, 0,
		"Start nothing; show the files, their distribution and how long they will take", 0},
	POOL_ROW_JSON,
	POOL_ROW_HELP,
	{0},
};

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
	case OPTION_WORKER:
		a->worker = value;
		return 0;
	case OPTION_LIST_WORKERS:
		a->list_workers = true;
		return 0;
	case OPTION_MODEL_SIZE:
		pool_arguments_set(&a->pool, "model_size", value, state);
		return 0;
	case OPTION_LANGUAGE:
		pool_arguments_set(&a->pool, "language", value, state);
		return 0;
	case OPTION_SETUP_CONCURRENCY:
		a->options.setup_concurrency =
			(int)pool_arguments_number("--setup-concurrency", value, 1, 1000000, state);
		return 0;
	case OPTION_BALANCE:
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
	case OPTION_INPUT:
		o->input_dir = value;
		return 0;
	case OPTION_OUTPUT:
		o->output_dir = value;
		return 0;
	case OPTION_PATTERN:
		add_pattern(a, value, state);
		return 0;
	case 'r':
		o->recursive = 1;
		return 0;
	case OPTION_FORCE:
		o->force = 1;
		return 0;
	case OPTION_WATCH:
		o->watch = 1;
		return 0;
	case OPTION_DRY_RUN:
		a->dry_run = true;
		return 0;
	case ARGP_KEY_ARG:
		/* The command: all that is left is its words, options too. */
		o->command = (const char *const *)&state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		/* A command with {language} in it needs a word there; this is the one that recognizers know. */
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
	.options = options,
	.parser = parse_option,
	.args_doc = "--input-dir DIR [-- COMMAND [ARG…]]",
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
