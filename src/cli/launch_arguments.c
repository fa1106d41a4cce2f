/* SPDX-License-Identifier: MIT */
#include "cli/launch_arguments.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/display.h"
#include "base/suggest.h"
#include "base/trust.h"
#include "base/units.h"

enum {
	OPTION_INPUT = 256,
	OPTION_OUTPUT,
	OPTION_GPUS,
	OPTION_PATTERN,
	OPTION_MODEL_SIZE,
	OPTION_LANGUAGE,
	OPTION_SET,
	OPTION_WORKERS_PER_GPU,
	OPTION_TIMEOUT,
	OPTION_RETRIES,
	OPTION_MAX_FAILURES,
	OPTION_BALANCE,
	OPTION_FORCE,
	OPTION_JSON,
	OPTION_DRY_RUN,
	OPTION_WORKER,
	OPTION_WORKER_COMMAND,
	OPTION_LIST_WORKERS,
	OPTION_TRUST,
};

static const struct argp_option options[] = {
	{0, 0, NULL, 0, "Which files:", 1},
	{"input-dir", OPTION_INPUT, "DIR", 0, "The folder with the files; must be given", 0},
	{"pattern", OPTION_PATTERN, "GLOB", 0,
		"Only files of such names; may be given several times (default: *.wav). Quote it: --pattern '*.mp3'",
		0},
	{"recursive", 'r', NULL, 0, "Also what is in the folders below", 0},
	{"force", OPTION_FORCE, NULL, 0, "Also files that an earlier run has done", 0},

	{0, 0, NULL, 0, "What is done with them (one of --worker, --worker-command, COMMAND):", 2},
	{"worker", OPTION_WORKER, "NAME|FILE.so", 0,
		"A plug-in, by its name or as a file; the default is the recogniser of speech that is installed", 0},
	{"worker-command", OPTION_WORKER_COMMAND, "COMMAND", 0,
		"A program that is started once per GPU and told of file after file on its standard input, a JSON object per line",
		0},
	{"list-workers", OPTION_LIST_WORKERS, NULL, 0, "List the plug-ins that are installed", 0},
	{"model-size", OPTION_MODEL_SIZE, "SIZE", 0, "For the worker: model_size (default: base)", 0},
	{"language", OPTION_LANGUAGE, "LANG", 0, "For the worker: language (default: en)", 0},
	{"set", OPTION_SET, "KEY=VALUE", 0, "For the worker: any other setting; may be given several times", 0},

	{0, 0, NULL, 0, "Where:", 3},
	{"output-dir", OPTION_OUTPUT, "DIR", 0,
		"Where results go (default: data/outputs): those of a/b.wav into DIR/a/b", 0},
	{"trust", OPTION_TRUST, NULL, 0, "Use an output folder that others can write ($GPUQ_TRUST=1)", 0},
	{"gpus", OPTION_GPUS, "SPEC", 0,
		"auto, all, 0,1,2, 0-3, GPU-uuid, MIG-uuid, or simulated ones: sim:4 (default: auto, which is $GPUQ_GPUS or else all)",
		0},
	{"workers-per-gpu", OPTION_WORKERS_PER_GPU, "N", 0, "So many at a time on each GPU (default: 1)", 0},
	{"balance", OPTION_BALANCE, "ORDER", 0,
		"longest-first (default), size, round-robin or none: in which order files are worked on. "
		"Whoever is free takes the next one",
		0},

	{0, 0, NULL, 0, "What may go wrong:", 4},
	{"timeout", OPTION_TIMEOUT, "TIME", 0, "Time for one file: 30s, 5m, 1h (default: no limit)", 0},
	{"retries", OPTION_RETRIES, "N", 0, "Try a file that failed N times more (default: 0)", 0},
	{"max-failures", OPTION_MAX_FAILURES, "N", 0, "Begin no new file after N have failed (default: no limit)", 0},

	{0, 0, NULL, 0, "What is told:", 5},
	{"dry-run", OPTION_DRY_RUN, NULL, 0,
		"Do nothing; say what there is, how it would be shared out, how long it will take", 0},
	{"json", OPTION_JSON, "FILE", 0, "Write the summary there as one JSON object; - is standard output", 0},
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

/* The last word on a setting counts. */
static void set_setting(struct launch_arguments *a, const char *key, const char *value, struct argp_state *state)
{
	size_t n = a->options.num_settings;
	size_t at = 0;
	while (at < n && strcmp(a->settings[at].key, key) != 0)
		at++;
	if (at == n) {
		if (array_reserve(a->settings, &a->settings_capacity, n + 1) < 0)
			argp_failure(state, 1, ENOMEM, "--set");
		a->options.settings = a->settings;
		a->options.num_settings = n + 1;
	}
	a->settings[at] = (struct gd_setting){.key = key, .value = value};
}

static void add_setting(struct launch_arguments *a, const char *text, struct argp_state *state)
{
	const char *equals = strchr(text, '=');
	if (!equals || equals == text)
		argp_error(state, "--set '%s': expected KEY=VALUE", text);
	char *key = strndup(text, (size_t)(equals - text));
	if (!key || array_reserve(a->owned, &a->owned_capacity, a->num_owned + 1) < 0)
		argp_failure(state, 1, ENOMEM, "--set");
	a->owned[a->num_owned++] = key;
	set_setting(a, key, equals + 1, state);
}

static int64_t get_number(const char *name, const char *text, int64_t min, int64_t max, struct argp_state *state)
{
	struct gd_error err;
	int64_t n = 0;
	if (units_parse_integer(text, min, max, &n, &err) < 0)
		argp_error(state, "%s: %s", name, err.message);
	return n;
}

static int64_t get_duration(const char *name, const char *text, struct argp_state *state)
{
	struct gd_error err;
	uint64_t ms = 0;
	if (units_parse_duration(text, &ms, &err) < 0)
		argp_error(state, "%s: %s", name, err.message);
	return (int64_t)ms;
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

static error_t parse_limits(int key, char *value, struct argp_state *state)
{
	struct launch_arguments *a = state->input;
	struct gd_launch_options *o = &a->options;
	switch (key) {
	case OPTION_WORKERS_PER_GPU:
		o->workers_per_gpu = (int)get_number("--workers-per-gpu", value, 1, 1024, state);
		return 0;
	case OPTION_TIMEOUT:
		o->task_timeout_ms = get_duration("--timeout", value, state);
		return 0;
	case OPTION_RETRIES:
		o->retries = (int)get_number("--retries", value, 0, 1000000, state);
		return 0;
	case OPTION_MAX_FAILURES:
		o->max_failures = (uint64_t)get_number("--max-failures", value, 1, INT64_MAX, state);
		return 0;
	case OPTION_BALANCE:
		set_balance(a, value, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_worker(int key, char *value, struct argp_state *state)
{
	struct launch_arguments *a = state->input;
	switch (key) {
	case OPTION_WORKER:
		a->worker = value;
		return 0;
	case OPTION_WORKER_COMMAND:
		a->worker_command = value;
		return 0;
	case OPTION_LIST_WORKERS:
		a->list_workers = true;
		return 0;
	case OPTION_MODEL_SIZE:
		set_setting(a, "model_size", value, state);
		return 0;
	case OPTION_LANGUAGE:
		set_setting(a, "language", value, state);
		return 0;
	case OPTION_SET:
		add_setting(a, value, state);
		return 0;
	default:
		return parse_limits(key, value, state);
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
	case OPTION_GPUS:
		o->gpus = value;
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
	case OPTION_TRUST:
		o->trust_output_dir = 1;
		return 0;
	case OPTION_JSON:
		a->json = value;
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
		if (!o->input_dir && !a->list_workers)
			argp_error(state, "no folder was given: --input-dir DIR says where the files are");
		if (a->dry_run && a->json)
			argp_error(state,
				"--json is the summary of a run, and --dry-run makes none: leave one of them out");
		return 0;
	default:
		return parse_worker(key, value, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "--input-dir DIR [-- COMMAND [ARG…]]",
	.doc = "Works through a folder of files with all GPUs: one worker per GPU, the longest file first, "
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
	*a = (struct launch_arguments){.options.size = sizeof(a->options),
		.options.output = GD_OUTPUT_FILES,
		.options.trust_output_dir = trust_is_off()};
	struct argp_state state = {0};
	set_setting(a, "model_size", "base", &state);
	set_setting(a, "language", "en", &state);
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, a);
}

void launch_arguments_finish(struct launch_arguments *a)
{
	for (size_t i = 0; i < a->num_owned; i++)
		free(a->owned[i]);
	free(a->owned);
	free(a->patterns);
	free(a->settings);
	free(a->program);
	free(a->plugin);
}
