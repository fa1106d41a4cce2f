/* SPDX-License-Identifier: MIT */
/*
 * The end of a launch on a node of a cluster: a job of the launch's queue, on one GPU. It runs the real worker (a
 * command per file, a program or a plug-in) in a pool of its own, with the time limit and the retries of the launch,
 * takes files from its proxy on the login node, and answers. See file_message.h.
 *
 * It connects again after a lost connection, and keeps processing its file meanwhile. If it cannot reach its proxy for
 * the duration of a lease, or nothing listens at the proxy's address for a minute, it cancels its file and exits.
 */
#ifndef SLURM_FILE_WORKER_H
#define SLURM_FILE_WORKER_H

#include <stddef.h>

/* The files of a launch in its directory. */
#define FILE_BRIEF_NAME   "worker"     /* launch/remote_brief.h */
#define FILE_JOURNAL_NAME "jobs.jsonl" /* the queue: job N is worker N-1 */
#define FILE_ADDRESS_ROOM 40           /* for file_address_name() */
void file_address_name(size_t worker, char ret[FILE_ADDRESS_ROOM]);

/* `gpuq-slurm launch-worker DIR N`, executed as a job. Returns the exit code. */
int file_worker_main(const char *dir, size_t worker);

#endif
