/* SPDX-License-Identifier: MIT */
/*
 * Which queue a command works on, and with which settings.
 *
 * Start from {0}; parse with queue_choice_argp as a child of the command's own argp;
 * then queue_choice_resolve() reads the configuration file and finds the journal.
 */
#ifndef CLI_QUEUE_CHOICE_H
#define CLI_QUEUE_CHOICE_H

#include <argp.h>
#include <stdbool.h>

#include "gpu_dispatch.h"
#include "queue/input/config.h"
#include "queue/journal/journal.h"
#include "queue/journal/trust.h"

struct queue_choice {
	const char *jobs_file;
	const char *config_file;
	bool trust;                 /* --trust or $GPUQ_TRUST */
	struct config config;       /* defaults < file < command line, after queue_choice_resolve() */
	struct config command_line; /* filled while parsing */
	/* After queue_choice_resolve(): */
	char *journal_path;
	const char *given_path; /* as it was given, by an option, a variable or the configuration */
	const char *objection;  /* NULL, or how another user chose what given_path leads to */
};

/* --jobs-file, --config, --trust. Its input is a struct queue_choice. */
extern const struct argp queue_choice_argp;

int queue_choice_resolve(struct queue_choice *q, struct gd_error *err);
/* How an input file was chosen. named: on the command line. */
enum trust_choice queue_choice_trust(const struct queue_choice *q, bool named);
/* Opens the journal for writing. */
int queue_choice_open(const struct queue_choice *q, struct journal **ret, struct gd_error *err);
void queue_choice_finish(struct queue_choice *q);

#endif
