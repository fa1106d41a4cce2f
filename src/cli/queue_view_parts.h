/* SPDX-License-Identifier: MIT */
/* Between the parts of a queue_view; nobody else includes this. */
#ifndef CLI_QUEUE_VIEW_PARTS_H
#define CLI_QUEUE_VIEW_PARTS_H

#include "cli/queue_view.h"
#include "gpu/probe.h"
#include "queue/input/id_list.h"
#include "queue/journal/follow.h"
#include "queue/runner/verdicts.h"

/* Ends on one GPU since the journal begins. */
struct gpu_tally {
	uint64_t completed, failed, timeouts;
	int64_t last_duration_ms; /* -1 */
};

struct queue_view {
	const struct queue_choice *choice;
	struct queue_view_options options;
	struct view_model *model;
	struct view_actions actions;
	bool has_queue; /* false: there is none yet, and follow is empty */
	struct follow follow;
	int epoll_fd, timer_fd;
	char *log_dir; /* where logs go where nobody says otherwise */
	pid_t runner;
	/* Of the journal since the last update: jobs that changed, each at least once. */
	struct id_list changed;
	struct id_list running;
	int error; /* of on_change */
	struct gpu_tally *tallies;
	size_t num_tallies, tallies_capacity;
	/* Room for one job on its way into the model. */
	struct view_attempt *attempts;
	size_t attempts_capacity;
	struct text command, name;
	/* The GPUs. */
	struct gpu_probe *probe; /* NULL: not asked, or it has ended */
	char *probe_spec;        /* see describe_probe() */
	uint64_t probe_retry_ns; /* one that has ended is started anew, not at once */
	struct runner_rules rules;
	int64_t wall_offset_ns; /* wall clock − monotonic clock, taken once: times must not jitter */
};

/* ---- queue_view_jobs.c ------------------------------------------------------------ */

/* Everything of jobs anew: at the beginning, and after a prune. */
int queue_view_put_all(struct queue_view *v);
/* Those that changed. */
int queue_view_put_changed(struct queue_view *v);
/* A jobs.on_change. */
void queue_view_on_change(void *context, struct job *job, int old_state);

/* ---- queue_view_gpus.c ------------------------------------------------------------ */

/* Which GPUs: --gpus, else the runner's, else those of the configuration. Starts the probe where that is news. */
int queue_view_choose_gpus(struct queue_view *v, struct gd_error *err);
/* The history that the runner kept. */
int queue_view_put_noted(struct queue_view *v);
/* News of the probe, and what the jobs do on the GPUs, into the model. */
int queue_view_read_gpus(struct queue_view *v);
int queue_view_put_gpus(struct queue_view *v);
void queue_view_close_gpus(struct queue_view *v);

/* ---- queue_view_actions.c --------------------------------------------------------------- */

void queue_view_init_actions(struct queue_view *v);

#endif
