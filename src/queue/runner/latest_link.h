/* SPDX-License-Identifier: MIT */
/* The symbolic link `latest` beside the logs. It is replaced by a rename, so that it never is missing. */
#ifndef QUEUE_RUNNER_LATEST_LINK_H
#define QUEUE_RUNNER_LATEST_LINK_H

/* Points it to this log, a path. A link that cannot be made is left out. */
void latest_link_make(const char *log);

#endif
