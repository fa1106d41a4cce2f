/* SPDX-License-Identifier: MIT */
#include "cli/queue_choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/trust.h"

enum { OPTION_JOBS_FILE = 0x1000, OPTION_CONFIG, OPTION_TRUST };

static const struct argp_option options[] = {
	{"jobs-file", OPTION_JOBS_FILE, "FILE", 0, "The journal of the queue ($GPUQ_JOBS_FILE, ./jobs.jsonl)", 100},
	{"config", OPTION_CONFIG, "FILE", 0, "Settings (./gpuq.yaml, ~/.config/gpuq/config.yaml)", 100},
	{"trust", OPTION_TRUST, 0, 0,
		"Use a journal, configuration or commands file that others can write ($GPUQ_TRUST=1)", 100},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct queue_choice *q = state->input;
	switch (key) {
	case OPTION_JOBS_FILE:
		q->jobs_file = arg;
		return 0;
	case OPTION_CONFIG:
		q->config_file = arg;
		return 0;
	case OPTION_TRUST:
		q->trust = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp queue_choice_argp = {.options = options, .parser = parse};

enum trust_choice queue_choice_trust(const struct queue_choice *q, bool named)
{
	return named ? TRUST_NAMED : q->trust ? TRUST_ACCEPTED : TRUST_FOUND;
}

int queue_choice_resolve(struct queue_choice *q, struct gd_error *err)
{
	cleanup_(freep) char *path = NULL;
	q->trust = q->trust || trust_is_off();
	int r = config_defaults(&q->config);
	if (r == 0)
		r = config_find(q->config_file, &path);
	if (r < 0)
		return error_set(err, r, "reading the configuration: %s", error_words(r));
	if (path) {
		struct config file = {0};
		r = config_load(path, queue_choice_trust(q, q->config_file), &file, err);
		if (r == 0)
			config_overlay(&q->config, &file);
		config_finish(&file);
		if (r < 0)
			return r;
	}
	config_overlay(&q->config, &q->command_line);
	const char *from_environment = getenv("GPUQ_JOBS_FILE");
	q->given_path = q->jobs_file                            ? q->jobs_file
			: from_environment && *from_environment ? from_environment
								: q->config.jobs_file;
	return journal_resolve(q->given_path, &q->journal_path, &q->objection, err);
}

int queue_choice_open(const struct queue_choice *q, struct journal **ret, struct gd_error *err)
{
	if (q->objection && !q->trust)
		return trust_refuse(q->given_path, q->objection, err);
	return journal_open(q->journal_path, q->trust, ret, err);
}

void queue_choice_finish(struct queue_choice *q)
{
	config_finish(&q->config);
	config_finish(&q->command_line);
	free(q->journal_path);
	q->journal_path = NULL;
}
