/* SPDX-License-Identifier: MIT */
/*
 * Locks that show which process is alive: fcntl write locks on whole files.
 *
 * Such a lock belongs to the process: a fork does not inherit it, and the kernel
 * gives it up when the process ends, however it ends. It is also given up when
 * the process closes *any* descriptor of that file, so a file that is locked is
 * opened once and nowhere else in the same process.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <sys/types.h>

/* Waits for it. 0 or a negative errno value (-ENOLCK, -ENOTSUP: no locks here). */
int lock_take(int fd);
/* -EAGAIN where another process has it. */
int lock_try(int fd);
int lock_release(int fd);

/*
 * The PID of the holder, 0 if it is not locked, -1 if the holder has no PID here (another host or PID namespace). Never
 * reports the calling process itself.
 */
int lock_holder(int fd, pid_t *ret);

/* The same for a file by name. A missing file is not locked. */
int lock_holder_at(int dirfd, const char *name, pid_t *ret);

#endif
