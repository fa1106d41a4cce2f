/* SPDX-License-Identifier: MIT */
/*
 * A pool that a test drives by hand: options with simulated GPUs, callbacks that check that each task has exactly one
 * end and each answer is right, and waiting for events with a deadline.
 *
 * For tests in which workers, the warden or the whole program are killed, stopped or
 * starved, with many tasks. It works in a test and in a host (support/host.h). To check single callbacks, or a run of
 * the dispatcher, use recorder.h.
 */
#ifndef TESTS_POOL_POOL_RIG_H
#define TESTS_POOL_POOL_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu_dispatch.h"
#include "support/callbacks.h"
#include "support/check.h"

/* The request in a task. Its result is pool_rig_answer(number). */
struct rig_job {
	uint32_t what;     /* defined by the test; 0: just answer */
	uint32_t argument; /* likewise */
	uint64_t number;
};

static inline uint64_t pool_rig_answer(uint64_t number)
{
	return number * 2 + 1;
}

/* In hooks: the request in the task, and the expected answer. */
struct rig_job pool_rig_job(const struct gd_bytes *task);
int pool_rig_reply(struct gd_worker *w, const struct rig_job *job);

/* A process hook that only answers. */
int pool_rig_just_reply(struct gd_worker *w, void *state, const struct gd_bytes *task);

/* A process hook that counts begun tasks on the board, and answers or, if the job requests it, hangs until it is
 * killed. */
enum { RIG_JOB_ANSWER, RIG_JOB_HOLD };
int pool_rig_reply_or_hold(struct gd_worker *w, void *state, const struct gd_bytes *task);

/* Hooks that count on the board; the setup also adds its process to it. */
int pool_rig_note_setup(struct gd_worker *w, void **ret_state);
int pool_rig_note_cleanup(struct gd_worker *w, void *state);

/* An event that outlives its callback. */
struct kept_event {
	struct gd_event event;
	char message[512];
};

struct pool_rig {
	struct callbacks callbacks;
	struct gd_options options;
	struct gd_callbacks calls;
	struct gd_pool *pool;
	int distrusted;     /* the slot whose results may be wrong; -1: none */
	int64_t timeout_ms; /* of the tasks that are submitted from now on; 0: the pool's */
	void (*on_end)(struct pool_rig *rig, const struct gd_event *event); /* the test's part of the callbacks */

	unsigned char *ends; /* by task id: number of callbacks */
	size_t capacity;
	uint64_t submitted;
	uint64_t last_id;
	bool out_of_order;
	size_t successes;
	size_t errors;
	size_t timeouts;
	size_t cancelled;
	size_t starts;
	size_t messages;
	size_t setup_failures;
	size_t cleanup_failures;
	size_t exits;
	size_t wrong; /* wrong results from a trusted slot */
	size_t by_failure[GD_FAILURE_NOT_CARRIED + 1];
	size_t failed_elsewhere;   /* outside the distrusted slot */
	size_t late_elsewhere;     /* number of these that timed out */
	struct kept_event failure; /* the last of each */
	struct kept_event setup_failure;
	struct kept_event cleanup_failure;
	struct gd_stats exit_stats;
	struct gd_stats close_stats;
};

/* cmocka's setup and teardown; *state is the rig. "sim:2", every callback set, a new board. */
int pool_rig_setup(void **state);
int pool_rig_teardown(void **state);
#define pool_rig_test(test) cmocka_unit_test_setup_teardown(test, pool_rig_setup, pool_rig_teardown)

/* For tests that need several rigs: ends the rig in *state and creates the next. */
struct pool_rig *pool_rig_again(void **state);

/*
 * Repeats `attempt`, with a new rig, until it returns true because it was undisturbed. For short time limits: a machine
 * that stalls for a moment can exceed them in some attempts, a defect does so in every attempt.
 */
#define POOL_RIG_TRIES 20
#define pool_rig_try(attempt)                                                                                          \
	for (int tries_ = 1; !(attempt); tries_++)                                                                     \
	assert_true(tries_ < POOL_RIG_TRIES)

/* For hosts, which have no cmocka: the same by hand. */
struct pool_rig *pool_rig_new(void);
void pool_rig_free(struct pool_rig *rig);

void pool_rig_open(struct pool_rig *rig, const struct gd_worker_ops *ops);
/* Reserves records for this many tasks, for tests that submit tasks without the rig. */
void pool_rig_reserve(struct pool_rig *rig, size_t num_tasks);
void pool_rig_submit(struct pool_rig *rig, uint32_t what, uint32_t argument);
/* Submits a task of `size` bytes in total, which pool_rig_intact() can check. */
void pool_rig_submit_sized(struct pool_rig *rig, uint32_t what, size_t size);
bool pool_rig_intact(const struct gd_bytes *task);
void pool_rig_fill(void *data, size_t size, const struct rig_job *job);
void pool_rig_submit_many(struct pool_rig *rig, size_t count);
/* Polls until the condition holds. */
void pool_rig_until(struct pool_rig *rig, bool (*condition)(struct pool_rig *rig), const char *what);
#define pool_rig_await(rig, condition) pool_rig_until(rig, condition, #condition)
/* Conditions that many tests wait for. */
bool pool_rig_has_started(struct pool_rig *rig);       /* a task */
bool pool_rig_has_setup_failure(struct pool_rig *rig); /* at least one */
bool pool_rig_is_empty(struct pool_rig *rig);          /* no task is outstanding */
/* Polls until no task is outstanding; each task has had exactly one end. */
void pool_rig_drain(struct pool_rig *rig);
/* Calls gd_pool_close() and pool_rig_check_books(); returns the result of gd_pool_close(). */
int pool_rig_close(struct pool_rig *rig);
/* Checks that each task has exactly one end. */
void pool_rig_check_books(const struct pool_rig *rig);

/* Polls until the slot's worker is ready, has a process, and that is not `not_this`. */
pid_t pool_rig_pid(struct pool_rig *rig, int slot, pid_t not_this);
/* Kills the slot's worker and polls until the next one is ready. */
void pool_rig_replace_worker(struct pool_rig *rig, int slot);
struct gd_worker_stats pool_rig_worker(struct pool_rig *rig, int slot);

#endif
