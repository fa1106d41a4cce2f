/* SPDX-License-Identifier: MIT */
#include "cli/queue_choice.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "queue/journal/journal.h"

enum { OPTION_JOBS_FILE = 0x1000, OPTION_CONFIG, OPTION_TRUST };

static const struct argp_option options[] = {
	{"jobs-file", OPTION_JOBS_FILE, "FILE", 0, "The journal of the queue ($GPUQ_JOBS_FILE, ./jobs.jsonl)", 100},
	{"config", OPTION_CONFIG, "FILE", 0, "Settings (./gpuq.yaml, ~/.config/gpuq/config.yaml)", 100},
	{"trust", OPTION_TRUST, 0, 0, "Use a journal or configuration that others can write", 100},
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

int queue_choice_resolve(struct queue_choice *q, struct gd_error *err)
{
	cleanup_(freep) char *path = NULL;
	int r = config_defaults(&q->config);
	if (r == 0)
		r = config_find(q->config_file, &path);
	if (r < 0)
		return error_set(err, r, "reading the configuration: %s", error_words(r));
	if (path) {
		struct config file = {0};
		r = config_load(path, q->trust, &file, err);
		if (r == 0)
			config_overlay(&q->config, &file);
		config_finish(&file);
		if (r < 0)
			return r;
	}
	config_overlay(&q->config, &q->command_line);
	const char *from_environment = getenv("GPUQ_JOBS_FILE");
	const char *jobs_file = q->jobs_file                            ? q->jobs_file
				: from_environment && *from_environment ? from_environment
									: q->config.jobs_file;
	return journal_resolve(jobs_file, &q->journal_path, err);
}

void queue_choice_finish(struct queue_choice *q)
{
	config_finish(&q->config);
	config_finish(&q->command_line);
	free(q->journal_path);
	q->journal_path = NULL;
}
