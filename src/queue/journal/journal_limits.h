/* SPDX-License-Identifier: MIT */
/*
 * Limits for reading a journal. A user may read a journal that another user has made: a few blocks on disk must not
 * cost the reader all memory or hours of time.
 *
 * Holes are limited in all journals. A journal that other users may have written is limited in size, line length,
 * processor time to read it, number of lines to sort, and number of dependencies of its jobs; GPUQ_TRUST turns these
 * limits off.
 */
#ifndef QUEUE_JOURNAL_JOURNAL_LIMITS_H
#define QUEUE_JOURNAL_JOURNAL_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu_dispatch.h"

#define JOURNAL_MAX_HOLE_BYTES         ((off_t)64 << 20)
#define JOURNAL_MAX_FOREIGN_BYTES      ((off_t)256 << 20)
#define JOURNAL_MAX_FOREIGN_LINE_BYTES ((size_t)4 << 20)
#define JOURNAL_MAX_FOREIGN_SORTED     ((size_t)1 << 20)   /* lines */
#define JOURNAL_MAX_FOREIGN_GAPS       ((size_t)1 << 16)   /* between the numbers of lines */
#define JOURNAL_MAX_FOREIGN_AFTER      ((uint64_t)8 << 20) /* dependencies of all jobs together, 8 bytes each */
#define JOURNAL_MAX_FOREIGN_RESETS     8
#define JOURNAL_MAX_FOREIGN_RUNNING    1024 /* if more jobs run, they are not attributed to GPUs and processes */
#define JOURNAL_MAX_FOREIGN_CPU_NS     (UINT64_C(20) * 1000000000)

/* For cost_limit_enable(): reading the journal and all that is computed from it, until it is read again. */
#define JOURNAL_FOREIGN_COST_NS    (UINT64_C(30) * 1000000000)
#define JOURNAL_FOREIGN_COST_BYTES ((size_t)4 << 30)

struct journal_limits {
	bool foreign;        /* other users may have written the file */
	char objection[128]; /* the reason: "belongs to another user" */
	size_t max_line_bytes;
	uint64_t max_cpu_ns;
	uint64_t end_cpu_ns; /* on the CPU clock of the thread */
	unsigned lines;      /* lines since the clock was last read */
	off_t looked_at;     /* holes below this offset have been counted */
	off_t hole_bytes;
};

/* For a file that was just opened. trusted: the caller has checked or accepted it. */
void journal_limits_init(struct journal_limits *l, int fd, bool trusted);

/* Before a read; also starts the cost limit. 0 and the size of the file; -EFBIG if it is too large or has too many
 * holes. */
int journal_limits_look(struct journal_limits *l, int fd, const char *path, off_t *ret_size, struct gd_error *err);

/* Before each line: 0, or -ETIME if the processor time is used up. */
int journal_limits_line(struct journal_limits *l, const char *path, struct gd_error *err);

/* Returns -EFBIG with the message "cannot read journal 'PATH': it belongs to another user and WORDS". */
int journal_limits_refuse(const struct journal_limits *l, const char *path, const char *words, struct gd_error *err);

#endif
