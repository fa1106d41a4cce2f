/* SPDX-License-Identifier: MIT */
/*
 * A cluster, generated from a seed, around the pure cores of src/slurm: nodes with their own clocks, a network, a
 * shared file system, a slurmctld that loses state, coordinators that are killed, stopped and replaced.
 *
 * The world knows which process of which attempt is alive at any time, and checks each begin and each line of the
 * journal against that. A violation is printed with the seed and the time, and ends the program.
 */
#ifndef BENCH_SIMULATE_SLURM_H
#define BENCH_SIMULATE_SLURM_H

#include "base/clock.h"
#include "base/text.h"
#include "slurm/coordinator_core.h"
#include "slurm/mutant.h"
#include "slurm/pilot_core.h"

#define SIM_NODES        3
#define SIM_JOBS         10
#define SIM_ATTEMPTS     48 /* of one job */
#define SIM_PILOTS       128
#define SIM_COORDINATORS 2 /* at a time: the current one, and one that does not know that it was replaced */
#define SIM_LINKS        64
#define SIM_SLOTS        2 /* jobs of one pilot at a time */
#define SIM_STEP_NS      (50 * NS_PER_MS)
#define SIM_LEASE_MS     60000
#define SIM_SILENCE_MS   6000

/* ---- The truth about one attempt ---- */
struct sim_attempt {
	bool begun, alive;
	int pilot;
	uint64_t exited_at;
	uint64_t over_at;             /* when it ends by itself */
	enum attempt_outcome planned; /* how it ends by itself */
	enum attempt_outcome actual;  /* how it ended: what the journal must contain */
	bool handles_term;            /* exits 0 at once when it is told to end */
	bool near_term;               /* it ended by itself, but too close to the pilot's end to tell */
	bool in_outbox;               /* its end is synced to the outbox */
	bool stopped;                 /* PILOT_STOP or PILOT_END_ALL */
	uint64_t stop_at;
	enum cancel_mode mode;
	bool told_by_slurm; /* it got the signal of scancel directly */
	uint64_t term_at;
};

struct sim_pilot_event {
	struct sim_pilot_event *next;
	struct pilot_event event;
	struct frame *frame;
};

/* An end in an outbox file. */
struct sim_outbox {
	struct frame_end end;
	bool synced;
	uint64_t sync_at;
};

struct sim_pilot {
	bool used, alive;
	char name[FRAME_NAME_ROOM];
	int node;
	uint64_t slurm_job;
	struct pilot_core *core;
	uint64_t armed_ns; /* the kernel's timer, on the node's clock; 0: not armed */
	uint64_t paused_at, paused_until;
	struct sim_pilot_event *first, **last;
	struct sim_outbox outbox[SIM_JOBS * 8];
	size_t num_outbox;
	bool term;
};

struct sim_node {
	bool up;
	double rate;
	uint64_t boot_at; /* true time */
	uint64_t up_at;   /* time of the next boot */
	int64_t wall_ms;  /* error of its wall clock */
	uint64_t cut_until, nfs_until;
	bool slurmd;
	uint64_t slurmd_at, slurmd_dead_at, slurmd_back_at;
};

enum sim_direction {
	TO_COORDINATOR,
	TO_PILOT,
};

struct sim_message {
	struct sim_message *next;
	uint64_t at;
	struct frame *frame; /* NULL: the other side has closed the connection */
};

/* One connection. */
struct sim_link {
	bool used;
	int pilot, coordinator;
	uint64_t coordinator_epoch; /* a later coordinator in the same slot is a different one */
	uint64_t number;            /* the coordinator's number; the pilot's is `connection` */
	uint64_t connection;
	uint64_t connected_at; /* 0: the pilot knows that it is connected */
	bool open[2];          /* to receive, by direction */
	struct sim_message *first[2], **last[2];
	uint64_t latest[2];
};

/* A line of the journal. */
struct sim_record {
	enum write_kind kind; /* 0: a coordinator */
	struct attempt_id id;
	struct frame_end end;
	bool hold;
	int pilot;
	int64_t lease_ms;
	uint64_t epoch;
};

/* A pending answer to a coordinator. */
struct sim_answer {
	struct sim_answer *next;
	uint64_t at;
	struct coordinator_event event;
	size_t record; /* synced with WRITTEN: this line and all before it */
	char name[FRAME_NAME_ROOM];
	struct frame_end *ends;
	struct slurm_listing listing;
	struct listed_job *jobs;
	struct listed_node *nodes;
};

struct sim_coordinator {
	bool alive;
	struct coordinator_core *core;
	uint64_t epoch;
	double rate;
	uint64_t offset, paused_until;
	bool ready[SIM_PILOTS];
	struct sim_answer *answers;
};

