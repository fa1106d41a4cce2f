/* SPDX-License-Identifier: MIT */
/* What the commands of the queue share. */
#ifndef CLI_QUEUE_CLI_H
#define CLI_QUEUE_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/command.h"
#include "cli/say.h"
#include "gpu_dispatch.h"
#include "queue/input/config.h"
#include "queue/input/submit.h"

/* `wait`: its own errors. */
#define EXIT_WAIT 125

/* 2 for what the user got wrong, else 1. Says it. */
int cli_fail(const struct gd_error *err, int code);

/* Parses with argp; an error of its own ends the program with 2. */
void cli_parse(const struct argp *argp, int argc, char **argv, void *input);

/* ---- Which queue ------------------------------------------------------------------- */

struct queue_choice {
	const char *jobs_file;
	const char *config_file;
	bool trust;
	struct config config;       /* defaults < file < command line, after queue_choose() */
	struct config command_line; /* filled while parsing */
	char *journal_path;
};

/* --jobs-file, --config, --trust: as a child of the command's own argp; its input is a struct queue_choice. */
extern const struct argp queue_argp;

int queue_choose(struct queue_choice *q, struct gd_error *err);
void queue_choice_finish(struct queue_choice *q);

/* Ids of jobs on a command line: "12", "12-15", "3,4". */
int cli_parse_ids(const char *text, struct id_list *ids, struct gd_error *err);

/* The absolute path of something relative to here; in memory to be freed. */
char *cli_absolute(const char *path);

/*
 * How long a runner may take to be ready: seconds, where a driver must wake up first. Who
 * typed `add` has the id by then, and is not held up for so long.
 */
#define READY_MS      15000
#define READY_SOON_MS 3000

/*
 * Starts a runner in the background that inherits nothing from us, and waits until it
 * has the queue in hand, or says what hinders it; for so long at most. `options`: those
 * of `gpuq run` that it gets, up to a NULL; or NULL: none but those of the configuration.
 */
int cli_start_runner(const struct queue_choice *q, const char *const *options, int timeout_ms, struct gd_error *err);

/* In that runner, once: it is ready, or failed (err). fd -1: nobody waits. Closes it. */
void background_tell(int fd, const struct gd_error *err);

#endif
