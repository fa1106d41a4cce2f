/* SPDX-License-Identifier: MIT */
/*
 * A run with everything recorded: a generator of numbered tasks, callbacks that
 * note what they were told, and some memory that the test shares with its forked
 * workers. Nothing is asserted inside a callback: a jump out of gd_run() would
 * leave its workers behind.
 */
#ifndef TESTS_POOL_LAB_H
#define TESTS_POOL_LAB_H

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "gpu_dispatch.h"

#define LAB_WAIT_MS 20000 /* for what must happen; far more than it takes */
#define LAB_WORDS   256

enum lab_kind {
	LAB_SUCCESS = 1,
	LAB_ERROR,
	LAB_TIMEOUT,
	LAB_START,
	LAB_SETUP_FAIL,
	LAB_CLEANUP_FAIL,
	LAB_EXIT,
	LAB_KINDS,
};

/* One callback. */
struct lab_note {
	enum lab_kind kind;
	struct gd_event event; /* task, result: only the sizes */
	uint64_t task;         /* the task's first eight bytes, and the result's */
	uint64_t result;
	char message[LAB_WORDS];
};

/* Seen by the test and by its forked workers. */
struct lab_shared {
	sem_t gates[4];
	_Atomic uint64_t words[64];
};

struct lab {
	struct gd_options options;
	struct gd_source source;
	struct gd_dispatcher *dispatcher;
	struct gd_stats stats;
	struct gd_error err;

	struct lab_note *notes;
	size_t num_notes;
	size_t room;
	size_t count[LAB_KINDS];
	size_t progress;
	struct gd_stats last_progress;
	struct gd_stats exit_stats;

	uint64_t tasks; /* that the generator gives */
	uint64_t given;
	/* A test's own part of the callbacks; what it returns is returned. */
	int (*on_note)(struct lab *lab, const struct lab_note *note, const struct gd_event *event);
	void (*on_give)(struct lab *lab); /* in the generator, before each task */
	void *extra;
	struct lab_shared *shared;
};

/* For worker hooks: the same memory. */
extern struct lab_shared *lab_shared;

/* cmocka's: *state is the lab; two simulated GPUs, every callback, ten tasks. */
int lab_setup(void **state);
int lab_teardown(void **state);

/* gd_create() and gd_run(); the dispatcher stays for the test to ask. */
int lab_run(struct lab *lab, const struct gd_worker_ops *ops);

/* The i-th note of a kind, or NULL. */
const struct lab_note *lab_note(const struct lab *lab, enum lab_kind kind, size_t i);

/* Each of the tasks had exactly one end, and on_exit was the last of all. */
void lab_assert_complete(const struct lab *lab);
void lab_assert_contains(const char *text, const char *words);

/* Waits up to LAB_WAIT_MS; false if nobody came. */
bool lab_pass(int gate);
void lab_open(int gate);

/* Whether the process is gone, zombies too; waits up to LAB_WAIT_MS. */
bool lab_gone(pid_t pid);

uint64_t lab_now(void);

/* "VmHWM" and the like, in KiB, of this process; or 0. */
size_t lab_status(const char *field);

/* A directory of the test's own, under build or /tmp; removed with all in it by lab_teardown(). */
const char *lab_dir(void);

/* Answers with the task's own bytes. */
int lab_echo(struct gd_worker *w, void *state, const struct gd_bytes *task);
uint64_t lab_number(const struct gd_bytes *bytes);

#if defined(__SANITIZE_ADDRESS__)
#define LAB_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LAB_ASAN 1
#endif
#endif
#ifndef LAB_ASAN
#define LAB_ASAN 0
#endif

#endif
