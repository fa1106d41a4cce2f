/* SPDX-License-Identifier: MIT */
/*
 * Append-only JSONL log of job events: the only source of the queue's state. The processes that work on the queue
 * communicate through it; runners and keepers also exchange messages over sockets (keeper_messages.h).
 *
 * Any number of processes append, each under the append lock; a crash or a full
 * disk can leave one torn line at the end. The next append truncates it; readers ignore it and never truncate: it may
 * still be being written. A complete line is never removed. Each line has a sequence number and a checksum (seal.h),
 * which journal_append() adds. `prune`, `verify --repair` and the conversion of an old journal replace the file with a
 * new *generation* whose numbers begin with 1 (draft.h). An append checks, under the lock, that its open file is still
 * the one at the path.
 *
 * Next to FILE is the folder FILE.d, which contains, among others:
 *
 *     append.lock   the append lock; contains a line of counters (below)
 *     counts        how many records each job has, see tally.h
 *     runner.lock   locked by the runner while it is alive; contains the runner's identity
 *     keepers/      a file for each keeper, locked while it is alive
 *     env/          environments of jobs, a file for each distinct content
 *     samples.jsonl memory and utilization of the GPUs over time, see samples.h
 *
 * The counters, with a checksum, are the queue's id, the generation, the file that they belong to and its size, the
 * next sequence number and job id, the *fence*, host and boot, and the last number that was synced. The line is written
 * after each append. If it does not match the file (a crash in between, a restored copy) or is damaged, it is rebuilt
 * from the lines of the file and the fence is raised. Numbers that the counters know but the file lacks are missing
 * records, see damage.h.
 *
 * The queue's id is in the first line of the journal and in the counters. If they differ, the folder belongs
 * to another journal, and neither is used without --trust.
 *
 * The fence voids outdated decisions to start a job. It is raised by a runner that takes over the queue, and by every
 * append that may forbid a start (cancel, hold, prune…). A runner that hands a job to a keeper passes the fence under
 * which it decided, after it read everything appended before. The job's first process appends `start` only if the
 * fence, under the append lock, is still the same. So a start by a runner that has been replaced, or by a runner that
 * had not read a cancellation, leaves no line: the job provably never ran.
 *
 * Jobs are executed, so the file and the folder must be trusted (base/trust.h): each descriptor is checked when it is
 * opened, also after the journal was replaced. Other users must not be able to create or rename files in its directory,
 * sticky or not, or to rename a directory above it. A file is changed only after it was recognized as a journal.
 * Reading needs no trust.
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
	int parent_fd; /* directory of the journal */
	int fd;        /* the journal, O_APPEND */
	int dir_fd;
	int lock_fd;
	bool locked;
	bool accepted;   /* --trust: the file and its directories may be writable by other users */
	bool recognized; /* the file begins as a journal does */
	bool original;   /* a journal of the original gpu_dispatch, which must be converted */
	bool fresh;      /* the file was missing and has been created */
	bool made;       /* like fresh, but remains true when the journal is opened again */
	dev_t dev;       /* of fd */
	ino_t ino;
	uint64_t birth; /* file_birth_ns() */
	off_t size;     /* offset of the next line; this and the following are valid under the lock */
	uint64_t tail;  /* hash of the bytes before `size` */
	char queue[JOURNAL_QUEUE_ROOM];
	uint64_t generation;
	uint64_t next_n;   /* the sequence number of the next line */
	uint64_t synced_n; /* all lines up to this number survive a power cut */
	uint64_t next_id;
	uint64_t fence;
	char boot[37], host[65]; /* from the counters: host and boot in which numbers above synced_n are safe */
	struct machine here;     /* machine of this process */
	int counts_fd;           /* see tally.h */
	bool moved;              /* see journal_is_moved() */
	bool dirty;              /* the counters changed and are not written yet */
	uint64_t converted;      /* number of jobs of the original gpu_dispatch that journal_lock() converted */
	uint64_t unreadable;     /* lines of that file that could not be read */
	bool created;            /* the directory entry is not synced yet */
};

/*
 * The absolute path of a journal, which need not exist: symbolic links are followed, because prune renames.
 * *ret_objection (may be NULL): NULL, or how another user influenced the path, for trust_refuse().
 */
