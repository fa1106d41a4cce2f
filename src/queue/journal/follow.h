/* SPDX-License-Identifier: MIT */
/* The state of a queue, read from its journal, and kept up to date by who only looks on. */
#ifndef QUEUE_JOURNAL_FOLLOW_H
#define QUEUE_JOURNAL_FOLLOW_H

#include "gpu_dispatch.h"
#include "queue/journal/jobs.h"
#include "queue/journal/journal.h"

struct follow {
	char *path;
	struct jobs jobs;
	struct journal_reader reader;
	int watch_fd; /* -1: none, or not asked for */
	int dir_fd;   /* of the journal's folder; -1: there is none */
	bool reset;   /* by the last update: pointers to jobs of before are gone */
};

/* Reads all there is. Makes no file and needs no right to write. -ENOENT where there is no journal. */
int follow_open(const char *path, bool watch, struct follow *ret, struct gd_error *err);
/*
 * The same for a program that acts on what it reads: only a file in the journal's directory that passes the check of
 * journal_open() is read. Close it before the journal.
 */
int follow_open_journal(const struct journal *j, struct follow *ret, struct gd_error *err);
void follow_close(struct follow *f);
/*
 * For a program on whose answer somebody acts: if no other user can have written the journal, no file that another user
 * puts in its place is read either (-EPERM).
 */
void follow_insist_on_trust(struct follow *f);

/* Reads what is new. */
int follow_update(struct follow *f, struct gd_error *err);
/* Waits until something may be new, a second at most, or until one of the signals that the caller handles. */
void follow_wait(struct follow *f);

/*
 * Whether a running job's keeper is gone although its end is not written: then
 * the next runner will write that it failed. Certain; reads the journal once more.
 */
bool follow_is_lost(struct follow *f, uint64_t id);

/* Who runs this queue: a PID, 0 nobody, -1 somebody without a number here. */
pid_t follow_runner(const struct follow *f);

#endif
