/* SPDX-License-Identifier: MIT */
/*
 * Messages with descriptors (SCM_RIGHTS), over a Unix socket.
 *
 * Received descriptors are close-on-exec and belong to the receiver, including unexpected ones:
 * cleanup_(fd_message_close) struct fd_message m = {0}. Nothing here allocates memory.
 */
#ifndef BASE_FD_MESSAGE_H
#define BASE_FD_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define FD_MESSAGE_MAX 4 /* descriptors in a message */

/*
 * Sends `size` bytes, at least one, with num_fds descriptors (may be 0). flags: 0 or MSG_DONTWAIT. Interrupted calls
 * are repeated, and no SIGPIPE is raised. Returns 0 or a negative errno value; -EAGAIN if the socket is full.
 */
int fd_message_send(int socket, const void *data, size_t size, const int *fds, size_t num_fds, int flags);

struct fd_message {
	int fds[FD_MESSAGE_MAX];
	size_t num_fds;
	bool truncated; /* more were sent than received, or this process has no free descriptors */
};

/*
 * Receives up to `size` bytes and the descriptors that came with them. Returns how
 * many bytes, 0 at the end of the stream, or a negative errno value; ret is set only
 * if there are bytes.
 */
ssize_t fd_message_receive(int socket, void *data, size_t size, int flags, struct fd_message *ret);

/* Closes the descriptors. */
void fd_message_close(struct fd_message *m);

#endif
