/* SPDX-License-Identifier: MIT */
/*
 * Writes the order to run a job, KEEPER_ORDER_RUN (keeper_messages.h): the only place that combines the options of a
 * job with the defaults of its runner or coordinator.
 *
 *     job_order_write() → job_order_set_variable()… → job_order_set_gpus()
 *
 * A coordinator stops after the first step: the pilot, which has the GPUs, adds the rest.
 */
#ifndef QUEUE_KEEPER_JOB_ORDER_H
#define QUEUE_KEEPER_JOB_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/text.h"
#include "gpu_dispatch.h"
#include "queue/keeper/attempt_log.h"

struct job;
struct journal;
struct keeper_order;

/* Defaults for jobs without values of their own. */
struct order_defaults {
	const char *log_dir; /* absolute */
	const char *folder;  /* the journal's folder, with stored scripts and trees; borrowed; NULL: as recorded */
	int64_t timeout_ms;  /* 0: none */
	int64_t grace_ms;
	int64_t max_log_bytes; /* of all jobs; 0: no limit */
	int retries;
	enum log_access log_access;
	enum log_trust log_trust;
	/* Set by order_defaults_save(). */
	char env[HASH_TEXT];
	char *cwd;
};

/* Sets env and cwd, once: stores the environment of this process next to the journal, and uses its directory. */
int order_defaults_save(struct order_defaults *d, const struct journal *j, struct gd_error *err);
void order_defaults_finish(struct order_defaults *d);

/*
 * Appends the directory of the job and of its hooks. For a frozen job, its tree is in the folder of this queue: if the
 * queue was copied, the recorded path leads to the tree of the original. 0 or -ENOMEM.
 */
int job_order_append_directory(struct text *payload, const struct job *job, const struct order_defaults *d);
/* The log directory of the job's attempts. */
const char *job_order_log_dir(const struct job *job, const struct order_defaults *d);

/*
 * The order and its payload, without GPUs; the caller sets the fence. hook: the command to run after the end, or NULL.
 * claim: its text, or "". 0 or -ENOMEM.
 */
int job_order_write(const struct job *job, const struct order_defaults *d, const char *hook, const char *claim,
	struct keeper_order *ret, struct text *payload);
/* One more variable of the job's environment. NULL unsets it. */
void job_order_set_variable(struct keeper_order *o, struct text *payload, const char *name, const char *value);
/* The end of the payload. */
int job_order_set_gpus(struct keeper_order *o, struct text *payload, const int *gpus, size_t num_gpus);

#endif
