/* SPDX-License-Identifier: MIT */
/*
 * The state of a coordinator and the functions shared by its files: coordinator_place.c has the jobs and the scheduler,
 * coordinator_execute.c the core with its connections, coordinator_supply.c Slurm, coordinator.c the loop. Only
 * coordinator.c and coordinator_{execute,hooks,place,publish,supply,sync,watch}.c include this.
 */
#ifndef SLURM_COORDINATING_H
#define SLURM_COORDINATING_H

#include "queue/schedule/scheduler.h"
#include "slurm/cluster_nodes.h"
#include "slurm/coordinator.h"
#include "slurm/link.h"

struct coordinator_hooks;
struct listener;
struct loop;
struct loop_source;
struct pilot_supply;

/* A connection of a pilot. */
struct coordinator_peer {
	struct link *link;
	uint64_t number;
};

/* An event for the core, kept until no call of the core is in progress. */
struct core_answer {
	enum coordinator_event_kind kind; /* WRITTEN, CHECKED, OUTBOX, DISCONNECTED or CANCEL */
	uint64_t number;                  /* the connection of DISCONNECTED */
	int result;
	struct attempt_id id;
	char pilot[FRAME_NAME_ROOM];
	struct frame_end *ends;
	size_t num_ends, ends_capacity;
};

/* Numbers of the core's writes that are appended but not synced. */
struct coordinator_sync {
	int fd; /* socket to the syncer; -1: none */
	struct loop_source *source;
	uint64_t *syncing; /* by the sync in progress */
	size_t num_syncing, syncing_capacity;
	uint64_t *waiting; /* for the next one */
	size_t num_waiting, waiting_capacity;
};

/* The last publication. latest: the log that the link `latest` should point to, or NULL. */
struct coordinator_publication {
	uint64_t generation; /* of the scheduler */
	uint64_t next_ns;    /* earliest time of the next publication; 0: nothing was published yet */
	char pause[256], note[256];
	char *latest;
};

struct coordinator {
	struct coordinator_options options;
	struct coordinator_journal *journal;
	struct coordinator_core *core;
	struct scheduler *scheduler;
	struct cluster_nodes nodes;
	struct loop *loop;
	struct loop_source *timer, *look, *watch;
	struct listener *listener;
	uint8_t secret[MAC_KEY_SIZE]; /* of the queue */
	struct coordinator_hooks *hooks;
	struct pilot_supply *supply; /* NULL: pilots are started externally */
	uint64_t supply_wake_ns, supply_next_ns;
	struct coordinator_peer *peers;
	size_t num_peers, peers_capacity;
	uint64_t last_peer;
	struct core_answer *answers;
	size_t num_answers, answers_capacity;
	struct coordinator_sync sync;
	struct text to_append; /* `fail` of jobs that can never run, hooks that become due */
	int signal_fd, watch_fd;
	uint64_t watch_again_ns; /* 0: changes of the journal are reported */
	int interrupts;
	uint64_t idle_since_ns; /* 0: not idle */
	bool must_read, must_place, nodes_changed;
	bool refused;  /* the core did not start a job: place nothing more before the next event */
	bool leaving;  /* SIGTERM */
	bool released; /* pilots are told to leave, because nothing is left to do */
	bool superseded;
	bool blocked_told; /* a message has reported that a foreign lock prevents writing */
	struct coordinator_publication publication;
	struct runner_result result;
	struct gd_error error;
	int fatal;
};

/* ---- coordinator_watch.c ---- */
void coordinating_say(const struct coordinator *c, const char *words);
void coordinating_say_joined(const struct coordinator *c, const struct coordinator_action *ready);
/* Warns once about a job whose pilots keep ending before it. */
void coordinating_say_interrupted(const struct coordinator *c, const struct job *job);
void coordinating_say_back(const struct coordinator *c, const struct coordinator_action *ready);
/* Starts reporting to the watcher; the last report is at the end. */
int coordinating_watch_begin(struct coordinator *c);
void coordinating_watch_end(struct coordinator *c);
void coordinating_on_signal(void *context, uint32_t events);
/* Number of jobs that run on pilots. */
size_t coordinating_num_running(const struct coordinator *c);
bool coordinating_has_running(const struct coordinator *c);
/* At the end: counts the jobs left behind, for the result and in a message. */
void coordinating_count_left(struct coordinator *c);

/* Makes the coordinator exit; the next one finds everything in the journal. */
void coordinating_die(struct coordinator *c, int code);

/* NULL if there is no such job. */
struct job *coordinating_job(const struct coordinator *c, uint64_t id);
/* Callbacks of struct coordinator_journal_options. The second one also runs after the start. */
void coordinating_on_change(void *context, struct job *job, int old);
void coordinating_on_reload(void *context);
/* Asks the core to end the attempt of a running job. */
void coordinating_cancel(struct coordinator *c, const struct job *job);
/* Jobs that an earlier coordinator gave to the pilot of this node. */
void coordinating_adopt(struct coordinator *c, int number);
/* The start of the job failed: the job waits again. */
void coordinating_withdraw(struct coordinator *c, uint64_t id);
/* --max-failures is reached. */
bool coordinating_is_full(const struct coordinator *c);
/* Starts the jobs that can start now. */
void coordinating_place(struct coordinator *c);

/* ---- coordinator_supply.c ---- */
int coordinating_open_supply(struct coordinator *c);
/* Submits and releases pilots. True: nothing is left to do, and the queue was released. */
bool coordinating_try_leave(struct coordinator *c);
/* Slurm has accepted no pilot and never will, and there are none of an earlier coordinator; err, if not NULL: why. */
bool coordinating_is_refused(const struct coordinator *c, struct gd_error *err);

/* ---- coordinator_sync.c ---- */
/* Posts COORDINATOR_WRITTEN for this write once it is synced. */
void coordinating_sync(struct coordinator *c, uint64_t write);
/* Starts a sync if none is in progress and lines wait for one. */
void coordinating_sync_begin(struct coordinator *c);
bool coordinating_is_syncing(const struct coordinator *c);
void coordinating_sync_close(struct coordinator *c);

/* ---- coordinator_publish.c ---- */
/* An attempt with this log has started. */
void coordinating_note_log(struct coordinator *c, const char *log);
/* Publishes changes. Returns when to call it again; 0: after the next change. */
uint64_t coordinating_publish(struct coordinator *c);
void coordinating_publish_end(struct coordinator *c);

/* For connections that have proven the secret; the context is the coordinator. */
extern const struct link_ops coordinating_link_ops;
/* Hands an event to the core and executes its actions. Not from inside an action. */
void coordinating_post(struct coordinator *c, const struct coordinator_event *e);
/* Queues an event for the core until no call of it is in progress; NULL if out of memory. */
struct core_answer *coordinating_answer(struct coordinator *c, enum coordinator_event_kind kind);
/* Passes all queued events to the core. */
void coordinating_post_answers(struct coordinator *c);
/* The same, and appends the lines that the core has requested, and starts a sync of the lines appended so far. */
void coordinating_settle(struct coordinator *c);

#endif
