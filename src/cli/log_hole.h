/* SPDX-License-Identifier: MIT */
/* Holes in logs: max_log_size removes the middle of a log, and a job can also leave holes. */
#ifndef CLI_LOG_HOLE_H
#define CLI_LOG_HOLE_H

#include <stdint.h>

/*
 * If the next byte to read is in a hole, moves to the end of the hole. Returns how many bytes were skipped; 0 also
 * if holes cannot be detected.
 */
uint64_t log_hole_skip(int fd);

#endif
