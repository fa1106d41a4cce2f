/* SPDX-License-Identifier: MIT */
/*
 * Journals of the original gpu_dispatch, which was written in Python: one line per job, without events. Such a file is
 * converted when it is first locked; the old file is kept as FILE.original.
 */
#ifndef QUEUE_JOURNAL_CONVERT_H
#define QUEUE_JOURNAL_CONVERT_H

#include "queue/journal/journal_private.h"

/* Under the lock. c: the counters, or NULL if there are none. */
int convert_original(struct journal *j, const struct journal_counters *c, struct gd_error *err);

#endif
