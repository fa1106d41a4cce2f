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
	int watch_fd;     /* -1: none, or not asked for */
	int dir_fd;       /* of the journal's folder; -1: there is none */
	bool reset;       /* since the update before the last: pointers to jobs of before are gone */
	bool reset_early; /* by follow_is_lost(): the next update reports it */
};

/* Reads all there is. Makes no file and needs no right to write. -ENOENT where there is no journal. */
int follow_open(const char *path, bool watch, struct follow *ret, struct gd_error *err);
/*
 * The same for a program that acts on what it reads: only a file in the journal's directory that passes the check of
 * journal_open() is read. Close it before the journal.
 */
int follow_open_journal(struct journal *j, struct follow *ret, struct gd_error *err);
void follow_close(struct follow *f);
/*
 * For a program on whose answer somebody acts: 0 if no other user can change the journal or put another file in its
 * place. From then on no file is read that others can change (-EPERM). Otherwise -EPERM, and nothing has changed.
 */
int follow_insist_on_trust(struct follow *f, struct gd_error *err);

/* Reads what is new. */
int follow_update(struct follow *f, struct gd_error *err);
/* Waits until something may be new, a second at most, or until one of the signals that the caller handles. */
void follow_wait(struct follow *f);
/* The same, waiting at most so long. */
void follow_wait_at_most(struct follow *f, int ms);
/* The same for several queues. */
void follow_wait_any(struct follow *fs, size_t count);

/*
 * Whether a running job's keeper is gone although its end is not written: then
 * the next runner will write that it failed. Certain; reads the journal once more.
 */
bool follow_is_lost(struct follow *f, uint64_t id);

/*
 * Whether a lease waits although its `gpuq exec` is gone: then the next runner will cancel it. If the last lines were
 * not read, it may have run in the meantime.
 */
bool follow_lease_is_left(const struct follow *f, const struct job *job);

/* Who runs this queue: a PID, 0 nobody, -1 somebody without a number here. */
pid_t follow_runner(const struct follow *f);

#endif
