/* SPDX-License-Identifier: MIT */
/* Shared by the files of queue_view; except for a test, no other file includes this. */
#ifndef CLI_QUEUE_VIEW_PARTS_H
#define CLI_QUEUE_VIEW_PARTS_H

#include "cli/queue_view.h"
#include "gpu/probe.h"
#include "queue/input/id_list.h"
#include "queue/journal/follow.h"
#include "queue/journal/samples.h"
#include "queue/runner/verdicts.h"

/* Ended attempts on one GPU since the beginning of the journal. */
struct gpu_tally {
	uint64_t completed, failed, timeouts;
	int64_t last_duration_ms; /* -1: none has ended */
};

/* The same for a GPU of a cluster node. */
struct node_tally {
	char node[65];
	int gpu;
	struct gpu_tally tally;
};

/* A row for a GPU of this machine or of a node. */
struct gpu_row {
	int id;
	const char *node; /* NULL: this machine */
	int peer, peers;  /* pilots of one node may use the same GPU numbers: index and number of such GPUs; normally 0,
			     1 */
};

/* One of several queues. */
struct queue_part {
	struct queue_choice choice; /* with its own journal_path; all other settings are those of `whole` */
	struct queue_view *view;    /* writes into the model of `whole`; NULL: cannot be read */
	bool failed;                /* the failure was reported */
};

struct queue_view {
	const struct queue_choice *choice;
	struct queue_view_options options;
	struct view_model *model;
	struct view_actions actions;
	/* With options.all: a view for each queue. This view is then their `whole`: it has the model, launches and
	 * GPUs. */
	struct queue_part *parts; /* sorted by path */
	size_t num_parts, parts_capacity;
	unsigned last_queue;       /* number of the newest queue */
	uint64_t find_ns;          /* when to check for queues again */
	uint64_t jobs_version;     /* of the model, when work and GPUs were last updated */
	struct gd_error complaint; /* returned by the next update */
	/* Only in a view of one of several queues: the view of all queues, and this queue; otherwise NULL, 0, NULL. */
	struct queue_view *whole;
	unsigned queue;   /* its number in the model */
	char *queue_name; /* printable */
	bool has_queue;   /* false: the queue does not exist yet, and follow is empty */
	struct follow follow;
	int epoll_fd, timer_fd;
	char *log_dir; /* default directory for logs */
	pid_t runner;
	bool runner_hidden; /* only the owner of the queue can see whether there is a runner */
	/* Since the last update of the journal: jobs that changed, each at least once. */
	struct id_list changed;
	struct id_list running;
	int error; /* error of on_change */
	struct gpu_tally *tallies;
	size_t num_tallies, tallies_capacity;
	struct node_tally *node_tallies;
	size_t num_node_tallies, node_tallies_capacity;
	/* Buffers for one job that is put into the model. */
	struct view_attempt *attempts;
	size_t attempts_capacity;
	struct view_delay *delays;
	size_t delays_capacity;
	/* Memory peaks of running jobs, from the last sample. */
	struct sample_peak *peaks;
	size_t num_peaks, peaks_capacity;
	struct samples_stamp samples_stamp;
	struct text command, name;
	/* The GPUs. */
	struct gpu_probe *probe; /* NULL: not started, or it has ended */
	char *probe_spec;        /* see describe_probe() */
	uint64_t probe_retry_ns; /* a probe that has ended is restarted, but not before this */
	struct runner_rules rules;
	struct scheduler
		*cluster;       /* last published state of the coordinator; NULL: the queue is not on a cluster now */
	struct jobs no_jobs;    /* required by `cluster` */
	uint64_t cluster_rows;  /* hash of the shown rows of nodes; 0: none */
	int64_t wall_offset_ns; /* wall clock − monotonic clock, read once: times must not jitter */
};

/* ---- queue_view.c ----------------------------------------------------------------- */

/* Opens the view of one of several queues. */
int queue_view_open_part(
	struct queue_view *whole, const struct queue_choice *q, struct queue_view **ret, struct gd_error *err);

/* ---- queue_view_all.c ------------------------------------------------------------- */

/* Opens new queues and closes those that are gone. Fails only if the list of queues cannot be read. */
int queue_view_find_all(struct queue_view *v, struct gd_error *err);
/* Updates each queue, and the list of queues if that is due. */
int queue_view_update_all(struct queue_view *v, struct gd_error *err);
void queue_view_close_all(struct queue_view *v);
void queue_view_init_all_actions(struct queue_view *v);

/* The views whose jobs are shown: one for each queue, or the view itself. NULL: the queue cannot be read. */
static inline size_t queue_view_num_parts(const struct queue_view *v)
{
	return v->options.all ? v->num_parts : 1;
}

static inline const struct queue_view *queue_view_part(const struct queue_view *v, size_t i)
{
	return v->options.all ? v->parts[i].view : v;
}

/* ---- queue_view_jobs.c ------------------------------------------------------------ */

/* Puts all jobs into the model: at the beginning, and after a prune. */
int queue_view_put_all(struct queue_view *v);
/* Puts the jobs that changed. */
int queue_view_put_changed(struct queue_view *v);
/* Whether so many jobs run in a journal of another user that they are not looked up for each GPU and process. */
bool queue_view_has_too_many(const struct queue_view *v);
/* Puts the memory peaks of running jobs, if the runner has published new ones. */
int queue_view_put_peaks(struct queue_view *v);
/* Puts the counts. */
int queue_view_put_work(struct queue_view *v);
/* Converts a string with arbitrary bytes to valid UTF-8; stored in `room` if it differs. */
const char *queue_view_printable(struct text *room, const char *s);
/* For jobs.on_change. */
void queue_view_on_change(void *context, struct job *job, int old_state);

/* ---- queue_view_gpus.c ------------------------------------------------------------ */

/* Chooses the GPUs: --gpus, else the runner's, else those of the configuration. Starts a probe if they have changed. */
int queue_view_choose_gpus(struct queue_view *v, struct gd_error *err);
/* Puts the history that the runner recorded. */
int queue_view_put_noted(struct queue_view *v);
/* Puts new figures of the probe, and the use of the GPUs by jobs, into the model. */
int queue_view_read_gpus(struct queue_view *v);
int queue_view_put_gpus(struct queue_view *v);
void queue_view_close_gpus(struct queue_view *v);
int queue_view_put_row(struct queue_view *v, const struct gd_gpu *gpu, const struct gpu_row *row);

/* ---- queue_view_nodes.c ----------------------------------------------------------- */

/* Reads the published state of the coordinator, or of the coordinators of all queues. True: a queue is on a cluster. */
bool queue_view_read_nodes(struct queue_view *v);
/* Removes all GPUs from the model if other nodes than last time are shown, or if the id of the first one has changed.
 */
void queue_view_forget_nodes(struct queue_view *v, int first_id);
int queue_view_put_nodes(struct queue_view *v, int first_id);
void queue_view_close_nodes(struct queue_view *v);
/* Counts an ended attempt on a node. */
int queue_view_tally_node(struct queue_view *v, const char *node, int gpu, const struct job_attempt *a);
const struct gpu_tally *queue_view_node_tally(const struct queue_view *v, const char *node, int gpu);
/* The node that the job runs on, or ran on last; NULL: not on a cluster. */
const char *queue_view_node(const struct job *job);

/* ---- queue_view_actions.c --------------------------------------------------------------- */

void queue_view_init_actions(struct queue_view *v);

#endif
