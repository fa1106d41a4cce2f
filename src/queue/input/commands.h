/* SPDX-License-Identifier: MIT */
/*
 * A commands file: one shell command per line.
 *
 * Blank lines and lines that begin with # are skipped; a line that ends in an
 * odd number of backslashes goes on in the next, and the backslash and the line
 * break vanish, as in the shell. A comment "# gpuq: mem=12G name='my eval'" gives
 * options to the next command. Spaces around a command do not belong to it, nor
 * do carriage returns at the line's end. Any byte but NUL may stand in it.
 */
#ifndef QUEUE_INPUT_COMMANDS_H
#define QUEUE_INPUT_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"
#include "queue/input/job_options.h"
#include "queue/journal/trust.h"

struct shell_command {
	struct gd_bytes bytes;             /* no NUL at its end */
	const struct job_options *options; /* set == 0 where it has none */
	uint64_t line;                     /* where it begins, from 1 */
};

/* A file that is being read. Only as much is in memory as its longest command. */
struct commands;

/* "-" is standard input, which is not closed afterwards. A file that is refused: -EPERM, see trust_open(). */
int commands_open(const char *path, enum trust_choice choice, struct commands **ret, struct gd_error *err);

/*
 * As commands_open(), but all of it is read before this returns, once, as a pipe
 * allows no more. It is not in our own memory, which is copied by each fork.
 */
int commands_read(const char *path, enum trust_choice choice, struct commands **ret, struct gd_error *err);

/* Begins again; only after commands_read(). */
int commands_rewind(struct commands *c);

/* For the words: the path, or "standard input". */
const char *commands_name(const struct commands *c);

/* Whether it is a file, which has the same lines when it is read again; not a pipe. After commands_read(). */
bool commands_is_file(const struct commands *c);

/*
 * The next command: 1, 0 at the end, or a negative errno value. What it gives is
 * valid until the next call. After -EINVAL (something wrong in the file, at
 * "FILE:LINE: ") the next call goes on behind it, so that all can be told at once.
 * Reads no further than it must: a line that comes through a pipe is given at once.
 */
int commands_next(struct commands *c, struct shell_command *ret, struct gd_error *err);

void commands_close(struct commands *c);

/* For cleanup_(). */
static inline void commands_closep(struct commands **c)
{
	commands_close(*c);
}

#endif
