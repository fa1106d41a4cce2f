/* SPDX-License-Identifier: MIT */
/*
 * The append-only JSONL file of what happened to each job: the only truth about
 * the queue, and the only bus between the processes that work on it.
 *
 * Any number of processes append, each under the append lock; a crash or a full
 * disk can leave one torn line at the end. The next append truncates it; readers
 * ignore it and never truncate: to them it may be a line that is being written.
 * A complete line is never taken back. Each line has a sequence number and a checksum (seal.h), which
 * journal_append() adds. `prune`, `verify --repair` and the conversion of an old journal put a new file in the
 * place of the old one, a new *generation* whose numbers begin with 1 (draft.h); an append checks, under the
 * lock, that the file it has open is still the one at the path.
 *
 * Beside FILE stands the folder FILE.d:
 *
 *     append.lock   the append lock; in it, a line of counters (below)
 *     counts        how many records each job has, see tally.h
 *     runner.lock   locked by the runner as long as it lives; in it, who that is
 *     keepers/      a file for each keeper, locked as long as it lives
 *     env/          environments of jobs, a file for each distinct content
 *     samples.jsonl how full and busy the GPUs were, see samples.h
 *
 * The counters, with a checksum: the queue's id, the generation, which file and which size of it they belong to,
 * the next sequence number and job id, the *fence*, host and boot, and the last number that was synced. The line
 * is written after each append. If it does not fit the file (a crash in between, a restored copy) or is damaged, it
 * is rebuilt from the file's own lines and the fence is raised. Numbers that the counters know and the file lacks
 * are missing records, see damage.h.
 *
 * The queue's id stands in the first line of the journal and in the counters. If they differ, the folder belongs
 * to another journal, and neither is used without --trust.
 *
 * The fence is how a start is decided upon once. It is raised by a runner that
 * takes the queue over, and by every append that may forbid a start (cancel,
 * hold, prune…). A runner that hands a job to a keeper tells it the fence under
 * which it decided, having read all that was appended before; the keeper appends
 * `start` only if the fence, under the append lock, is still the same. So the
 * start of a runner that has been replaced, and one that was decided in ignorance of a
 * cancellation, are void without a trace: the job provably never ran.
 *
 * Jobs are executed, so the file and the folder must be trusted (base/trust.h): each
 * descriptor is checked when it is opened, also when a file was put in the journal's
 * place. Neither may other users be able to rename files in its directory, or a directory above it; a sticky directory
 * is fine. A file is changed only after it was recognized as a journal. Reading needs no trust.
 */
#ifndef QUEUE_JOURNAL_JOURNAL_H
#define QUEUE_JOURNAL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/machine.h"
#include "base/text.h"
#include "gpu_dispatch.h"
#include "queue/journal/journal_limits.h"
#include "queue/journal/numbers.h"

/* 128 random bits as hexadecimal digits. */
#define JOURNAL_QUEUE_ROOM 33

struct journal {
	char *path;       /* absolute */
	const char *name; /* the last part of the path */
	char *dir_path;   /* path + ".d" */
	char *parent_path;
	int parent_fd; /* the directory in which the journal is */
	int fd;        /* the journal, O_APPEND */
	int dir_fd;
	int lock_fd;
	bool locked;
	bool accepted;   /* with --trust: other users may change the file and its directories */
	bool recognized; /* the file begins as a journal does */
	bool original;   /* it is a journal of the first gpu_dispatch, to be converted */
	bool fresh;      /* it was missing and has been created */
	dev_t dev;       /* of fd */
	ino_t ino;
	off_t size;    /* under the lock, like all of these: where the next line goes */
	uint64_t tail; /* a hash of the bytes before it */
	char queue[JOURNAL_QUEUE_ROOM];
	uint64_t generation;
	uint64_t next_n;   /* the sequence number of the next line */
	uint64_t synced_n; /* all lines up to this number survive a power cut */
	uint64_t next_id;
	uint64_t fence;
	char boot[37], host[65]; /* of the counters: where and since when numbers above synced_n are safe */
	struct machine here;     /* where this process runs */
	int counts_fd;           /* see tally.h */
	bool dirty;              /* the counters changed and are not written yet */
	uint64_t converted;      /* jobs of the first gpu_dispatch that the lock has converted */
	uint64_t unreadable;     /* lines of that file that could not be read */
	bool created;            /* the directory entry is not synced yet */
};

