/* SPDX-License-Identifier: MIT */
/* A test's own directory, and files in it. */
#ifndef TESTS_SUPPORT_SCRATCH_H
#define TESTS_SUPPORT_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "support/check.h"

#define SCRATCH_PATH_SIZE 64

/* Creates a new directory under /tmp: 0 or -1. */
int scratch_make(char path[SCRATCH_PATH_SIZE]);

/* Removes it with everything in it: 0 or -1. */
int scratch_remove(const char *path);

/* cmocka's setup and teardown: enters a new directory with an absolute path, and removes it afterwards. */
int scratch_enter(void **state);
int scratch_leave(void **state);
const char *scratch_path(void);
#define scratch_test(test) cmocka_unit_test_setup_teardown(test, scratch_enter, scratch_leave)

/* Files. An error fails the test. */
void scratch_write(const char *path, const void *data, size_t size);
void scratch_write_text(const char *path, const char *text);
/* Creates a file of this size, with its parent directories. */
void scratch_put(const char *path, size_t size_bytes);
/* Creates the parent directories of a file. */
void scratch_make_above(const char *path);
/* The text of a file, "" if it does not exist; valid until the next call. */
const char *scratch_read(const char *path);
bool scratch_has(const char *path);

#endif
