/* SPDX-License-Identifier: MIT */
/* Writes the order of a grant, which tells a pilot what to execute; see node_jobs.h. */
#ifndef SLURM_COORDINATOR_ORDER_H
#define SLURM_COORDINATOR_ORDER_H

#include "base/hash.h"
#include "base/text.h"
#include "gpu_dispatch.h"
#include "queue/journal/job.h"
#include "queue/journal/journal.h"
#include "queue/keeper/attempt_log.h"

struct order_defaults {
	const char *log_dir; /* absolute */
	int64_t timeout_ms;  /* 0: none */
	int64_t grace_ms;
	int64_t max_log_bytes; /* 0: no limit */
	enum log_access log_access;
	bool log_accepted; /* other users may change log_dir */
	/* For jobs that have none of their own; filled by coordinator_order_surroundings(). */
	char env[HASH_TEXT];
	char *cwd;
};

/* Stores the environment of this process beside the journal; the directory is that of the journal. */
int coordinator_order_surroundings(const struct journal *j, struct order_defaults *d, struct gd_error *err);
/* The log directory of the job's attempts. */
const char *coordinator_order_log_dir(const struct job *job, const struct order_defaults *d);
int64_t coordinator_order_timeout_ms(const struct job *job, const struct order_defaults *d);
/* 0 or -ENOMEM. */
int coordinator_order_write(const struct job *job, const struct order_defaults *d, struct text *t);

#endif