/*
 * The absolute path of a journal that is there or will be: symbolic links are followed, for prune renames.
 * *ret_objection (may be NULL): NULL, or how another user chose the file, for trust_refuse().
 */
int journal_resolve(const char *path, char **ret, const char **ret_objection, struct gd_error *err);

/*
 * Opens the journal and its folder for writing; makes both (for the owner alone) if they are not there.
 * -EPERM if another user can have written or replaced one of them, unless `accepted`; -EINVAL if the file is not a
 * journal.
 *
 * The directory stays open, and files are opened and renamed in it, not by their paths: while the user has moved it
 * elsewhere, nothing is written to what has its path.
 */
int journal_open(const char *path, bool accepted, struct journal **ret, struct gd_error *err);
/* The same in a directory that is open (parent_fd of another process); the path is absolute and has no links. */
int journal_open_at(int parent_fd, const char *path, bool accepted, struct journal **ret, struct gd_error *err);
void journal_close(struct journal *j); /* NULL is fine */
void journal_closep(struct journal **j);

/*
 * Between these two no other process appends. Locking brings size, next_id and
 * fence up to date. -EROFS, -EACCES, -ENOLCK, -ENOSPC…, with words.
 */
int journal_lock(struct journal *j, struct gd_error *err);
void journal_unlock(struct journal *j);

/*
 * How long to wait for the folder in which the queue stood, until no line can be expected to be written any more; 0: it
 * is there. It was removed, or renamed and may be renamed back.
 */
int journal_absence_limit_ms(const struct journal *j);
/* Whether the whole queue was removed, journal and folder: a line would make both again. */
bool journal_is_removed(const struct journal *j);
#define JOURNAL_REMOVED_MS 10000
#define JOURNAL_RENAMED_MS 600000

/* Why a lock of the queue could not be had, in words; returns code. */
int journal_lock_words(const struct journal *j, int code, struct gd_error *err);

/*
 * Appends whole lines, under the lock, and seals them (seal.h). Where they do not all fit (-ENOSPC, -EDQUOT, -EFBIG,
 * -EIO), the complete lines that were written stay, for a reader may have seen them, and *ret_written (may be NULL)
 * says how many bytes of `lines` those are: of a single line all or nothing.
 */
int journal_append(struct journal *j, const void *lines, size_t size, size_t *ret_written, struct gd_error *err);

/* The same for one line, sealed in the caller's memory: nothing is allocated if there is room. */
int journal_append_in(struct journal *j, const void *line, size_t size, struct text *sealed);

/* n ids in a row, under the lock; returns the first, or 0 if there are none left (JOB_MAX_ID). */
uint64_t journal_take_ids(struct journal *j, uint64_t n);
/* Under the lock: from here on, no start that was decided upon before. Written before it returns 0. */
int journal_raise_fence(struct journal *j, struct gd_error *err);

/* The fence as it stands in the counters, without the lock. -EAGAIN: the counters cannot be read just now. */
int journal_peek_fence(const struct journal *j, uint64_t *ret);

/* Lock, append, unlock. */
int journal_append_line(struct journal *j, const void *line, size_t size, struct gd_error *err);

/* What was appended survives a power cut from here on. Not under the lock. */
int journal_sync(struct journal *j, struct gd_error *err);

/*
 * The same for a process that has no journal open (the syncer): opens what is there, and makes nothing. Also syncs
 * `counts`, which nobody waits for.
 */
int journal_sync_at(int parent_fd, const char *name);

/* A longer line is not a line: the file has a hole, or another user made it. No longer one is written. */
#define JOURNAL_MAX_LINE_BYTES ((size_t)64 << 20)

