/* SPDX-License-Identifier: MIT */
/*
 * Environments of jobs, stored next to the journal: a file for each distinct content, named by its hash, readable only
 * by the owner (they contain secrets). An existing file is always complete.
 */
#ifndef QUEUE_JOURNAL_ENVIRONMENT_H
#define QUEUE_JOURNAL_ENVIRONMENT_H

#include <stddef.h>
#include <sys/types.h>

#include "base/hash.h"
#include "gpu_dispatch.h"

/* A variable of each stored environment: the umask of the process that stored it, in octal. */
#define ENVIRONMENT_UMASK "GPUQ_UMASK"

/* Stores and syncs an environment and returns its name. dir_fd: the journal's folder. */
int environment_save(int dir_fd, char *const *environment, char ret_name[HASH_TEXT], struct gd_error *err);

#define ENVIRONMENT_OF_ANYBODY ((uid_t)-1)

/*
 * The entries, each NUL-terminated, in one allocation. dir_fd may be a folder of another user: no link in it is
 * followed. -EPERM: the file does not belong to `owner`.
 */
int environment_load(int dir_fd, const char *name, uid_t owner, char **ret, size_t *ret_size);

#endif
