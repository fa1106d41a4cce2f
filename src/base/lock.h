/* SPDX-License-Identifier: MIT */
/*
 * Locks that show which process is alive: fcntl write locks on whole files.
 *
 * Such a lock belongs to the process: a fork does not inherit it, and the kernel releases it when the process ends, for
 * whatever reason. It is also released when the process closes *any* descriptor of that file, so a process opens a file
 * that it locks only once.
 *
 * We never take read locks, but any user who can read the file can take one, and then no process can take a write lock.
 * So a read lock never shows that a process of ours is alive, and we do not wait for it indefinitely. The same applies
 * to a write lock of another user (except root) on a file that belongs to us and that only we may open. Both are called
 * foreign locks. A write lock of root, or one without a process, may be one of our processes on another host, for which
 * a file server has taken it: it shows that this process is alive, but we wait only for LOCK_UNKNOWN_MS.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <errno.h>
#include <sys/types.h>

/* A foreign lock has prevented ours for LOCK_READER_MS, or one that may be foreign for LOCK_UNKNOWN_MS. */
#define LOCK_BLOCKED    (-EUSERS)
#define LOCK_READER_MS  2000
#define LOCK_UNKNOWN_MS 15000

/*
 * Waits for the lock. Returns 0 or a negative errno value (LOCK_BLOCKED; -ENOLCK, -ENOTSUP: the file system has no
 * locks).
 */
int lock_take(int fd);
/* The same, but returns -EAGAIN at once if another process has the write lock and that lock is not foreign. */
int lock_take_free(int fd);
/* Returns -EAGAIN if another process has the lock, or a read lock. */
int lock_try(int fd);
int lock_release(int fd);

/*
 * Sets *ret to the PID of the process that has the write lock, 0 if there is none or the lock is foreign, -1 if the
 * process has no PID here (another host or PID namespace). Never reports the calling process itself.
 */
int lock_holder(int fd, pid_t *ret);

/* The same for a file by name. A missing file is not locked. */
int lock_holder_at(int dirfd, const char *name, pid_t *ret);

/* For messages: "process 123 of user 'bob'", the process with a foreign lock, or "a process" if it is unknown. */
#define LOCK_WORDS_ROOM 128
void lock_describe_reader(int fd, char ret[LOCK_WORDS_ROOM]);

/* Removes the permissions of other users for a file of this user, so that they cannot open it to lock it. Best effort.
 */
void lock_protect(int fd);

#endif
