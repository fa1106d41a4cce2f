/* SPDX-License-Identifier: MIT */
/* The process that forks keepers and syncers, as the runner sees it; keeper.h says why there is one. */
#ifndef QUEUE_KEEPER_NURSERY_H
#define QUEUE_KEEPER_NURSERY_H

#include <stdbool.h>
#include <sys/types.h>

#include "gpu_dispatch.h"

/* What a nursery and its keepers need to know; paths are absolute. */
struct nursery_options {
	const char *journal_path;
	int parent_fd;          /* its directory */
	bool accepted;          /* as journal_open() takes it */
	const char *allocation; /* in which the runner is, see allocation.h; "": none */
	bool dies_with_parent; /* and keepers and jobs with it: they are killed when the process that started it ends */
};

/* Forks the nursery; call it while the process is small and has one thread. ret_fd: the runner's end. */
int nursery_start(const struct nursery_options *options, pid_t *ret_pid, int *ret_fd, struct gd_error *err);
/* Asks for one more keeper; ret_fd: the runner's end of its socket, not blocking. */
int nursery_add_keeper(int nursery_fd, int *ret_fd);
/* The same for a syncer (syncer.h). */
int nursery_add_syncer(int nursery_fd, int *ret_fd);

#endif
