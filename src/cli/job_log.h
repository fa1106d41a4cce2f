/* SPDX-License-Identifier: MIT */
/*
 * Opens a job's log for a viewer, possibly a remote one.
 *
 * The path comes from the journal, and the journal may have been written by another user: it must not become a way to
 * read any file of this account. Only a regular file is opened, never a symbolic link. If no other user can write the
 * journal, the file must belong to the journal's owner or root, and must be in the log folder or be named as a log of
 * this job. Otherwise it must be in the log folder and be named as a log of this job, no link of another user may lead
 * to the folder unless the user has named the folder, and folder and file must belong to the owner of the journal.
 *
 * If the file is missing, the directory of the queue may have been renamed: a log with the same name in the log folder,
 * which passes the same checks, is opened instead.
 */
#ifndef CLI_JOB_LOG_H
#define CLI_JOB_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu_dispatch.h"

struct job_log_source {
	const char *log_dir; /* the folder for logs */
	bool is_named;       /* the user has named the folder */
	bool for_everybody;  /* it is shown even to users without permission to read the file */
	int journal_fd;
};

/* -EPERM if the file must not be shown; -ENOENT if it does not exist. */
int job_log_open(const char *path, uint64_t id, const struct job_log_source *s, int *ret_fd, struct gd_error *err);

/*
 * Where a missing log of this job is if the directory of the queue was renamed: the path of the same name in the log
 * folder. NULL: it does not have the name of a log of this job. Release it with free().
 */
char *job_log_moved_path(const char *path, uint64_t id, const char *log_dir);

#endif
