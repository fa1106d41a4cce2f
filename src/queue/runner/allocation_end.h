/* SPDX-License-Identifier: MIT */
/* When the runner's allocation ends: Slurm's time limit. */
#ifndef QUEUE_RUNNER_ALLOCATION_END_H
#define QUEUE_RUNNER_ALLOCATION_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * In wall-clock time, from $SLURM_JOB_END_TIME, or from Slurm itself, waiting at most five seconds for
 * its answer; 0: no allocation, no limit, or not known. ret_whose: "Slurm job 12". Call it before
 * SIGCHLD is blocked.
 */
int64_t allocation_end_get(char *ret_whose, size_t room);

/* Parses the time left as squeue writes it, "2-03:04:05", "3:04:05" or "4:05". In milliseconds; -1: other text. */
int64_t allocation_end_parse_left(const char *text);

#endif
