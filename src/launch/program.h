/* SPDX-License-Identifier: MIT */
/*
 * A persistent program that exchanges lines with its worker. The program cannot block the worker, even if it does not
 * read, writes anything at any time, or exits.
 */
#ifndef LAUNCH_PROGRAM_H
#define LAUNCH_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "launch/child.h"

#define PROGRAM_LINE_MAX ((size_t)1 << 20) /* the default of line_max */

struct program {
	struct child child;
	struct text out; /* to be sent */
	size_t sent;
	struct text in;  /* received */
	size_t taken;    /* bytes of `in` already handed out */
	size_t searched; /* bytes of `in` that are handed out or contain no newline */
	size_t line_max; /* the longest line from the program, in bytes */
	bool skipping;   /* skip the rest of an overlong line */
	bool closed;     /* it has closed its output */
};

#define PROGRAM_NONE ((struct program){.child = CHILD_NONE, .line_max = PROGRAM_LINE_MAX})

int program_start(struct program *p, char *const argv[]);

/* Whether it is running and can take messages. */
bool program_lives(struct program *p);

enum program_event {
	PROGRAM_LINE = 1,
	PROGRAM_LONG_LINE, /* only its beginning: it is longer than line_max */
	PROGRAM_ENDED,     /* or has closed its output: no more lines will come */
	PROGRAM_NOTHING,   /* timeout */
};

/*
 * Sends p->out and waits up to timeout_ms for a line (without its
 * newline; valid until the next call). Standard error is passed on meanwhile.
 * Negative errno value: no memory.
 */
int program_talk(struct program *p, int timeout_ms, const char **ret_line, size_t *ret_size);

/* Closes its input, and waits until it has ended. */
void program_leave(struct program *p);

/* Ends it if it still runs. */
void program_end(struct program *p);

/* After PROGRAM_ENDED: ends it, and writes how it ended. */
void program_end_words(struct program *p, char *to, size_t room);

#endif
