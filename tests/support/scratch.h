/* SPDX-License-Identifier: MIT */
/* A directory of a test's own, and files in it. */
#ifndef TESTS_SUPPORT_SCRATCH_H
#define TESTS_SUPPORT_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "support/check.h"

#define SCRATCH_PATH_SIZE 64

/* Makes a new directory under /tmp: 0 or -1. */
int scratch_make(char path[SCRATCH_PATH_SIZE]);

/* Removes it with everything in it: 0 or -1. */
int scratch_remove(const char *path);

/* cmocka's setup and teardown: the current directory is a new one; afterwards it is removed. Its path is absolute. */
int scratch_enter(void **state);
int scratch_leave(void **state);
const char *scratch_path(void);
#define scratch_test(test) cmocka_unit_test_setup_teardown(test, scratch_enter, scratch_leave)

/* Files. What fails, fails the test. */
void scratch_write(const char *path, const void *data, size_t size);
void scratch_write_text(const char *path, const char *text);
/* A file of so many bytes, with the directories above it. */
void scratch_put(const char *path, size_t size_bytes);
/* The directories above a file. */
void scratch_make_above(const char *path);
/* The text of a file, "" where there is none; valid until the next call. */
const char *scratch_read(const char *path);
bool scratch_has(const char *path);

#endif
