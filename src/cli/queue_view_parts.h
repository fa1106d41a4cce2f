/* SPDX-License-Identifier: MIT */
/* Between the parts of a queue_view; nobody else includes this. */
#ifndef CLI_QUEUE_VIEW_PARTS_H
#define CLI_QUEUE_VIEW_PARTS_H

#include "cli/queue_view.h"
#include "gpu/probe.h"
#include "queue/input/id_list.h"
#include "queue/journal/follow.h"
#include "queue/journal/samples.h"
#include "queue/runner/verdicts.h"

/* Ends on one GPU since the journal begins. */
struct gpu_tally {
	uint64_t completed, failed, timeouts;
	int64_t last_duration_ms; /* -1 */
};

/* The same of a GPU of a node of a cluster. */
struct node_tally {
	char node[65];
	int gpu;
	struct gpu_tally tally;
};

/* A row for a GPU: of this machine, or of a node. */
struct gpu_row {
	int id;
	const char *node; /* NULL: this machine */
	int peer, peers;  /* pilots of one node may number their GPUs alike: which of so many it is; of one: 0, 1 */
};

/* One of all queues. */
struct queue_part {
	struct queue_choice choice; /* journal_path is its own, all else that of the whole */
	struct queue_view *view;    /* writes into the model of the whole; NULL: it cannot be read */
	bool failed;                /* that was reported */
};

struct queue_view {
	const struct queue_choice *choice;
	struct queue_view_options options;
	struct view_model *model;
	struct view_actions actions;
	/* With options.all: a view of each queue. This one has the model, the launches and the GPUs. */
	struct queue_part *parts; /* by path */
	size_t num_parts, parts_capacity;
	unsigned last_queue;       /* number of the newest queue */
	uint64_t find_ns;          /* when to look for queues again */
	uint64_t jobs_version;     /* of the model: what work and GPUs tell of */
	struct gd_error complaint; /* that the next update returns */
	/* Of such a view; otherwise NULL, 0, NULL. */
	struct queue_view *whole;
	unsigned queue;   /* its number in the model */
	char *queue_name; /* printable */
	bool has_queue;   /* false: there is none yet, and follow is empty */
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
	struct node_tally *node_tallies;
	size_t num_node_tallies, node_tallies_capacity;
	/* Room for one job on its way into the model. */
	struct view_attempt *attempts;
	size_t attempts_capacity;
	struct view_delay *delays;
	size_t delays_capacity;
	/* Of jobs that run, as in the last sample. */
	struct sample_peak *peaks;
	size_t num_peaks, peaks_capacity;
	struct samples_stamp samples_stamp;
	struct text command, name;
	/* The GPUs. */
	struct gpu_probe *probe; /* NULL: not asked, or it has ended */
	char *probe_spec;        /* see describe_probe() */
	uint64_t probe_retry_ns; /* one that has ended is started anew, not at once */
	struct runner_rules rules;
	struct scheduler
		*cluster;       /* what the coordinator has published last; NULL: the queue is not on a cluster now */
	struct jobs no_jobs;    /* of `cluster` */
	uint64_t cluster_rows;  /* a hash of the rows that are shown */
	int64_t wall_offset_ns; /* wall clock − monotonic clock, taken once: times must not jitter */
};

/* ---- queue_view.c ----------------------------------------------------------------- */

/* A view of one of all queues. */
int queue_view_open_part(
	struct queue_view *whole, const struct queue_choice *q, struct queue_view **ret, struct gd_error *err);

/* ---- queue_view_all.c ------------------------------------------------------------- */

/* Opens queues that have come and forgets those that are gone. Fails only if there is no list of queues. */
int queue_view_find_all(struct queue_view *v, struct gd_error *err);
/* What is new of each, and in the list of queues if that is due. */
int queue_view_update_all(struct queue_view *v, struct gd_error *err);
void queue_view_close_all(struct queue_view *v);
void queue_view_init_all_actions(struct queue_view *v);

/* The views whose jobs are shown: one for each queue, or the view itself. NULL: a queue that cannot be read. */
static inline size_t queue_view_num_parts(const struct queue_view *v)
{
	return v->options.all ? v->num_parts : 1;
}

static inline const struct queue_view *queue_view_part(const struct queue_view *v, size_t i)
{
	return v->options.all ? v->parts[i].view : v;
}

/* ---- queue_view_jobs.c ------------------------------------------------------------ */

/* Everything of jobs anew: at the beginning, and after a prune. */
int queue_view_put_all(struct queue_view *v);
/* Those that changed. */
int queue_view_put_changed(struct queue_view *v);
/* The memory that running jobs have used, if the runner has noted it again. */
int queue_view_put_peaks(struct queue_view *v);
/* The counts. */
int queue_view_put_work(struct queue_view *v);
/* Valid UTF-8 of a string that may have any bytes, for the model; in `room` if that differs. */
const char *queue_view_printable(struct text *room, const char *s);
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
int queue_view_put_row(struct queue_view *v, const struct gd_gpu *gpu, const struct gpu_row *row);

/* ---- queue_view_nodes.c ----------------------------------------------------------- */

/* Reads what the coordinator has published. True: the queue is on a cluster, and its GPUs are those of the nodes. */
bool queue_view_read_nodes(struct queue_view *v);
int queue_view_put_nodes(struct queue_view *v);
void queue_view_close_nodes(struct queue_view *v);
/* An attempt on a node has ended. */
int queue_view_tally_node(struct queue_view *v, const char *node, int gpu, const struct job_attempt *a);
const struct gpu_tally *queue_view_node_tally(const struct queue_view *v, const char *node, int gpu);
/* The node that the job runs on, or ran on last; NULL: none of a cluster. */
const char *queue_view_node(const struct job *job);

/* ---- queue_view_actions.c --------------------------------------------------------------- */

void queue_view_init_actions(struct queue_view *v);

#endif