enum sim_slurm_state {
	SIM_RUNNING,
	SIM_COMPLETING,
	SIM_TERMINAL,
	SIM_NODE_FAIL,
	SIM_PENDING,
};

struct sim_slurm_job {
	bool used;
	uint64_t id;
	int node, pilot;
	enum sim_slurm_state state;
	uint64_t kill_at, over_at;
	uint32_t restarts;
};

struct sim_ctld {
	int64_t boot_ms;
	struct sim_slurm_job jobs[SIM_PILOTS];
	size_t num_jobs;
};

struct sim_world {
	uint64_t seed, random;
	uint64_t now; /* true time */
	bool calm;    /* no new faults */
	bool verbose;
	struct sim_node nodes[SIM_NODES];
	struct sim_pilot pilots[SIM_PILOTS];
	int num_pilots;
	struct sim_link links[SIM_LINKS];
	uint64_t link_numbers;
	struct sim_coordinator coordinators[SIM_COORDINATORS];
	int current;         /* the coordinator whose address pilots find */
	uint64_t restart_at; /* 0: none is pending */
	uint64_t epoch;      /* of the last `coordinator` record: the fence */
	struct sim_record *journal;
	size_t num_records, synced, records_capacity;
	struct sim_attempt attempts[SIM_JOBS + 1][SIM_ATTEMPTS];
	struct sim_ctld ctld, saved;
	uint64_t ctld_away_until, outbox_bad_until, next_launch_at;
	/* Figures. */
	uint64_t faults, begins, losses, voids, proofs[PROOF_SLURM + 1], restarts;
};

/* The state of a job according to the journal. */
struct sim_fold {
	bool final, held, running;
	enum attempt_outcome outcome;
	uint32_t last; /* the highest attempt */
	unsigned finals, losses;
	int pilot; /* of the running attempt */
};

/* An invariant was broken: a mutant is caught. */
_Noreturn void sim_fail(const struct sim_world *w, const char *format, ...) GD_PRINTF(2, 3);
/* The simulator's limits are too small, or jobs do not end: a failure even with a mutant. */
_Noreturn void sim_wrong(const struct sim_world *w, const char *format, ...) GD_PRINTF(2, 3);
uint32_t sim_random(struct sim_world *w, uint32_t below);
/* True with probability 1/n. */
bool sim_chance(struct sim_world *w, uint32_t n);
uint64_t sim_seconds(struct sim_world *w, uint32_t min, uint32_t max);
void sim_say(const struct sim_world *w, const char *format, ...) GD_PRINTF(2, 3);

void sim_init(struct sim_world *w, uint64_t seed);
void sim_finish(struct sim_world *w);
void sim_step(struct sim_world *w);
/* Whether each job has a final end, or is held. */
bool sim_is_done(struct sim_world *w);

/* ---- simulate_slurm_network.c ---- */
struct frame *sim_frame_copy(const struct frame *f);
void sim_frame_free(struct frame *f);
void sim_link_open(struct sim_world *w, int pilot, uint64_t connection);
void sim_link_send_to_coordinator(struct sim_world *w, int pilot, uint64_t connection, const struct frame *f);
void sim_link_send_to_pilot(struct sim_world *w, int coordinator, uint64_t number, const struct frame *f);
void sim_link_close_by_pilot(struct sim_world *w, int pilot, uint64_t connection);
void sim_link_close_by_coordinator(struct sim_world *w, int coordinator, uint64_t number);
void sim_links_drop_pilot(struct sim_world *w, int pilot);
void sim_links_drop_coordinator(struct sim_world *w, int coordinator);
void sim_network_step(struct sim_world *w);

/* ---- simulate_slurm_pilots.c ---- */
uint64_t sim_node_clock(const struct sim_world *w, int node);
int64_t sim_node_wall_ms(const struct sim_world *w, int node, uint64_t at);
int sim_pilot_start(struct sim_world *w, int node, uint64_t slurm_job);
void sim_pilot_event(struct sim_world *w, int pilot, const struct pilot_event *e);
/* Kills all its processes. */
void sim_pilot_kill(struct sim_world *w, int pilot, bool power);
void sim_pilot_term(struct sim_world *w, int pilot);
void sim_pilots_step(struct sim_world *w);

/* ---- simulate_slurm_coordinators.c ---- */
void sim_coordinator_start(struct sim_world *w, int index);
void sim_coordinator_kill(struct sim_world *w, int index, bool power);
void sim_coordinator_event(struct sim_world *w, int index, const struct coordinator_event *e);
void sim_coordinators_step(struct sim_world *w);
void sim_fold(const struct sim_world *w, uint64_t job, struct sim_fold *ret);

/* ---- simulate_slurm_cluster.c: Slurm ---- */
void sim_cluster_step(struct sim_world *w);
void sim_cluster_list(struct sim_world *w, struct sim_answer *a);
void sim_faults(struct sim_world *w);

#endif
