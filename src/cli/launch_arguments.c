/* SPDX-License-Identifier: MIT */
#include "cli/launch_arguments.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/display.h"
#include "base/suggest.h"
#include "cli/arguments.h"
#include "cli/launch_options.h"
#include "cli/summary_file.h"

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
	arguments_error(state, "--balance '%s': expected longest-first, size, round-robin or none%s%s%s", text,
		meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
}

static error_t parse_slurm(int key, char *value, struct argp_state *state)
{
	struct launch_arguments *a = state->input;
	struct launch_slurm_options *s = &a->slurm;
	switch (key) {
	case LAUNCH_OPTION_SLURM:
		if (s->num_kinds == LAUNCH_SLURM_KINDS)
			argp_error(state, "--slurm can be given at most %d times", LAUNCH_SLURM_KINDS);
		s->kinds[s->num_kinds++] = value;
		return 0;
	case LAUNCH_OPTION_MAX_NODES:
		s->max_nodes = (unsigned)pool_arguments_number("--max-nodes", value, 1, 1000, state);
		return 0;
	case LAUNCH_OPTION_SLURM_SILENCE:
		s->silence = value;
		return 0;
	case LAUNCH_OPTION_SLURM_LEASE:
		s->lease = value;
		return 0;
	case LAUNCH_OPTION_SLURM_ADDRESS:
		s->address = value;
		return 0;
	default:
		return pool_arguments_parse(&a->pool, key, value, state);
	}
}

/* Checks which options can be combined with --slurm, or need it. */
static void check_slurm(struct launch_arguments *a, struct argp_state *state)
{
	const struct {
		bool given;
		const char *words;
	} refused[] = {
		{a->pool.gpus != NULL, "--gpus cannot be used with --slurm: ask for GPUs with --slurm '--gres=gpu:4'"},
		{a->pool.workers_per_gpu > 1, "--workers-per-gpu cannot be used with --slurm: each GPU has one worker"},
		{a->options.watch,
			"--watch cannot be used with --slurm: nodes would stay allocated while there are no files"},
		{a->options.setup_concurrency > 0, "--setup-concurrency cannot be used with --slurm"},
		{a->options.balance == GD_BALANCE_ROUND_ROBIN,
			"--balance round-robin cannot be used with --slurm: the GPUs are not known in advance"},
	};
	struct gd_error err = {0};
	if (a->slurm.num_kinds == 0) {
		if (a->slurm.max_nodes || a->slurm.silence || a->slurm.lease || a->slurm.address)
			argp_error(state,
				"--max-nodes and --slurm-… need --slurm with the options for sbatch, as in --slurm '--gres=gpu:1'");
		return;
	}
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		if (refused[i].given)
			arguments_error(state, "%s", refused[i].words);
	if (launch_slurm_check(&a->slurm, &err) < 0)
		arguments_error(state, "%s", err.message);
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
		return parse_slurm(key, value, state);
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
		/* The shell expands an unquoted pattern to names of files, and none of them may become the program. */
		if (!state->quoted)
			arguments_error(state,
				"unexpected argument '%s'; quote patterns, and write -- before the command", value);
		/* The command takes all remaining words, including options. */
		o->command = (const char *const *)&state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		pool_arguments_take_settings(&a->pool, state);
		/* {language} in a command needs a value; recognizers accept "auto". */
		if (o->command && !pool_arguments_has(&a->pool, "language"))
			pool_arguments_set(&a->pool, "language", "auto", state);
		if (!o->input_dir && !a->list_workers)
			argp_error(state, "no input folder given; use --input-dir DIR");
		if (summary_file_is_standard(a->pool.json))
			pool_arguments_check_stdout("--json", state);
		if (a->dry_run && a->pool.json)
			argp_error(state, "--json and --dry-run cannot be combined: a dry run has no summary");
		if (a->dry_run && o->watch)
			argp_error(state, "--watch and --dry-run cannot be combined");
		check_slurm(a, state);
		return 0;
	default:
		return parse_worker(key, value, state);
	}
}

static const struct argp argp = {
	.options = launch_options,
	.parser = parse_option,
	.args_doc = LAUNCH_ARGS_DOC,
	.doc = "Process a folder of files on all GPUs: one worker per GPU, the longest file first, "
	       "a summary at the end."
	       "\vRuns COMMAND for each file, without a shell. COMMAND can contain {file} (the file), {name} (its name), {stem} "
	       "(its name without the extension), {dir} (its folder), {output} (the folder for its results), {gpu}, "
	       "{seed}, {model_size}, {language} and {KEY} for each KEY given with --set, as in\n"
	       "\n"
	       "  gpuq launch --input-dir audio -- flac -o {output}/{stem}.flac {file}\n"
	       "\n"
	       "Files that an earlier run has finished (same size, time, worker and settings) are skipped, so the same command "
	       "continues an interrupted run. In the output folder, launch.jsonl records finished files, and launch.logs "
	       "has the output of the workers.\n"
	       "\n"
	       "Ctrl-C stops after the running files; a second Ctrl-C cancels them.\n"
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
	arguments_parse(&argp, argc, argv, ARGP_IN_ORDER, a);
	o->plugin = a->worker;
	o->program = (const char *const *)pool->program;
	o->gpus = a->slurm.num_kinds ? a->slurm.gpus : pool->gpus;
	o->workers_per_gpu = pool->workers_per_gpu;
	o->task_timeout_ms = pool->timeout_ms;
	o->retries = pool->retries;
	o->max_failures = pool->max_failures;
	o->settings = pool->settings;
	o->num_settings = pool->num_settings;
	o->trust_output_dir = pool->trust;
	o->trust_input = pool->trust;
}

void launch_arguments_finish(struct launch_arguments *a)
{
	pool_arguments_finish(&a->pool);
	free(a->patterns);
}
