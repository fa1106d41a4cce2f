/* SPDX-License-Identifier: MIT */
/*
 * A job's log, opened for somebody who looks on, maybe from elsewhere.
 *
 * The path stands in the journal, and the journal may have been written by somebody else: it must not become a way to
 * read any file of this account. What is opened is a regular file and no symbolic link. If nobody else can write the
 * journal, it is in the folder for logs or is named as a log of this very job. Otherwise it is both, no link of another
 * user leads to the folder, and folder and file belong to the owner of the journal.
 */
#ifndef CLI_JOB_LOG_H
#define CLI_JOB_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu_dispatch.h"

struct job_log_source {
	const char *log_dir; /* the folder for logs */
	bool is_named;       /* the user has named it */
	int journal_fd;
};

/* -EPERM for what must not be shown; -ENOENT where there is no such file. */
int job_log_open(const char *path, uint64_t id, const struct job_log_source *s, int *ret_fd, struct gd_error *err);

#endif
