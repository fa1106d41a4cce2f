/* SPDX-License-Identifier: MIT */
/*
 * One attempt at a job inside its keeper: from the order to a running process.
 *
 * The first process of the job is forked, creates a session and sets up standard files; that of a
 * lease joins the process group of `gpuq exec` instead. Then, under the append lock, it appends
 * `start` if the fence still holds. Finally it enters its directory, resets signals and calls exec.
 * It writes the outcome into the memory that it shares with the keeper until exec, so no exit status
 * can be mistaken for a refusal.
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
	ATTEMPT_FORKED = 0,   /* the process reported nothing: `start` may be in the journal or not */
	ATTEMPT_REFUSED,      /* `start` is not in the journal and will not be: see code */
	ATTEMPT_STARTED,      /* `start` is in the journal */
	ATTEMPT_NO_DIRECTORY, /* … but the job's directory could not be entered */
	ATTEMPT_NO_EXEC,      /* … but nothing could be executed */
};

/* The part of an attempt that could not be prepared, if nothing was started. */
enum attempt_part {
	ATTEMPT_KEEPER = 0, /* no part of the job: the keeper's own file */
	ATTEMPT_ENVIRONMENT,
	ATTEMPT_COMMAND,
	ATTEMPT_LOG,
	ATTEMPT_LOG_DIRECTORY, /* other users can change it */
	ATTEMPT_PROCESS,
	ATTEMPT_SCRIPT, /* other users may have written the stored script */
};

/* Written by the job's first process, in the memory of the keeper. */
struct attempt_page {
	int stage;
	int code;
	int64_t start_ms; /* the time in `start` */
};

/*
 * What a keeper caches from attempt to attempt, because the next job usually needs the same. An
 * environment is named by its content. Start from {0}.
 */
struct attempt_cache {
	struct known_directory logs, cwd;
	char *env; /* the environment's name; NULL: none */
	char *env_block;
	size_t env_size;
};

/*
 * How the command of a lease is executed: as an argument vector, in the terminal, directory and
 * environment of `gpuq exec`, with the same standard files and signals. It has no log.
 */
struct attempt_front {
	char **argv;
	pid_t group;   /* process group of `gpuq exec`, which is the shell's job */
	sigset_t mask; /* blocked signals */
};

/* A parsed order; owns all its memory. */
struct attempt {
	struct keeper_order order;
	const struct attempt_front *front; /* for a lease; NULL: an ordinary job. Set it after attempt_init() */
	char *payload;
	const char *command, *cwd, *env, *log_dir, *on_finish, *name, *claim;
	char *moved_log_dir; /* log_dir, if the order has its former path; otherwise NULL */
	const char *input;   /* the hook's input, see struct keeper_order */
	const char **env_changes;
	int *gpus;
	struct attempt_log log;
	int script_fd; /* -1: the command is an argument */
	char **envp;
	int cwd_fd;   /* the directory, if it is known, owned by the cache; -1: check and enter it by its path */
	int queue_fd; /* the directory of the queue, owned by the journal; -1: not set */
	char *cookie; /* "GPUQ_COOKIE=…" */
	char *own_env[3];
	struct text start, sealed; /* the `start` line, plain and as the journal stores it */
	enum attempt_part missing; /* after attempt_prepare() failed */
};

/* Takes ownership of the payload, even on failure. -EBADMSG if it is malformed. */
int attempt_init(struct attempt *a, const struct keeper_order *order, char *payload);
void attempt_finish(struct attempt *a);

/* Prepares environment, script and log file. On failure the attempt is refused and leaves nothing behind. */
int attempt_prepare(struct attempt *a, const struct journal *j, const char *keeper, struct attempt_cache *cache);
/*
 * -EPERM if other users may have written a stored script of the command: they may have been able to write to the folder
 * of scripts in the past. dir_fd: the folder of the queue's journal.
 */
int attempt_check_scripts(const char *command, int dir_fd);
/* Prepares only the environment, for a hook without an attempt. */
int attempt_prepare_hook(struct attempt *a, const struct journal *j, const char *keeper, struct attempt_cache *cache);

/* The variable that identifies processes of an attempt; its value is KEEPER-ID-ATTEMPT. */
#define ATTEMPT_COOKIE "GPUQ_COOKIE"
/* Appends "NAME=value". */
void attempt_cookie(struct text *t, const char *keeper, uint64_t id, uint32_t attempt);

/* The `start` line, which the first process `pid` appends. */
void attempt_write_start(const struct attempt *a, const char *keeper, pid_t pid, int64_t time_ms, struct text *t);

/* In a process that is about to call exec: sets one more variable, "NAME=value". */
void attempt_set_variable(struct attempt *a, const char *variable);
/* In a process that is about to call exec: resets signals to what a new program expects. */
void attempt_reset_signals(void);
/* In a process that is about to call exec: the umask of the process that added the job, if it is known. */
void attempt_enter_umask(char *const *envp);

/*
 * Opens the job's directory if it is certainly the right one, so that the job and later its hook enter this directory,
 * whatever happens to its path. Errors are reported by attempt_enter_directory().
 */
void attempt_find_directory(struct attempt *a, struct attempt_cache *cache);

/*
 * After attempt_find_directory(): if the directory of the queue was renamed after the job was added, the folder for
 * logs that was recorded with the job may have moved with it. Otherwise the log would create the old path again. 0 or
 * -ENOMEM.
 */
int attempt_follow_log_dir(struct attempt *a, const struct journal *j);

/*
 * Enters the job's directory. If the directory of the queue was renamed after the job was added, a job's directory
 * inside of it is found by its inode. The keeper of a lease is already in it, because it has the directory of `gpuq
 * exec`. -ENOTUNIQ: the path leads through a link of another user, or to a directory that another user may have put
 * there since the job was added, or other users can write the directory but could not when the job was added.
 */
int attempt_enter_directory(const struct attempt *a);

/*
 * Starts the job's first process. Returns its PID, or a negative errno value, once the process has
 * called exec or ended; *page has the outcome.
 */
pid_t attempt_start(struct attempt *a, const struct journal *j, const char *keeper, struct attempt_page *page);

#endif
