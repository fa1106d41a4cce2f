/* SPDX-License-Identifier: MIT */
/* The last lines of a log. */
#ifndef CLI_LOG_TAIL_H
#define CLI_LOG_TAIL_H

#include <stdint.h>

/*
 * Moves the file position to the beginning of its last `lines` lines. Text after the last newline is a line, too. Holes
 * are not read. If a line has more than 64 MiB of data, moves to a position in it.
 */
int log_tail_seek(int fd, uint64_t lines);

#endif