int journal_resolve(const char *path, char **ret, const char **ret_objection, struct gd_error *err);

/*
 * Opens the journal and its folder for writing; creates both (accessible only by the owner) if they are missing. -EPERM
 * if another user may have written or replaced one of them, unless `accepted`; -EINVAL if the file is not a journal.
 *
 * The directory stays open, and files are opened and renamed relative to it, not by their paths: if the user has moved
 * the directory, appends go on at its new place, and nothing is written to another directory at its old path.
 */
int journal_open(const char *path, bool accepted, struct journal **ret, struct gd_error *err);
/* The same in an open directory (parent_fd of another process); the path is absolute and has no links. */
int journal_open_at(int parent_fd, const char *path, bool accepted, struct journal **ret, struct gd_error *err);
void journal_close(struct journal *j); /* NULL is fine */
void journal_closep(struct journal **j);

/*
 * Between these two no other process appends. Locking brings size, next_id and
 * fence up to date. -EROFS, -EACCES, -ENOLCK, -ENOSPC…, with a message.
 */
int journal_lock(struct journal *j, struct gd_error *err);
void journal_unlock(struct journal *j);

/*
 * Whether the directory of the journal, or one above it, was renamed: its path does not lead to it anymore. The journal
 * can still be read and appended to, but no job may be started: `path`, and all paths derived from it, lead elsewhere.
 * journal_lock() sets `moved` to the same.
 */
bool journal_is_moved(const struct journal *j);
/* The current path of the journal, for journal_open(), which checks it. -ESTALE: it has none in this process. */
int journal_locate(const struct journal *j, char **ret);

/*
 * How long a writer waits for the missing directory of the journal before it gives up; 0: the directory exists. It was
 * either removed, or renamed and may be renamed back.
 */
int journal_absence_limit_ms(const struct journal *j);
/* Whether the whole queue was removed, journal and folder: an append would create both again. */
bool journal_is_removed(const struct journal *j);
#define JOURNAL_REMOVED_MS 10000
#define JOURNAL_RENAMED_MS 600000

/* Sets the message for a lock of the queue that could not be taken; returns code. */
int journal_lock_words(const struct journal *j, int code, struct gd_error *err);
/*
 * Sets the message for an entry that cannot be opened. `at`: the journal's directory, its folder, or a directory in
 * that folder. If the entry belongs to root, the message names the command that corrects this. Returns code.
 */
int journal_refuse_part(const struct journal *j, int at, const char *name, int code, struct gd_error *err);

/*
 * Appends whole lines, under the lock, and seals them (seal.h). If they do not all fit (-ENOSPC, -EDQUOT, -EFBIG,
 * -EIO), the complete lines that were written stay, because a reader may have seen them, and *ret_written (may be NULL)
 * is their size in `lines`. A single line is written completely or not at all.
 */
int journal_append(struct journal *j, const void *lines, size_t size, size_t *ret_written, struct gd_error *err);

/* The same for one line, sealed in the caller's buffer: nothing is allocated if the buffer is large enough. */
int journal_append_in(struct journal *j, const void *line, size_t size, struct text *sealed);

/* Takes n consecutive ids, under the lock; returns the first, or 0 if there are not enough left (JOB_MAX_ID). */
uint64_t journal_take_ids(struct journal *j, uint64_t n);
/* Under the lock: voids all starts that were decided before. The new fence is written before this returns 0. */
int journal_raise_fence(struct journal *j, struct gd_error *err);

/* Reads the fence from the counters without the lock. -EAGAIN: the counters cannot be read at the moment. */
int journal_peek_fence(const struct journal *j, uint64_t *ret);

/* Lock, append, unlock. */
int journal_append_line(struct journal *j, const void *line, size_t size, struct gd_error *err);

/* Makes everything appended so far survive a power cut. Not under the lock. */
int journal_sync(struct journal *j, struct gd_error *err);

/*
 * The same for a process that has no journal open (the syncer): opens only existing files and creates none. Also syncs
 * `counts`, which no other process waits for.
 */
int journal_sync_at(int parent_fd, const char *name);

/* Maximum size of a line. A longer one is not ours: the file has a hole, or another user made it. */
#define JOURNAL_MAX_LINE_BYTES ((size_t)64 << 20)

