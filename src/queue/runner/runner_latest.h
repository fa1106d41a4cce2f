/* SPDX-License-Identifier: MIT */
/*
 * The symbolic link `latest` next to the logs, to the log of the attempt that started last. Each start
 * notes its log; the link is made later, once for many starts.
 */
#ifndef QUEUE_RUNNER_RUNNER_LATEST_H
#define QUEUE_RUNNER_RUNNER_LATEST_H

struct runner;

/* log: a path, which is copied. */
void runner_latest_note(struct runner *r, const char *log);
/* Makes the link, if a log was noted since the last call. Best effort. */
void runner_latest_link(struct runner *r);

#endif