/*
 * Removes a journal to which no job was ever added, with its folder: a command that made it and then failed leaves
 * nothing behind. Best effort.
 */
void journal_remove_empty(struct journal *j);

/* ---- Reading ------------------------------------------------------------- */

/*
 * Reads complete lines from the beginning, and goes on where it stopped. Has a
 * descriptor of its own for the journal, never for a file that is locked.
 *
 * Seals are checked here: lines are handed out without them, and a damaged line as JOURNAL_BAD_LINE, which is
 * not JSON. A line that comes twice is damaged. If lines are not in the order of their numbers, the reader asks to
 * begin again, and then hands them out in that order.
 */
struct journal_reader {
	const char *path;
	const struct journal *journal; /* NULL: the file is opened by its path, not in the journal's directory */
	bool checked;   /* set it to act on what is read: only files that others cannot change are read (-EPERM) */
	bool unordered; /* set it for an archive: numbers mean nothing */
	bool sorted;    /* set it to have lines handed out in the order of their numbers */
	struct journal_limits limits;
	struct gd_error refusal; /* after -EPERM, -EFBIG, -ETIME: why */
	int fd;                  /* -1: not there yet */
	dev_t dev;
	ino_t ino;
	off_t offset;     /* after the last complete line */
	uint64_t line_no; /* how many there were */
	bool original;    /* a journal of the first gpu_dispatch: lines have no seals */
	const char *line; /* as it stands in the file, also a damaged one; valid inside a journal_line_fn */
	size_t line_size;
	uint64_t next_n;           /* one more than the highest number so far */
	struct number_set missing; /* below next_n */
	uint64_t repeated;         /* how many lines came again */
	bool disordered;           /* lines were not in the order of their numbers */
	char *buf;
	size_t capacity;
};

#define JOURNAL_BAD_LINE "?"

/*
 * One line, without its newline and its seal; it is the reader's memory. Non-zero stops the reading and is returned.
 */
typedef int journal_line_fn(void *context, uint64_t line_no, const char *line, size_t size);

/* path, from journal_resolve(), is not copied. A file that is not there yet is an empty one. */
int journal_reader_init(struct journal_reader *r, const char *path);
/* The same in the directory of the journal, for a program that acts on what it reads. Sets `checked`. */
int journal_reader_init_at(struct journal_reader *r, const struct journal *j);
/* The same for the file that the journal has open, whatever is at its path. */
int journal_reader_init_open(struct journal_reader *r, const struct journal *j);
void journal_reader_finish(struct journal_reader *r);

/*
 * All complete lines that are new. Returns 0 at the end of the file, 1 when the file
 * at the path is another one by now (all of the old one has been read), or its lines are out of order:
 * forget what was read and call again, which begins anew. -EFBIG, -ETIME: the file is beyond a limit
 * (journal_limits.h); -EPROTONOSUPPORT: version 1. Lines that are appended meanwhile are left for the next call.
 */
int journal_reader_read(struct journal_reader *r, journal_line_fn *fn, void *context);
/* Whether other users can change the open file, or put another one in its place: 0 or -EPERM. */
int journal_reader_check(struct journal_reader *r);
/* Says what journal_reader_read() failed with, and what to do. Returns the code. */
int journal_reader_explain(const struct journal_reader *r, int code, struct gd_error *err);

/* ---- Following ------------------------------------------------------------ */

/*
 * A descriptor that is readable when the journal may have changed (inotify), or -1
 * where there is no such thing: then, and on file systems where the changes of
 * others are not told, looking once a second must do.
 */
int journal_watch(const char *path);
/* Empties it; watches the new file where another was put in the journal's place. */
void journal_watch_drain(int fd, const char *path);

/* How often to look anyway. */
#define JOURNAL_LOOK_MS 1000
/*
 * How often in a row a reader begins again with another file. Prunes are rare: somebody who replaces the journal all
 * the time wants its readers to hang.
 */
#define JOURNAL_MOST_RESETS 100 /* JOURNAL_MAX_FOREIGN_RESETS for journals that others can have written */

#endif
