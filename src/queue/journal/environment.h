/* SPDX-License-Identifier: MIT */
/*
 * Environments of jobs, stored next to the journal: a file for each distinct content, named by its hash, readable only
 * by the owner (they contain secrets). An existing file is always complete.
 */
#ifndef QUEUE_JOURNAL_ENVIRONMENT_H
#define QUEUE_JOURNAL_ENVIRONMENT_H

#include <stddef.h>

#include "base/hash.h"
#include "gpu_dispatch.h"

/* Stores and syncs an environment and returns its name. dir_fd: the journal's folder. */
int environment_save(int dir_fd, char *const *environment, char ret_name[HASH_TEXT], struct gd_error *err);

/* The entries, each NUL-terminated, in one allocation. */
int environment_load(int dir_fd, const char *name, char **ret, size_t *ret_size);

#endif
