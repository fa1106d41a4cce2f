/* SPDX-License-Identifier: MIT */
/*
 * The socket of a keeper for processes that did not start it: a later runner, the runner of a lease,
 * or `gpuq cancel`, `pause` or `resume`.
 *
 * A stream socket in the abstract namespace, because not every file system that can hold a queue can
 * hold a socket. Its name is random and is stored in the keeper's own file, keepers/NAME. Both ends
 * check that the peer belongs to the user or root, so another user who reads the name in
 * /proc/net/unix can neither give orders nor receive them.
 */
#ifndef QUEUE_KEEPER_KEEPER_SOCKET_H
#define QUEUE_KEEPER_KEEPER_SOCKET_H

/* Listens, and writes the name into the keeper's file, which is open and locked. */
int keeper_socket_listen(int lock_fd, int *ret_fd);
/* The next visitor's socket, nonblocking; -EAGAIN: there is none. -EPERM: another user, who was rejected. */
int keeper_socket_accept(int listen_fd, int *ret_fd);
/* Connects to a keeper by its name. -ENOENT, -ECONNREFUSED: it has exited, or has no socket. -ETIMEDOUT: it does not
 * accept. ret_fd is nonblocking. */
int keeper_socket_connect(int dir_fd, const char *keeper, int *ret_fd);

#endif
