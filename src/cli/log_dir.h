/* SPDX-License-Identifier: MIT */
/* The directory that logs of jobs go to. */
#ifndef CLI_LOG_DIR_H
#define CLI_LOG_DIR_H

#include "queue/input/config.h"

/* The configured directory as an absolute path, to be freed. NULL: none is configured, or an error with errno set. */
char *log_dir_configured(const struct config *c);

/* The configured directory, else "logs" next to the journal. To be freed; NULL when memory ran out. */
char *log_dir_find(const struct config *c, const char *journal_path);

#endif
