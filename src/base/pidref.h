/* SPDX-License-Identifier: MIT */
/*
 * A process, identified by its PID and a descriptor.
 *
 * By the time a PID is used, it may belong to a later process. The descriptor (a pidfd, close-on-exec) always refers to
 * the process that it was opened for, and becomes readable when that process has ended. A pidref without a process is
 * PIDREF_NONE.
 *
 * Under valgrind, in some sandboxes and before Linux 5.3 there are no such descriptors. A pidref then has only the PID.
 * This is safe for a child that has not been waited for; for any other process, the PID may have been reused. The end
 * of the process is then detected by polling every few milliseconds.
 */
#ifndef BASE_PIDREF_H
#define BASE_PIDREF_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pidref {
	pid_t pid; /* 0: no process */
	int fd;    /* -1: none; then only the number is known */
};
#define PIDREF_NONE ((struct pidref){.fd = -1})

/*
 * Opens a descriptor for the process that has this PID now. That is the intended one if it is this process or a child
 * that has not been waited for; otherwise the caller must check afterwards that it is the right process. If the system
 * has no pidfds, *ret has only the PID. On failure (-ESRCH, -EMFILE…) *ret is unchanged.
 */
int pidref_open(pid_t pid, struct pidref *ret);

/* Closes the descriptor and forgets the number. Safe for PIDREF_NONE. Does not wait for the process. */
void pidref_close(struct pidref *p);

static inline bool pidref_is_set(const struct pidref *p)
{
	return p->pid > 0;
}

/* Uses the descriptor, or the number if there is no descriptor. -ESRCH if the process is gone. */
int pidref_signal(const struct pidref *p, int signal);

/* The same with a value (SI_QUEUE). */
int pidref_queue(const struct pidref *p, int signal, union sigval value);

/*
 * Waits until the process has ended, or for the deadline on the monotonic clock: true if
 * it has ended. Does not reap.
 */
bool pidref_wait(const struct pidref *p, uint64_t deadline_ns);

/*
 * poll() that also works without the descriptor: `end` is the entry of fds with p->fd,
 * and has POLLIN in revents when the process has ended.
 */
int pidref_poll(const struct pidref *p, struct pollfd *fds, size_t num_fds, struct pollfd *end, int timeout_ms);

#endif
