/* SPDX-License-Identifier: MIT */
/* When the runner's allocation ends: Slurm's time limit. */
#ifndef QUEUE_RUNNER_ALLOCATION_END_H
#define QUEUE_RUNNER_ALLOCATION_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * In wall-clock time, from $SLURM_JOB_END_TIME, or from Slurm itself, waiting at most five seconds for
 * its answer; 0: no allocation, no limit, or not known. ret_whose: "Slurm job 12". Call it before
 * SIGCHLD is blocked.
 */
int64_t allocation_end_get(char *ret_whose, size_t room);

/*
 * Asks Slurm for the time left, in a process of its own that ends within five seconds. *ret_fd: its answer, not
 * blocking, for allocation_end_parse_left(). -ENOENT: no allocation.
 */
int allocation_end_ask(pid_t *ret_pid, int *ret_fd);

/* Parses the time left as squeue writes it, "2-03:04:05", "3:04:05" or "4:05". In milliseconds; -1: other text. */
int64_t allocation_end_parse_left(const char *text);

#endif
