/* SPDX-License-Identifier: MIT */
/*
 * Which records of a journal are missing, and what that means for its jobs.
 *
 * A *hole* is a missing number that was synced, or any missing number if the machine has not been restarted since the
 * line was written; also at the end of the file, if the counters are ahead of it. Missing numbers that were not synced
 * before a restart are the permitted loss of a power cut and have no effect.
 *
 * If there is a hole, a job keeps its state if it has as many records as in `counts`, or if it has ended. Any other job
 * becomes `unknown`. Jobs whose `add` was lost are missing: jobs_find() does not find them, but their ids are in
 * jobs.lost_ids. Lines of commands files may be lost with such jobs or with a `seen` line: jobs.lines_lost.
 */
#ifndef QUEUE_JOURNAL_DAMAGE_H
#define QUEUE_JOURNAL_DAMAGE_H

#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"

/* The counters from before the lines were read, so that lines appended meanwhile do not count as missing. */
struct damage_check {
	bool loading; /* the file is read from its beginning */
	bool known;   /* the fields below are valid */
	bool rebooted;
	char queue[JOURNAL_QUEUE_ROOM];
	uint64_t generation, next_n, synced_n, next_id;
};

/* Call before journal_reader_read(). dir_fd: the journal's folder, or -1. */
void damage_look(struct damage_check *c, const struct journal_reader *r, int dir_fd);

/*
 * Call after journal_reader_read() has returned 0. Takes the append lock briefly if there is a hole. Returns 0, or 1 if
 * the file was replaced meanwhile: discard what was read and begin again; or a negative errno value.
 */
int damage_judge(const struct damage_check *c, struct journal_reader *r, int dir_fd, struct jobs *js);

#endif
