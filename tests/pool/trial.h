/* SPDX-License-Identifier: MIT */
/*
 * A pool on trial: options with simulated GPUs, callbacks that keep the books
 * (each task exactly one end), and waiting for events with a deadline.
 *
 * Works in a test and in a host, a child process that a test makes to have the
 * pool in a program of its own: there a check that fails ends the host.
 */
#ifndef TESTS_POOL_TRIAL_H
#define TESTS_POOL_TRIAL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "gpu_dispatch.h"

#define TRIAL_WAIT_MS 20000 /* for anything that must happen: far more than it takes */

#if defined(__SANITIZE_ADDRESS__)
#define TRIAL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TRIAL_ASAN 1
#endif
#endif
#ifndef TRIAL_ASAN
#define TRIAL_ASAN 0
#endif

/* Fails the test, or ends the host. */
#define trial_check(condition) ((condition) ? (void)0 : trial_failed(__FILE__, __LINE__, #condition))
#define trial_equal(a, b)      trial_compare((long long)(a), (long long)(b), __FILE__, __LINE__, #a " == " #b)
_Noreturn void trial_failed(const char *file, int line, const char *what);
void trial_compare(long long a, long long b, const char *file, int line, const char *what);

/* What a task asks of a worker. Its result is trial_answer(number). */
struct job {
	uint32_t what;     /* a test's own; 0: just answer */
	uint32_t argument; /* likewise */
	uint64_t number;
};

static inline uint64_t trial_answer(uint64_t number)
{
	return number * 2 + 1;
}

/* Answers as trial_answer() has it. */
int trial_reply(struct gd_worker *w, const struct job *job);

/* Memory that test, hosts and forked workers share. Cleared for each test. */
#define BOARD_PIDS 512
struct board {
	atomic_int setups;
	atomic_int begun;
	atomic_int cleanups;
	atomic_int go;
	atomic_int notes[16];
	atomic_int num_pids;
	atomic_int pids[BOARD_PIDS];
};
extern struct board *board;
void board_add_pid(pid_t pid);

/* An event that outlives its callback. */
struct kept {
	struct gd_event event;
	char message[512];
};

struct trial {
	struct gd_options options;
	struct gd_pool *pool;
	int distrusted; /* the slot whose results may be wrong; -1: none */

	unsigned char *ends; /* by task id: how often it was called back */
	size_t room;
	uint64_t submitted;
	uint64_t last_id;
	bool out_of_order;
	size_t successes;
	size_t errors;
	size_t timeouts;
	size_t starts;
	size_t setup_failures;
	size_t cleanup_failures;
	size_t exits;
	size_t wrong; /* results, from a slot that is trusted */
	size_t by_failure[GD_NOT_CARRIED + 1];
	size_t failed_elsewhere; /* not in the slot that is distrusted */
	struct kept failure;     /* the last of each */
	struct kept setup_failure;
	struct kept cleanup_failure;
	struct gd_stats exit_stats;
	struct gd_stats close_stats;
};

/* cmocka's setup and teardown; *state is the trial. "sim:2", every callback set. */
int trial_setup(void **state);
int trial_teardown(void **state);

/* For hosts, which have no cmocka: the same by hand. */
struct trial *trial_new(void);

void trial_open(struct trial *t, const struct gd_worker_ops *ops);
void trial_submit(struct trial *t, uint32_t what, uint32_t argument);
/* With `size` bytes in all, which trial_intact() knows again. */
void trial_submit_sized(struct trial *t, uint32_t what, size_t size);
bool trial_intact(const struct gd_bytes *task);
void trial_fill(void *data, size_t size, const struct job *job);
void trial_submit_many(struct trial *t, size_t count);
/* Polls until the condition holds. */
void trial_until(struct trial *t, bool (*condition)(struct trial *t), const char *what);
#define trial_await(t, condition) trial_until(t, condition, #condition)
/* Polls until no task is outstanding; each has had its one end by then. */
void trial_drain(struct trial *t);
/* gd_close() and the books; returns what gd_close() did. */
int trial_close(struct trial *t);
/* No task without an end, none with two. */
void trial_check_books(const struct trial *t);

/* Polls until the slot's worker is ready, has a process, and that is not `not_this`. */
pid_t trial_pid(struct trial *t, int slot, pid_t not_this);
struct gd_worker_stats trial_worker(struct trial *t, int slot);

/* ---- Processes ---------------------------------------------------------- */

/* Waits until there is no such process any more, except maybe a zombie. False at the deadline. */
bool process_gone(pid_t pid, int timeout_ms);
bool process_alive(pid_t pid);
void process_kill(pid_t pid); /* SIGKILL, and waits */
pid_t process_parent(pid_t pid);
/* Waits until the thread sleeps: then it waits for whatever it was about to wait for. */
void thread_await_asleep(pid_t pid, pid_t tid);
void board_await(const atomic_int *word, int at_least);

/* Runs `host` in a child process, which leaves with what it returns; 0: all is well. */
pid_t host_start(int (*host)(void));
void host_check(pid_t host);
void host_run(int (*host)(void));

#endif
