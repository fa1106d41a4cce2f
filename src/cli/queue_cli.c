/* SPDX-License-Identifier: MIT */
#include "cli/queue_cli.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"

int cli_fail(const struct gd_error *err, int code)
{
	say_error(err);
	switch (code) {
	case -EINVAL:
	case -ENODEV:
	case -ENOENT:
	case -EISDIR:
	case -EPERM:
	case -ENOTDIR:
		return EXIT_USAGE;
	default:
		return EXIT_WORK_FAILED;
	}
}

void cli_parse(const struct argp *argp, int argc, char **argv, void *input)
{
	error_t e = argp_parse(argp, argc, argv, 0, NULL, input);
	if (e) {
		say("reading the command line: %s", error_words(e));
		exit(EXIT_USAGE);
	}
}

/* ---- Which queue --------------------------------------------------------------------- */

enum { OPTION_JOBS_FILE = 0x1000, OPTION_CONFIG, OPTION_TRUST };

static const struct argp_option queue_options[] = {
	{"jobs-file", OPTION_JOBS_FILE, "FILE", 0, "The journal of the queue ($GPUQ_JOBS_FILE, ./jobs.jsonl)", 100},
	{"config", OPTION_CONFIG, "FILE", 0, "Settings (./gpuq.yaml, ~/.config/gpuq/config.yaml)", 100},
	{"trust", OPTION_TRUST, 0, 0, "Use a journal or configuration that others can write", 100},
	{0},
};

static error_t parse_queue(int key, char *arg, struct argp_state *state)
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

const struct argp queue_argp = {.options = queue_options, .parser = parse_queue};

int queue_choose(struct queue_choice *q, struct gd_error *err)
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

static int parse_id(const char *text, char **ret_end, uint64_t *ret)
{
	errno = 0;
	if (*text < '0' || *text > '9')
		return -EINVAL;
	unsigned long long id = strtoull(text, ret_end, 10);
	if (errno || id == 0 || id > INT64_MAX)
		return -EINVAL;
	*ret = id;
	return 0;
}

int cli_parse_ids(const char *text, struct id_list *ids, struct gd_error *err)
{
	const char *p = text;
	for (;;) {
		char *end;
		uint64_t from, to;
		int r = parse_id(p, &end, &from);
		to = from;
		if (r == 0 && *end == '-')
			r = parse_id(end + 1, &end, &to);
		if (r < 0 || (*end && *end != ',') || to < from || to - from > 10000000)
			return error_set(
				err, -EINVAL, "job '%s': not an id; ids are numbers, as 12, 12-15 or 12,14", text);
		for (uint64_t id = from; id <= to; id++)
			if (id_list_add(ids, id) < 0)
				return error_set(err, -ENOMEM, "job '%s': out of memory", text);
		if (!*end)
			return 0;
		p = end + 1;
	}
}

char *cli_absolute(const char *path)
{
	char *joined;
	if (path[0] == '/')
		return strdup(path);
	cleanup_(freep) char *here = getcwd(NULL, 0);
	while (strncmp(path, "./", 2) == 0)
		path += 2;
	if (!here || asprintf(&joined, "%s/%s", strcmp(here, "/") == 0 ? "" : here, path) < 0)
		return NULL;
	return joined;
}
