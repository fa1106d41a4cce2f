/* SPDX-License-Identifier: MIT */
/*
 * Chooses the queue that a command works on, and its settings.
 *
 * Start from {0}; parse with queue_choice_argp as a child of the command's own argp;
 * then queue_choice_resolve() reads the configuration file and finds the journal:
 * --jobs-file, $GPUQ_JOBS_FILE, the configuration, ./jobs.jsonl, jobs.jsonl of a parent directory below $HOME that
 * belongs to the user; otherwise ./jobs.jsonl if the command creates one here and no other user could replace it, and
 * the personal queue if not.
 */
#ifndef CLI_QUEUE_CHOICE_H
#define CLI_QUEUE_CHOICE_H

#include <argp.h>
#include <stdbool.h>

#include "cli/queue_place.h"
#include "gpu_dispatch.h"
#include "queue/input/config.h"
#include "queue/journal/follow.h"
#include "queue/journal/journal.h"
#include "queue/journal/trust.h"

/* How the queue was found, in the order of precedence. */
enum queue_source {
	QUEUE_SOURCE_OPTION,
	QUEUE_SOURCE_ENVIRONMENT,
	QUEUE_SOURCE_CONFIGURATION,
	QUEUE_SOURCE_HERE,
	QUEUE_SOURCE_ABOVE,
	QUEUE_SOURCE_CREATED, /* ./jobs.jsonl, which does not exist yet */
	QUEUE_SOURCE_PERSONAL,
};

struct queue_choice {
	const char *jobs_file;
	const char *config_file;
	bool trust;                 /* --trust or $GPUQ_TRUST */
	struct config config;       /* defaults < file < command line, after queue_choice_resolve() */
	struct config command_line; /* filled while parsing */
	char *config_path;          /* the configuration that was read; NULL: none */
	bool configured;            /* queue_choice_configure() was called */
	/* Set by the command, before queue_choice_resolve(): */
	bool adds;          /* it adds jobs: create the directory of the personal queue */
	bool only_here;     /* do not search parent directories */
	bool creates_here;  /* if no queue is found, create one in this directory */
	bool falls_back;    /* creates_here, but the personal queue if others could replace a queue in this directory */
	bool shows;         /* it only shows something: a configuration that is refused is ignored, with a note */
	bool silent;        /* do not report that a queue of the user is not used */
	bool for_everybody; /* shows logs to everybody, not only to this user */
	/* After queue_choice_resolve(): */
	enum queue_source source;
	char *journal_path;
	const char *given_path; /* the path as given by an option, a variable or the configuration, or as found */
	char *found_path;       /* memory of given_path, if the queue was found in a parent directory or is personal */
	struct queue_place_skipped skipped; /* a nearer file in a parent directory */
	const char *objection;              /* NULL, or how another user controls where given_path leads */
};

/* --jobs-file, --config, --trust. Its input is a struct queue_choice. */
extern const struct argp queue_choice_argp;

/* For a command that only reads queues: limits what a queue of another user can cost it, see base/cost_limit.h. */
void queue_limit_cost(void);

/* The first half of queue_choice_resolve(), the settings, for commands that need them earlier. */
int queue_choice_configure(struct queue_choice *q, struct gd_error *err);
int queue_choice_resolve(struct queue_choice *q, struct gd_error *err);
/* Whether the user may expect another queue: this one is neither named on the command line nor ./jobs.jsonl. */
bool queue_choice_may_surprise(const struct queue_choice *q);
/* "personal queue", "queue of a parent directory"…, for messages. */
const char *queue_choice_words(const struct queue_choice *q);
/* How it was found: "--jobs-file", "found in this directory", the path of the configuration… */
const char *queue_choice_source(const struct queue_choice *q);
/* Reports where new jobs were added if the user may expect another queue. */
void queue_choice_say_where_added(const struct queue_choice *q);
/* Reads the journal, as follow_open() does; the error explains if there is no queue. */
int queue_choice_follow(const struct queue_choice *q, bool watch, struct follow *ret, struct gd_error *err);
/* The same for a command that acts on the jobs: without --trust, refuses a journal as queue_choice_open() does. */
int queue_choice_follow_trusted(const struct queue_choice *q, struct follow *ret, struct gd_error *err);
/* How an input file was chosen. named: on the command line. */
enum trust_choice queue_choice_trust(const struct queue_choice *q, bool named);
#define QUEUE_WORK_ROOM 128
/* "1 unfinished job and 2 hooks to run": what a copy of the queue would repeat; "" if there is nothing. */
void queue_choice_describe_work(const struct jobs *jobs, char words[QUEUE_WORK_ROOM]);
/* Opens the journal for writing. Without --trust, refuses a copy with such work. */
int queue_choice_open(const struct queue_choice *q, struct journal **ret, struct gd_error *err);
void queue_choice_finish(struct queue_choice *q);

#endif
