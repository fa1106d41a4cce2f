/* SPDX-License-Identifier: MIT */
/* The runner's interface to the nursery, the process that forks keepers and syncers. keeper.h explains its purpose. */
#ifndef QUEUE_KEEPER_NURSERY_H
#define QUEUE_KEEPER_NURSERY_H

#include <stdbool.h>
#include <sys/types.h>

#include "gpu_dispatch.h"

/* Settings of a nursery and its keepers; paths are absolute. */
struct nursery_options {
	const char *journal_path;
	int parent_fd;          /* its directory */
	bool accepted;          /* as in journal_open() */
	const char *allocation; /* the runner's allocation, see allocation.h; "": none */
	bool dies_with_parent;  /* kill the nursery, its keepers and their jobs when its parent process ends */
};

/* Forks the nursery; call it while the process is small and has one thread. ret_fd: the runner's end. */
int nursery_start(const struct nursery_options *options, pid_t *ret_pid, int *ret_fd, struct gd_error *err);
/* Requests one more keeper; ret_fd: the runner's end of its socket, nonblocking. */
int nursery_add_keeper(int nursery_fd, int *ret_fd);
/* The same for a syncer (syncer.h). */
int nursery_add_syncer(int nursery_fd, int *ret_fd);

#endif
