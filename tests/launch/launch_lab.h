/* SPDX-License-Identifier: MIT */
/*
 * A worker of files in a pool: a folder of the test's own, files put into it and
 * submitted, and how each of them ended.
 */
#ifndef TESTS_LAUNCH_LAB_H
#define TESTS_LAUNCH_LAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "launch/worker.h"

#define LAB_WAIT_MS 60000

struct lab_end {
	enum gd_failure failure;
	int code;
	bool timed_out;
	double seconds;
	char message[1024];
};

struct lab {
	char dir[64];
	struct launch_worker worker;
	struct gd_options options; /* sim:1 */
	struct gd_pool *pool;
	size_t submitted;
	size_t ended;
	struct lab_end ends[256]; /* by the order of submission */
	size_t setup_failures;
	char setup_message[1024];
};

/* cmocka's: *state is the lab. */
int lab_setup(void **state);
int lab_teardown(void **state);

/* launch_worker_check() and gd_open(). */
void lab_open(struct lab *lab);
/* A file of that name in the folder, which is made; "seconds" of audio. */
void lab_submit(struct lab *lab, const char *name, double seconds);
/* Polls until `count` files have ended, or no worker is left. */
void lab_await(struct lab *lab, size_t count);
void lab_await_setup_failure(struct lab *lab);
void lab_close(struct lab *lab);
/* One file, from opening to closing. */
const struct lab_end *lab_run_one(struct lab *lab, const char *name);

/* A file in the folder: its path (until the next call), its text ("" where there is none; until the next call). */
const char *lab_path(const struct lab *lab, const char *name);
const char *lab_read(const struct lab *lab, const char *name);
void lab_write(const struct lab *lab, const char *name, const char *text);
/* Polls until the file is there and has a line; that as a number. */
long lab_await_number(struct lab *lab, const char *name);

/* Whether the process ends in time; zombies have. */
bool lab_gone(pid_t pid);

void lab_assert_contains(const char *text, const char *words);

#endif
