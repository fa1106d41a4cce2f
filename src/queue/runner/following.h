/* SPDX-License-Identifier: MIT */
/*
 * The runner's view of the journal: its lock, what has been read, and the lines to append.
 *
 * Jobs are handed out under `fence`. A record that may forbid a start raises the fence, so reading
 * such a record sets `fence_stale`, and no job is started before runner_resync().
 */
#ifndef QUEUE_RUNNER_FOLLOWING_H
#define QUEUE_RUNNER_FOLLOWING_H

#include "base/text.h"
#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"

struct loop_source;

struct runner_following {
	struct journal *journal;
	int lock_fd; /* runner.lock */
	uint64_t fence;
	bool fence_stale;
	bool must_read;
	bool paused;  /* as far as the runner has acted on it */
	bool loading; /* the first lines, or a new file after a prune, are being read */
	int watch_fd;
	struct journal_reader reader;
	struct jobs jobs;
	struct text to_append; /* lines for the journal, appended at the end of the round */
	uint64_t absent_ns;    /* since when the journal's folder has been missing; 0: it exists */
	struct loop_source *sync;
	bool sync_due; /* the timer is set */
	int syncer_fd;
	char *latest; /* log that the link `latest` will point to */
};

#endif
