/* SPDX-License-Identifier: MIT */
/*
 * The append-only JSONL file of what happened to each job: the only truth about
 * the queue, and the only bus between the processes that work on it.
 *
 * Any number of processes append, each under the append lock; a crash or a full
 * disk can leave one torn line at the end. The next append cuts it off; readers
 * ignore it and never cut: to them it may be a line that is being written.
 * A complete line is never taken back. `prune` puts a new file in the place of
 * the old one, under the append lock; whoever appends looks, under the lock,
 * whether the file it has open is still the one at the path.
 *
 * Beside FILE stands the folder FILE.d:
 *
 *     append.lock   the append lock; in it, a line of counters (below)
 *     runner.lock   locked by the runner as long as it lives; in it, who that is
 *     keepers/      a file for each keeper, locked as long as it lives
 *     env/          environments of jobs, a file for each distinct content
 *     samples.jsonl how full and busy the GPUs were, see samples.h
 *
 * The counters: which file and which size of it they belong to, the next job id,
 * and the *fence*. The line is written after each append. Where it does not fit
 * the file (a crash in between, a restored copy) it is brought up to date from the
 * file's own lines and the fence is raised.
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
 * place. A file is changed only after it was recognized as a journal. Reading needs no trust.
 */
#ifndef QUEUE_JOURNAL_JOURNAL_H
#define QUEUE_JOURNAL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu_dispatch.h"

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
	bool accepted;   /* --trust: other users may have written the journal */
	bool recognized; /* the file begins as a journal does */
	dev_t dev;       /* of fd */
	ino_t ino;
	off_t size; /* under the lock: where the next line goes */
	uint64_t next_id;
	uint64_t fence;
	bool dirty;   /* the counters changed and are not written yet */
	bool created; /* the directory entry is not synced yet */
};

/*
 * The absolute path of a journal that is there or will be: symbolic links are followed, for prune renames.
 * *ret_objection (may be NULL): NULL, or how another user chose the file, for trust_refuse().
 */
int journal_resolve(const char *path, char **ret, const char **ret_objection, struct gd_error *err);

/*
 * Opens the journal and its folder for writing; makes both (for the owner alone) if they are not there.
 * -EPERM if another user can have written one of them, unless `accepted`; -EINVAL if the file is not a journal.
 *
 * The directory stays open, and files are opened and renamed in it, not by their paths: another user who can rename
 * directories above cannot lead the journal elsewhere.
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
#define JOURNAL_REMOVED_MS 10000
#define JOURNAL_RENAMED_MS 600000

/* Why a lock of the queue could not be had, in words; returns code. */
int journal_lock_words(const struct journal *j, int code, struct gd_error *err);

/*
 * Appends whole lines, under the lock. Where they do not all fit (-ENOSPC, -EDQUOT, -EFBIG, -EIO), the
 * complete lines that were written stay, for a reader may have seen them, and *ret_written
 * (may be NULL) says how many bytes those are: of a single line all or nothing.
 */
int journal_append(struct journal *j, const void *lines, size_t size, size_t *ret_written, struct gd_error *err);

/* n ids in a row, under the lock; returns the first. */
uint64_t journal_take_ids(struct journal *j, uint64_t n);
/* Under the lock: from here on, no start that was decided upon before. Written before it returns 0. */
int journal_raise_fence(struct journal *j, struct gd_error *err);

/* Lock, append, unlock. */
int journal_append_line(struct journal *j, const void *line, size_t size, struct gd_error *err);

/* What was appended survives a power cut from here on. Not under the lock. */
int journal_sync(struct journal *j, struct gd_error *err);

/* Puts a complete and synced file of the folder in the journal's place, under the lock. */
int journal_replace(struct journal *j, const char *draft, struct gd_error *err);

/* A longer line is not a line: the file has a hole, or another user made it. No longer one is written. */
#define JOURNAL_MAX_LINE_BYTES ((size_t)64 << 20)

/* ---- Reading ------------------------------------------------------------- */

/*
 * Reads complete lines from the beginning, and goes on where it stopped. Has a
 * descriptor of its own for the journal, never for a file that is locked.
 */
struct journal_reader {
	const char *path;
	const struct journal *journal; /* NULL: the file is opened by its path, not in the journal's directory */
	bool checked;          /* set it to execute what is read: only trusted files are read, others are -EPERM */
	const char *objection; /* after -EPERM: why, for trust_refuse() */
	int fd;                /* -1: not there yet */
	dev_t dev;
	ino_t ino;
	off_t offset;     /* after the last complete line */
	uint64_t line_no; /* how many there were */
	char *buf;
	size_t capacity;
};

/* One line, without its newline; it is the reader's memory. Non-zero stops the reading and is returned. */
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
 * at the path is another one by now (all of the old one has been read):
 * forget what was read and call again, which begins the new one. -EFBIG: a line is too long.
 */
int journal_reader_read(struct journal_reader *r, journal_line_fn *fn, void *context);
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

#endif
