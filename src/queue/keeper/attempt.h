/* SPDX-License-Identifier: MIT */
/*
 * One attempt at a job inside its keeper: from the order to a process that runs.
 *
 * The first process of the job is forked, makes itself a session, standard files and a
 * clean slate of signals, then, under the append lock, appends `start` if the
 * fence still holds, and executes. What became of that it writes into a page that
 * it shares with the keeper, so no exit status can be taken for a refusal.
 */
#ifndef QUEUE_KEEPER_ATTEMPT_H
#define QUEUE_KEEPER_ATTEMPT_H

#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "queue/journal/journal.h"
#include "queue/keeper/attempt_log.h"
#include "queue/keeper/keeper_messages.h"

enum attempt_stage {
	ATTEMPT_FORKED = 0,   /* it said nothing: `start` may be in the journal or not */
	ATTEMPT_REFUSED,      /* and nothing will be: see code */
	ATTEMPT_STARTED,      /* `start` is in the journal */
	ATTEMPT_NO_DIRECTORY, /* … but the job's directory could not be entered */
	ATTEMPT_NO_EXEC,      /* … but nothing could be executed */
};

/* What of an attempt could not be had, where nothing was started. */
enum attempt_part {
	ATTEMPT_KEEPER = 0, /* nothing of the job's: the keeper's own file */
	ATTEMPT_ENVIRONMENT,
	ATTEMPT_SCRIPT,
	ATTEMPT_LOG,
	ATTEMPT_LOG_DIRECTORY, /* other users can change it */
	ATTEMPT_PROCESS,
};

/* Shared between the keeper and the job's first process. */
struct attempt_page {
	int stage;
	int code;
};

/* An order taken apart; all memory belongs to it. */
struct attempt {
	struct keeper_order order;
	char *payload;
	const char *command, *cwd, *env, *log_dir, *on_finish, *name, *claim, *input;
	const char **env_changes;
	int *gpus;
	struct attempt_log log;
	int script_fd; /* -1: the command is an argument */
	char **envp;
	char *env_block;
	char *cookie; /* "GPUQ_COOKIE=…" */
	char *own_env[3];
	enum attempt_part missing; /* after attempt_prepare() failed */
};

/* Takes the payload, also on failure. -EBADMSG where it is not one. */
int attempt_init(struct attempt *a, const struct keeper_order *order, char *payload);
void attempt_finish(struct attempt *a);

/* Environment, script and log file. What fails here is refused, and nothing of it is left. */
int attempt_prepare(struct attempt *a, const struct journal *j, const char *keeper);
/* The environment alone, for a hook without an attempt. */
int attempt_prepare_hook(struct attempt *a, const struct journal *j, const char *keeper);

/* The variable by which processes of an attempt are recognized; its value is KEEPER-ID-ATTEMPT. */
#define ATTEMPT_COOKIE "GPUQ_COOKIE"
/* Appends "NAME=value". */
void attempt_cookie(struct text *t, const char *keeper, uint64_t id, uint32_t attempt);

/* In a process that is to be executed: signals as a new program expects them. */
void attempt_reset_signals(void);

/*
 * Enters the job's directory. -ENOTUNIQ: only the user could write it, and now a link of another user or a directory
 * that others can write is in its place.
 */
int attempt_enter_directory(const struct attempt *a);

/* In the new process: does not return. */
_Noreturn void attempt_exec(
	const struct attempt *a, struct journal *j, const char *keeper, struct attempt_page *page, pid_t parent);

#endif
