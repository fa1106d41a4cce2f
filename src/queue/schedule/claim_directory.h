/* SPDX-License-Identifier: MIT */
/*
 * The directory that all users share for their folders of claims: $GPUQ_CLAIMS_DIR, else CLAIM_DIRECTORY_SYSTEM if root
 * has created it, else CLAIM_DIRECTORY_DEFAULT.
 *
 * It must be sticky. A directory that is named, in the variable or by the caller, must belong to this user or root, and
 * no other user may be able to replace it or a directory above it. GPUQ_TRUST accepts any existing directory that is
 * sticky; but a missing one is never created where another user could replace it, because it could be exchanged with a
 * private directory before its mode is set.
 */
#ifndef QUEUE_SCHEDULE_CLAIM_DIRECTORY_H
#define QUEUE_SCHEDULE_CLAIM_DIRECTORY_H

#include <stdbool.h>

#include "gpu_dispatch.h"

#define CLAIM_DIRECTORY_SYSTEM  "/run/gpuq"
#define CLAIM_DIRECTORY_DEFAULT "/tmp"

/*
 * Opens `dir`, or if it is NULL, the directory described at the top of this file. make: creates a missing directory
 * that is named. -ENOENT: it is missing. -EPERM: it is not sticky, or another user owns or can replace it.
 */
int claim_directory_open(const char *dir, bool make, int *ret_fd, struct gd_error *err);

#endif
