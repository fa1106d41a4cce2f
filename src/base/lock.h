/* SPDX-License-Identifier: MIT */
/*
 * Locks that show which process is alive: fcntl write locks on whole files.
 *
 * Such a lock belongs to the process: a fork does not inherit it, and the kernel releases it when the process ends, for
 * whatever reason. It is also released when the process closes *any* descriptor of that file, so a process opens a file
 * that it locks only once.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <sys/types.h>

/* Waits for the lock. Returns 0 or a negative errno value (-ENOLCK, -ENOTSUP: the file system has no locks). */
int lock_take(int fd);
/* Returns -EAGAIN if another process has the lock. */
int lock_try(int fd);
int lock_release(int fd);

/*
 * Sets *ret to the PID of the holder, 0 if the file is not locked, -1 if the holder has no PID here (another host or
 * PID namespace). Never reports the calling process itself.
 */
int lock_holder(int fd, pid_t *ret);

/* The same for a file by name. A missing file is not locked. */
int lock_holder_at(int dirfd, const char *name, pid_t *ret);

#endif
