/* SPDX-License-Identifier: MIT */
/*
 * A job's log, opened for somebody who looks on, maybe from elsewhere.
 *
 * The path stands in the journal, and the journal may have been written by
 * somebody else: it must not become a way to read any file of this account. What
 * is opened is a regular file, no symbolic link, and either in the folder for
 * logs itself or, where nobody else can write the journal, named as a log of this
 * very job.
 */
#ifndef CLI_JOB_LOG_H
#define CLI_JOB_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu_dispatch.h"

/* log_dir: the folder for logs. -EPERM for what must not be shown; -ENOENT where there is no such file. */
int job_log_open(const char *path, uint64_t id, const char *log_dir, bool trusted, int *ret_fd, struct gd_error *err);

#endif
