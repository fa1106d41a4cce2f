/* SPDX-License-Identifier: MIT */
/* Checks which options of `gpuq run` can be combined with --slurm. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/run_parts.h"

/* An option of sbatch that gpuq sets itself. */
struct taken_option {
	const char *name;
	char letter;         /* '\0': no letter */
	const char *allowed; /* a value that is allowed; NULL: none */
	const char *words;   /* what to do instead */
};

static const struct taken_option taken[] = {
	{"array", 'a', NULL, "gpuq submits as many pilots as it needs; see --max-nodes"},
	{"nodes", 'N', "1", "each pilot has one node; see --max-nodes"},
	{"ntasks", 'n', "1", "each pilot is one task; ask for CPUs with --cpus-per-task"},
	{"job-name", 'J', NULL, "gpuq chooses the names of its pilots"},
	{"output", 'o', NULL, "the output of pilots is next to the journal, in jobs.jsonl.d"},
	{"error", 'e', NULL, "the output of pilots is next to the journal, in jobs.jsonl.d"},
	{"wrap", '\0', NULL, "the jobs come from the queue"},
	{"wait", 'W', NULL, "gpuq itself waits for the pilots"},
	{"test-only", '\0', NULL, "no job would be submitted; use 'gpuq slurm check' instead"},
	{"parsable", '\0', NULL, "gpuq chooses the output format of sbatch"},
};

/* The value if `word` is this option: "" if the value is the next word; NULL: another option. */
static const char *value_of(const struct taken_option *o, const char *word)
{
	size_t size = strlen(o->name);
	if (strncmp(word, "--", 2) == 0 && strncmp(word + 2, o->name, size) == 0 &&
		(!word[2 + size] || word[2 + size] == '='))
		return word[2 + size] ? word + 3 + size : "";
	return o->letter && word[0] == '-' && word[1] == o->letter ? word + 2 : NULL;
}

static int check_word(const char *word, const char *next, struct gd_error *err)
{
	char quoted[DISPLAY_QUOTE_ROOM];
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		const char *value = value_of(&taken[i], word);
		if (!value || (taken[i].allowed && strcmp(*value ? value : next, taken[i].allowed) == 0))
			continue;
		return error_set(
			err, -EINVAL, "--slurm: '%s' cannot be used: %s", display_quote(word, quoted), taken[i].words);
	}
	return 0;
}

/* Other mistakes are reported by sbatch itself. */
static int check_sbatch_options(const char *options, struct gd_error *err)
{
	cleanup_(text_finish) struct text words = {0};
	char quoted[DISPLAY_QUOTE_ROOM];
	int n = shell_split(options, &words);
	if (n == -EINVAL)
		return error_set(
			err, n, "--slurm: a quotation mark is not closed in: %s", display_quote(options, quoted));
	if (n < 0)
		return error_set(err, n, "--slurm: %s", error_words(n));
	const char *word = text_string(&words), *end = word + words.length;
	if (n == 0 || *word != '-')
		return error_set(err, -EINVAL,
			"--slurm: '%s' is not an option of sbatch; write, for example, --slurm '--partition=gpu --gres=gpu:1'",
			display_quote(options, quoted));
	for (; word < end; word += strlen(word) + 1) {
		const char *next = word + strlen(word) + 1;
		int r = check_word(word, next < end ? next : "", err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int refuse_without_slurm(struct run *run)
{
	static const enum config_key keys[] = {
		CONFIG_MAX_NODES, CONFIG_SLURM_SILENCE, CONFIG_SLURM_LEASE, CONFIG_SLURM_ADDRESS};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (run->given[keys[i]])
			return error_set(&run->err, -EINVAL,
				"--%s needs --slurm with the options for sbatch, as in --slurm '--gres=gpu:1'",
				run_option_name(keys[i]));
	if (run->takeover)
		return error_set(&run->err, -EINVAL, "--takeover needs --slurm; other runners do not need it");
	return 0;
}

static int refuse_with_slurm(struct run *run)
{
	static const struct {
		enum config_key key;
		const char *words;
	} local[] = {
		{CONFIG_GPUS, "Slurm grants the GPUs; ask for them with --slurm '--gres=gpu:4'"},
		{CONFIG_POLL_INTERVAL, "pilots watch their GPUs all the time"},
		{CONFIG_CPU_AFFINITY, "Slurm binds the CPUs; see --cpus-per-task and --hint of sbatch"},
		{CONFIG_IDLE_WARN, "it works only on a single machine"},
		{CONFIG_ON_IDLE, "it works only on a single machine"},
	};
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		if (run->given[local[i].key])
			return error_set(&run->err, -EINVAL, "--%s cannot be used with --slurm: %s",
				run_option_name(local[i].key), local[i].words);
	return 0;
}

/* Checks one line for each kind of pilots. */
static int check_kinds(struct run *run)
{
	const char *line = run->queue.config.slurm;
	int r = 0;
	for (size_t n, count = 0; r == 0 && *line; line += n + (line[n] == '\n')) {
		char *options = strndup(line, n = strcspn(line, "\n"));
		if (!options)
			return error_set(&run->err, -ENOMEM, "--slurm: out of memory");
		if (++count > RUN_MOST_KINDS)
			r = error_set(
				&run->err, -EINVAL, "--slurm: more than %d sets of options for sbatch", RUN_MOST_KINDS);
		else
			r = check_sbatch_options(options, &run->err);
		free(options);
	}
	return r;
}

int run_check_slurm(struct run *run)
{
	const struct config *c = &run->queue.config;
	char lease[UNITS_ROOM], silence[UNITS_ROOM];
	if (!c->slurm)
		return refuse_without_slurm(run);
	int r = refuse_with_slurm(run);
	if (r == 0)
		r = check_kinds(run);
	if (r == 0 && c->slurm_lease_ms < 2 * c->slurm_silence_ms)
		r = error_set(&run->err, -EINVAL, "--slurm-lease (%s) must be at least twice --slurm-silence (%s)",
			units_format_duration(c->slurm_lease_ms, lease),
			units_format_duration(c->slurm_silence_ms, silence));
	return r;
}
