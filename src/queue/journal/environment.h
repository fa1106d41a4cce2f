/* SPDX-License-Identifier: MIT */
/*
 * Environments of jobs, kept beside the journal: a file for each distinct
 * content, named by its hash, readable by the owner alone (there are secrets in
 * them). A file that is there is complete.
 */
#ifndef QUEUE_JOURNAL_ENVIRONMENT_H
#define QUEUE_JOURNAL_ENVIRONMENT_H

#include <stddef.h>

#include "base/hash.h"
#include "gpu_dispatch.h"

/* Keeps it, synced, and tells its name. dir_fd: of the journal's folder. */
int environment_save(int dir_fd, char *const *environment, char ret_name[HASH_TEXT], struct gd_error *err);

/* The entries, each ended by a NUL, in one allocation. */
int environment_load(int dir_fd, const char *name, char **ret, size_t *ret_size);

#endif
