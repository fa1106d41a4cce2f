/* SPDX-License-Identifier: MIT */
/*
 * One attempt at a job inside its keeper: from the order to a process that runs.
 *
 * The first process of the job is forked, makes itself a session, standard files and a
 * clean slate of signals, then, under the append lock, appends `start` if the
 * fence still holds, and executes. What became of that it writes into the memory that
 * it shares with the keeper until then, so no exit status can be taken for a refusal.
 */
#ifndef QUEUE_KEEPER_ATTEMPT_H
#define QUEUE_KEEPER_ATTEMPT_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "queue/journal/journal.h"
#include "queue/keeper/attempt_log.h"
#include "queue/keeper/keeper_messages.h"
#include "queue/keeper/known_directory.h"

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

/* Written by the job's first process, in the memory of the keeper. */
struct attempt_page {
	int stage;
	int code;
	int64_t start_ms; /* the time in `start` */
};

/*
 * What a keeper keeps from attempt to attempt: the next job mostly has the same. An environment is named by its
 * content. Start from {0}.
 */
struct attempt_cache {
	struct known_directory logs, cwd;
	char *env; /* its name; NULL: none */
	char *env_block;
	size_t env_size;
};

/*
 * How the command of a lease is executed: by its words, in the terminal, the directory and the environment of
 * `gpuq exec`, with its standard files and its signals. It has no log.
 */
struct attempt_front {
	char **argv;
	pid_t group;   /* process group of `gpuq exec`, which is that of the shell's job */
	sigset_t mask; /* blocked signals */
};

/* An order taken apart; all memory belongs to it. */
struct attempt {
	struct keeper_order order;
	const struct attempt_front *front; /* of a lease; NULL: an ordinary job. Set it after attempt_init() */
	char *payload;
	const char *command, *cwd, *env, *log_dir, *on_finish, *name, *claim;
	const char *input; /* of the hook, see struct keeper_order */
	const char **env_changes;
	int *gpus;
	struct attempt_log log;
	int script_fd; /* -1: the command is an argument */
	char **envp;
	int cwd_fd;   /* the directory, if it is known; it belongs to the cache. -1: go there by its path */
	char *cookie; /* "GPUQ_COOKIE=…" */
	char *own_env[3];
	struct text start, sealed; /* the line `start`, and as the journal has it */
	enum attempt_part missing; /* after attempt_prepare() failed */
};

/* Takes the payload, also on failure. -EBADMSG where it is not one. */
int attempt_init(struct attempt *a, const struct keeper_order *order, char *payload);
void attempt_finish(struct attempt *a);

/* Environment, script and log file. What fails here is refused, and nothing of it is left. */
int attempt_prepare(struct attempt *a, const struct journal *j, const char *keeper, struct attempt_cache *cache);
/* The environment alone, for a hook without an attempt. */
int attempt_prepare_hook(struct attempt *a, const struct journal *j, const char *keeper, struct attempt_cache *cache);

/* The variable by which processes of an attempt are recognized; its value is KEEPER-ID-ATTEMPT. */
#define ATTEMPT_COOKIE "GPUQ_COOKIE"
/* Appends "NAME=value". */
void attempt_cookie(struct text *t, const char *keeper, uint64_t id, uint32_t attempt);

/* The line `start`, which the first process `pid` appends. */
void attempt_write_start(const struct attempt *a, const char *keeper, pid_t pid, int64_t time_ms, struct text *t);

/* In a process that is to be executed: sets one more variable, "NAME=value". */
void attempt_set_variable(struct attempt *a, const char *variable);
/* In a process that is to be executed: signals as a new program expects them. */
void attempt_reset_signals(void);

/*
 * Enters the job's directory. -ENOTUNIQ: only the user could write it, and now a link of another user, a directory
 * that others can write, or a directory that others can have put there is in its place.
 */
int attempt_enter_directory(const struct attempt *a);

/*
 * Starts the job's first process: its PID, or a negative errno value. Returns when it has executed or ended; *page says
 * what became of it.
 */
pid_t attempt_start(struct attempt *a, const struct journal *j, const char *keeper, struct attempt_page *page);

#endif