/*
 * Removes a journal that this process has created and to which no job was ever added, with its folder, so that a
 * command that fails leaves nothing behind. If another process is about to add a job, the journal stays. Best effort.
 */
void journal_remove_empty(struct journal *j);

/* ---- Reading ------------------------------------------------------------- */

/*
 * Reads complete lines from the beginning, and continues where it stopped. Has its own descriptor of the journal, never
 * one of a file that is locked.
 *
 * Seals are checked here: lines are returned without them, and a damaged line as JOURNAL_BAD_LINE, which is not JSON. A
 * repeated line is damaged. If lines are not in the order of their numbers, the reader asks to begin again, and then
 * returns them in order.
 */
struct journal_reader {
	const char *path;
	const struct journal *journal; /* NULL: the file is opened by its path, not in the journal's directory */
	bool checked;   /* set by callers that act on the lines: refuses files that other users can change (-EPERM) */
	bool unordered; /* set for an archive: numbers are ignored */
	bool sorted;    /* set to get lines in the order of their numbers */
	struct journal_limits limits;
	struct gd_error refusal; /* message after -EPERM, -EFBIG or -ETIME */
	int fd;                  /* -1: the file does not exist yet */
	dev_t dev;
	ino_t ino;
	off_t offset;     /* after the last complete line */
	uint64_t line_no; /* number of lines so far */
	bool original;    /* a journal of the original gpu_dispatch: lines have no seals */
	const char *line; /* the line as in the file, even if damaged; valid inside a journal_line_fn */
	size_t line_size;
	uint64_t next_n;           /* one more than the highest number so far */
	struct number_set missing; /* missing numbers below next_n */
	uint64_t repeated;         /* number of repeated lines */
	bool disordered;           /* lines were not in the order of their numbers */
	char *buf;
	size_t capacity;
};

#define JOURNAL_BAD_LINE "?"

/*
 * Called for one line, without its newline and seal, in the reader's memory. A non-zero result stops reading and is
 * returned.
 */
typedef int journal_line_fn(void *context, uint64_t line_no, const char *line, size_t size);

/* path, from journal_resolve(), is not copied. A missing file counts as empty. */
int journal_reader_init(struct journal_reader *r, const char *path);
/* The same in the directory of the journal, for a program that acts on the lines. Sets `checked`. */
int journal_reader_init_at(struct journal_reader *r, const struct journal *j);
/* The same for the file that the journal has open, regardless of the file at its path. */
int journal_reader_init_open(struct journal_reader *r, const struct journal *j);
void journal_reader_finish(struct journal_reader *r);

/*
 * Reads all new complete lines. Returns 0 at the end of the file; 1 if the file at the path has been replaced (all of
 * the old one has been read), or if its lines are out of order: discard what was read and call again, which starts from
 * the beginning. -EFBIG, -ETIME: the file exceeds a limit (journal_limits.h); -EPROTONOSUPPORT: version 1. Lines that
 * are appended meanwhile are left for the next call.
 */
int journal_reader_read(struct journal_reader *r, journal_line_fn *fn, void *context);
/* -EPERM if other users can change the open file or replace it, otherwise 0. */
int journal_reader_check(struct journal_reader *r);
/* Sets the message for a failure of journal_reader_read(). Returns the code. */
int journal_reader_explain(const struct journal_reader *r, int code, struct gd_error *err);

/* ---- Following ------------------------------------------------------------ */

/*
 * A descriptor that is readable when the journal may have changed (inotify), or -1 if inotify is not available. In that
 * case, and on file systems that do not report changes by other machines, poll every JOURNAL_LOOK_MS.
 */
int journal_watch(const char *path);
/* Drains the descriptor; watches the new file if the journal was replaced. */
void journal_watch_drain(int fd, const char *path);

/* Polling interval, used in addition to inotify. */
#define JOURNAL_LOOK_MS 1000
/*
 * How many times in a row a reader begins again with another file. Prunes are rare: a user who replaces the journal all
 * the time wants its readers to hang.
 */
#define JOURNAL_MOST_RESETS 100 /* JOURNAL_MAX_FOREIGN_RESETS for journals that other users may have written */

#endif
