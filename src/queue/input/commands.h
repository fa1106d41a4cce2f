/* SPDX-License-Identifier: MIT */
/*
 * A commands file: one shell command per line.
 *
 * Blank lines and lines that begin with # are skipped; a line that ends in an
 * odd number of backslashes continues in the next, and the backslash and the line break are removed, as in the shell. A
 * comment "# gpuq: mem=12G name='my eval'" gives options to the next command. Spaces around a command and carriage
 * returns at the line's end are removed. A command may contain any byte but NUL.
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
	struct gd_bytes bytes;             /* not NUL-terminated */
	const struct job_options *options; /* set == 0 if it has none */
	uint64_t line;                     /* number of its first line, from 1 */
};

/* A file that is being read. Memory holds no more than its longest command. */
struct commands;

/* "-" is standard input, which is not closed afterwards. -EPERM for an untrusted file, see trust_open(). */
int commands_open(const char *path, enum trust_choice choice, struct commands **ret, struct gd_error *err);

/*
 * As commands_open(), but reads all of the file before it returns, because a pipe can be read only once. The copy is
 * not in this process's memory, which each fork copies.
 */
int commands_read(const char *path, enum trust_choice choice, struct commands **ret, struct gd_error *err);

/* Starts again at the first command; only after commands_read(). */
int commands_rewind(struct commands *c);

/* For messages: the path, or "standard input". */
const char *commands_name(const struct commands *c);

/* Whether the input is a regular file, which can be read again, and not a pipe. After commands_read(). */
bool commands_is_file(const struct commands *c);

/*
 * The next command: 1, 0 at the end, or a negative errno value. The command is valid until the next call. After -EINVAL
 * (a mistake in the file; the message begins with "FILE:LINE: ") the next call continues after it, so that all mistakes
 * can be reported at once. Reads no further than necessary: a line from a pipe is returned immediately.
 */
int commands_next(struct commands *c, struct shell_command *ret, struct gd_error *err);

void commands_close(struct commands *c);

/* For cleanup_(). */
static inline void commands_closep(struct commands **c)
{
	commands_close(*c);
}

#endif
