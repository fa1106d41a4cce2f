/* SPDX-License-Identifier: MIT */
/* The symbolic link `latest` next to the logs. It is replaced by a rename, so it is never missing. */
#ifndef QUEUE_RUNNER_LATEST_LINK_H
#define QUEUE_RUNNER_LATEST_LINK_H

/* Points the link to this log, a path. Best effort. */
void latest_link_make(const char *log);

#endif
