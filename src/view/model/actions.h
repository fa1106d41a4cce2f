/* SPDX-License-Identifier: MIT */
/*
 * What a view may ask of whoever filled its model: to act on jobs, and the facts
 * about one job that are too large or too secret to stand in the model.
 *
 * A view holds no more than these functions; it knows neither queue nor pool.
 * Each returns 0 or a negative errno value with words in err.
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

/* "cancel", … ; -1 for a word that is none */
const char *view_action_name(enum view_action action);
int view_action_parse(const char *word);
/* Whether it means something for a job in this state; whoever acts decides, this is for buttons and keys. */
bool view_action_applies(enum view_action action, const struct view_job *job);

/* What is known beside jobs and GPUs. */
struct view_facts {
	const char *journal; /* its path; NULL: there is none yet, or several */
	uint64_t journal_bytes;
	uint64_t bad_lines;
	uint64_t first_bad_line; /* its number; 0: not known */
	int64_t runner;          /* a PID; 0: nobody runs this queue; -1: somebody without a number here */
	bool paused;             /* nothing starts until somebody resumes the queue; of several queues: all of them */
	/* Of several queues, numbers are sums, and `runner` is one of the runners. */
	bool all_queues;
	size_t num_queues, num_runners;
	size_t num_unreadable; /* queues that are not among them, because they cannot be read */
};

struct view_actions {
	void *context;
	void (*facts)(void *context, struct view_facts *ret);
	/* Does it to those jobs it can be done to. -EPERM and the like where it could be done to none, and why. */
	int (*act)(void *context, enum view_action action, const uint64_t *ids, size_t count, size_t *ret_done,
		struct gd_error *err);
	/* What the job waits for or how it ended, in lines, each with its newline. */
	int (*why)(void *context, uint64_t id, struct text *t, struct gd_error *err);
	/* Its environment: entries, each ended by a NUL, in memory to be freed. -ENOENT: none was kept. */
	int (*environment)(void *context, uint64_t id, char **ret, size_t *ret_size, struct gd_error *err);
	/*
	 * The log of an attempt (1…; 0: the last), opened for reading: a regular file, the job's own and in a
	 * folder for logs, whatever the model says. -ENOENT: there is none (yet); -EPERM: it may not be shown.
	 */
	int (*open_log)(void *context, uint64_t id, unsigned attempt, int *ret_fd, struct gd_error *err);
};

#endif
