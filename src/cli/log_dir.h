/* SPDX-License-Identifier: MIT */
/* The directory for logs of jobs. */
#ifndef CLI_LOG_DIR_H
#define CLI_LOG_DIR_H

#include "cli/queue_choice.h"

/* The configured directory as an absolute path; release it with free(). NULL: none is configured, or an error with
 * errno set. */
char *log_dir_configured(const struct config *c);

/* The configured directory, else "logs" next to the journal. Release it with free(); NULL if out of memory. */
char *log_dir_find(const struct config *c, const char *journal_path);

/*
 * Whether logs may be put there: the directory is configured, is missing, or no other user can change it; or other
 * users are trusted. -EPERM with the reason.
 */
int log_dir_check(const struct queue_choice *q, const char *path, struct gd_error *err);

/*
 * Prints a note if log_access lets others read logs, but the permissions of the directory, which exists, do not let
 * them in. gpuq does not change these permissions: older logs may be readable, too.
 */
void log_dir_note_access(const struct config *c, const char *path);

#endif
