/* SPDX-License-Identifier: MIT */
/*
 * Requests of a view to the owner of its model: actions on jobs, and facts about one job that are too large or too
 * secret for the model.
 *
 * A view has only these functions; it knows neither queue nor pool. Each returns 0 or a negative errno value with a
 * message in err.
 */
#ifndef VIEW_MODEL_ACTIONS_H
#define VIEW_MODEL_ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "gpu_dispatch.h"
#include "view/model/model.h"

enum view_action {
	VIEW_CANCEL = 0,
	VIEW_RETRY,
	VIEW_HOLD,
	VIEW_RELEASE,
	VIEW_URGENT,
};
#define VIEW_ACTIONS 5

/* "cancel", … ; -1 for an unknown word */
const char *view_action_name(enum view_action action);
int view_action_parse(const char *word);
/* Whether the action makes sense for a job in this state. For buttons and keys only: act() decides. */
bool view_action_applies(enum view_action action, const struct view_job *job);

/* Facts besides jobs and GPUs. */
struct view_facts {
	const char *journal; /* its path; NULL: there is no journal yet, or several */
	uint64_t journal_bytes;
	uint64_t bad_lines;
	uint64_t first_bad_line; /* its number; 0: unknown */
	int64_t runner;          /* a PID; 0: no runner is active; -1: active, but without a PID on this machine */
	bool runner_hidden;      /* `runner` is 0, but only the owner of the queue can see whether one is active */
	bool paused;             /* nothing starts until the queue is resumed; of several queues: all are paused */
	bool on_nodes;           /* jobs ran on nodes of a cluster */
	/* For several queues, numbers are sums, and `runner` is one of the runners. */
	bool all_queues;
	size_t num_queues, num_runners;
	size_t num_unreadable; /* queues that are not counted, because they cannot be read */
};

struct view_actions {
	void *context;
	void (*facts)(void *context, struct view_facts *ret);
	/* Acts on all jobs to which the action applies. An error with the reason if it applies to none. */
	int (*act)(void *context, enum view_action action, const uint64_t *ids, size_t count, size_t *ret_done,
		struct gd_error *err);
	/* What the job waits for or how it ended, in lines, each with its newline. */
	int (*why)(void *context, uint64_t id, struct text *t, struct gd_error *err);
	/* The job's environment: entries, each ended by a NUL. Release it with free(). -ENOENT: it was not stored. */
	int (*environment)(void *context, uint64_t id, char **ret, size_t *ret_size, struct gd_error *err);
	/*
	 * Opens the log of an attempt (1…; 0: the last) for reading: always a regular file, the job's own and in a log
	 * folder, whatever the model says. -ENOENT: there is no log (yet); -EPERM: it must not be shown.
	 */
	int (*open_log)(void *context, uint64_t id, unsigned attempt, int *ret_fd, struct gd_error *err);
};

#endif
