/* SPDX-License-Identifier: MIT */
/*
 * The warden: a small single-threaded process between the pool's owner (the process that opened it) and the workers. It
 * forks the workers, so that a crashed worker can be replaced while the owner has threads. It reaps the workers and the
 * processes that they leave behind, enforces deadlines while the owner's thread is in a callback, and ends all workers
 * when the owner is gone.
 *
 * It receives orders and answers with reports, one message each, over a socket. After the fork it allocates nothing: if
 * workers are executed, the owner may have threads, and one of them may have held the allocator's lock during the fork.
 */
#ifndef POOL_WARDEN_H
#define POOL_WARDEN_H

#include <stdatomic.h>

#include "base/pidref.h"
#include "gpu_dispatch.h"

/* Its name in /proc. A process that has an ancestor with this name is killed when its worker ends. */
#define WARDEN_NAME "gd-warden"

enum warden_order_kind {
	WARDEN_ORDER_START = 1, /* start a worker in this slot; comes with inbox, outbox, socket */
	WARDEN_ORDER_END_SETUP, /* kill it after the grace period, if its setup is not over then */
	WARDEN_ORDER_CLOSE,     /* the worker was asked to clean up, or leaves: its time runs from now */
	WARDEN_ORDER_KILL,      /* kill it now */
	WARDEN_ORDER_END,       /* kill all remaining workers, report, exit */
};

struct warden_order {
	uint32_t kind;
	uint32_t slot;
	uint64_t life; /* which process of this slot is meant */
};

#define WARDEN_ORDER_FDS 3

enum warden_report_kind {
	WARDEN_REPORT_STARTED = 1,
	WARDEN_REPORT_NOT_STARTED, /* error says why */
	WARDEN_REPORT_ENDED,       /* status and flags say how */
};

enum warden_end {
	WARDEN_END_TASK_TIMEOUT = 1 << 0, /* killed for these reasons … */
	WARDEN_END_SETUP_TIMEOUT = 1 << 1,
	WARDEN_END_CLEANUP_TIMEOUT = 1 << 2,
	WARDEN_END_CANCELLED = 1 << 3,
	WARDEN_END_ORDERED = 1 << 4,
	WARDEN_END_OUT_OF_MEMORY = 1 << 5, /* … or by the kernel, whose count of OOM kills has increased */
	WARDEN_END_STUCK = 1 << 6,         /* not ended: SIGKILL had no effect */
	WARDEN_END_NOT_EXECUTED = 1 << 7,  /* exec failed: error says why */
};

struct warden_report {
	uint32_t kind;
	uint32_t slot;
	uint64_t life;
	int32_t pid;
	int32_t status; /* as returned by wait() */
	int32_t error;
	uint32_t flags;
};

/* Data that the warden needs from the beginning; inherited by the fork and unchanged after it. */
struct warden_plan {
	size_t num_slots;
	const struct gd_worker_ops *ops;                /* forked workers … */
	const char *const *argv;                        /* … or executed ones */
	char *const *const *environments;               /* for the executed ones, by slot */
	const struct gd_env_change *const *env_changes; /* for the forked ones, by slot */
	const char *const *output_paths;                /* by slot; NULL: inherit the output */
	int event_fd;                                   /* for the workers: wakes the owner */
	int settings_fd;                                /* for the workers: see settings.h */
	uint64_t grace_ns;
	uint64_t setup_timeout_ns; /* 0: none, here and below */
	uint64_t cleanup_timeout_ns;
	uint64_t kill_wait_ns;
	uint64_t max_rss_bytes; /* workers that need more are noted: warden_says_large(); 0: no limit */
};

struct warden_shared; /* memory shared by owner and warden */
struct ward;

/* The owner's handle. */
struct warden {
	struct pidref process;
	int socket;
	int wake_fd;
	struct warden_shared *shared;
	size_t shared_size;
	struct ward *wards; /* allocated before the fork, for the other side */
};

int warden_start(const struct warden_plan *plan, struct warden *ret, struct gd_error *err);

int warden_order(struct warden *w, struct warden_order order, const int *fds, size_t num_fds);

/* The next report, without waiting: 1, or 0 for none; -EPIPE when the warden is gone. */
int warden_report(struct warden *w, struct warden_report *ret);

/* A task with a time limit was handed out: an idle warden starts its timer. */
void warden_notice(struct warden *w);

/* Tasks that have begun were cancelled: the warden checks their marks now. */
void warden_wake(struct warden *w);

/* Whether this life of the slot's worker was seen to need more than max_rss_bytes. */
bool warden_says_large(const struct warden *w, size_t slot, uint64_t life);

/* Waits for its end (it was sent WARDEN_ORDER_END, or is dead), kills it at the deadline, releases the handle. */
void warden_finish(struct warden *w, uint64_t deadline_ns);

#endif
