/* SPDX-License-Identifier: MIT */
/* The state of a queue, read from its journal and kept up to date by a reader. */
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
	int dir_fd;       /* the journal's folder; a negative errno value: it cannot be opened, or there is none */
	bool reset;       /* the last update began again: earlier pointers to jobs are invalid */
	bool reset_early; /* reset by follow_is_lost(): the next update reports it */
};

/*
 * Opens the folder of a journal, or returns a negative errno value. Follows no link of another user, who may replace a
 * directory of the path with a link at any time.
 */
int follow_open_folder(const char *path);

/* Reads the whole journal. Creates no files and needs no write access. -ENOENT if there is no journal. */
int follow_open(const char *path, bool watch, struct follow *ret, struct gd_error *err);
/*
 * The same, but refuses a journal that other users can change or replace (-EPERM), now and later, before it is read: it
 * may be huge.
 */
int follow_open_trusted(const char *path, struct follow *ret, struct gd_error *err);
/*
 * The same for a program that acts on what it reads: reads only a file in the journal's directory that passes the
 * checks of journal_open(). Close it before the journal.
 */
int follow_open_journal(struct journal *j, struct follow *ret, struct gd_error *err);
void follow_close(struct follow *f);
/*
 * For a program whose output users act on: 0 if no other user can change or replace the journal. From then on, files
 * that other users can change are refused (-EPERM). Otherwise returns -EPERM and changes nothing.
 */
int follow_insist_on_trust(struct follow *f, struct gd_error *err);

/* Reads the new lines. */
int follow_update(struct follow *f, struct gd_error *err);
/* Waits up to a second until the journal may have changed, or until a signal that the caller handles. */
void follow_wait(struct follow *f);
/* The same, for at most ms. */
void follow_wait_at_most(struct follow *f, int ms);
/* The same for several queues. */
void follow_wait_any(struct follow *fs, size_t count);

/*
 * Whether the keeper of a running job is gone without having recorded the end: the next runner will record a failure.
 * Reads the journal once more to be certain.
 */
bool follow_is_lost(struct follow *f, uint64_t id);

/*
 * Whether a lease waits although its `gpuq exec` is gone: the next runner will cancel it. If the last lines were not
 * read, the lease may have run meanwhile.
 */
bool follow_lease_is_left(const struct follow *f, const struct job *job);

/* The PID of the runner; 0 if no runner is active, -1 if the runner has no PID here. */
pid_t follow_runner(const struct follow *f);
/* Whether only the owner of the queue can see if a runner is active; follow_runner() then returns 0. */
bool follow_runner_is_hidden(const struct follow *f);

#endif
