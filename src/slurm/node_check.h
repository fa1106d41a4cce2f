/* SPDX-License-Identifier: MIT */
/*
 * The part of `gpuq slurm check` that runs on a node: checks what a pilot would need and reports it in two ways,
 * through a TCP connection and as a file, because either may fail. It holds a lock until it is told to end, so that the
 * other side can check the lock.
 *
 * The two sides share a directory of the user that nobody else can enter. The node opens it by its path, and checks
 * that it is the same one: it must belong to the user, have mode 0700 and contain the token. No file is created through
 * a link or in the place of another one. The token is in a variable of the job's script, because all users of a host
 * can read the arguments of processes.
 *
 * The report has a line "KEY VALUE" for each of these:
 *
 *     token     as given; the first line
 *     node      the node name in Slurm
 *     host      its host name
 *     time      its clock, milliseconds since 1970
 *     version   of gpuq
 *     folder    0, or the error of reading NODE_CHECK_GREETING in the directory
 *     lock      1: NODE_CHECK_LOGIN_LOCK appears held; 0: it appears free; or the error
 *     own_lock  0: this process holds NODE_CHECK_NODE_LOCK; or the error
 *     tcp       0, or the error of connecting; not in the report that is sent through the connection
 *     granted   GPUs that Slurm has granted; -1: the job's variables do not contain it
 *     usable    GPUs that a pilot would use; or the error
 *     sized     number of these GPUs whose memory size is known
 *     left      milliseconds until the end of the allocation; -1: unknown, or no end
 *
 * Errors are negative errno values.
 */
#ifndef SLURM_NODE_CHECK_H
#define SLURM_NODE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODE_CHECK_GREETING   "greeting" /* contains the token */
#define NODE_CHECK_LOGIN_LOCK "login.lock"
#define NODE_CHECK_NODE_LOCK  "node.lock"
#define NODE_CHECK_ANSWER     "answer"
#define NODE_CHECK_DONE       "done"   /* the check ends when this file exists, or when the connection is closed */
#define NODE_CHECK_SCRIPT     "script" /* the job, until it is submitted */
#define NODE_CHECK_TOKEN      "GPUQ_CHECK_TOKEN" /* the variable with the token */
#define NODE_CHECK_ROOM       4096               /* for a report */
/* How long a node waits, and holds its lock, if nobody tells it to end. */
#define NODE_CHECK_HOLD_MS 60000
/* The second job: its lock, its answer and script, and whether the first one sees that lock: "1" or "0". */
#define NODE_CHECK_SECOND_LOCK   "second.lock"
#define NODE_CHECK_SECOND        "second"
#define NODE_CHECK_SECOND_SCRIPT "second.script"
#define NODE_CHECK_SEEN          "seen"

/* The exit code: 0, or NODE_CHECK_SILENT if no way to report worked. */
#define NODE_CHECK_SILENT 40
int node_check_main(const char *directory, const char *host, uint16_t port, const char *token);
/*
 * The second job, on another node, while the first one waits. In its report, `lock` is about NODE_CHECK_NODE_LOCK and
 * own_lock about NODE_CHECK_SECOND_LOCK, which the first node checks. The report is the file NODE_CHECK_SECOND.
 */
int node_check_second(const char *directory, const char *token);

/* Whether the report begins with the token. */
bool node_check_is_ours(const char *report, const char *token);

/* Opens the directory `name` in dir_fd. -EPERM: it belongs to another user, or others can enter it. */
int node_check_open(int dir_fd, const char *name, int *ret_fd);
/* Creates a file, which must not exist, for reading and writing. Returns its descriptor or a negative errno value. */
int node_check_create(int dir_fd, const char *name);
/* Reads a file as a string, and does not follow links. Returns its length or a negative errno value. */
int node_check_read(int dir_fd, const char *name, char *buf, size_t size);

#endif
