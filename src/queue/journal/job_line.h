/* SPDX-License-Identifier: MIT */
/*
 * A job as one line of a terminal. Width is counted in columns; text from users is escaped, so that a line
 * never contains a control character other than those of its color.
 */
#ifndef QUEUE_JOURNAL_JOB_LINE_H
#define QUEUE_JOURNAL_JOB_LINE_H

#include "base/text.h"
#include "queue/journal/job.h"

struct job_line_options {
	size_t id_width;      /* columns; 0: no id */
	size_t command_width; /* columns, padded; without `width`, a longer command is not cut. 0: at most 60 */
	size_t keep_from;     /* byte offset: a cut command also shows the text from here on; 0: only its beginning */
	size_t name_width;    /* 0: no name */
	size_t width;         /* of the whole line, which is truncated to it; 0: no limit */
	/* The escape sequence for a state, "" for none; NULL: no colors. */
	const char *(*color)(enum job_state state);
	const char *note; /* after the state of a pending job; NULL: nothing */
	int64_t now_ms;   /* current time, for the duration of a running job; 0: not shown */
};

/* "[→] 3 python train.py → GPU 0 → Running (PID 1234)", without a newline. */
void job_line_write(struct text *t, const struct job *job, const struct job_line_options *o);

/* Columns before the id. */
#define JOB_LINE_MARK_WIDTH 4
/* Columns after the command. */
size_t job_line_rest_width(const struct job *job, const struct job_line_options *o);

/*
 * The command as the user knows it: for a script that gpuq keeps a copy of, the script's name instead of the
 * interpreter and the copy. Points into the job or into `scratch`, which starts as {0}.
 */
const char *job_line_command(const struct job *job, struct text *scratch, size_t *ret_size);

/* Only the last column: "Failed (exit 3)". */
void job_line_write_outcome(struct text *t, const struct job *job);

#endif
