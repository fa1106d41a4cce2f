/* SPDX-License-Identifier: MIT */
/*
 * The file `counts` next to a journal: one byte per job id, the number of records that were written for that job,
 * modulo 256. Updated under the append lock, before the append.
 *
 * After damage, the counts show which jobs lost a record. They are not needed otherwise and have no checksum: a wrong
 * count makes a job `unknown`, which is safe.
 */
#ifndef QUEUE_JOURNAL_TALLY_H
#define QUEUE_JOURNAL_TALLY_H

#include <stddef.h>
#include <stdint.h>

#define TALLY_NAME "counts"

/* The id of the job that a line written by gpuq is about; 0: none. */
uint64_t tally_line_id(const char *line, size_t size);

/* Adds 1 or -1 to the count of the job of each line, all complete: 0 or a negative errno value. */
int tally_add(int fd, const char *lines, size_t size, int by);

/* Reads all counts, for ids below *ret_size; release with free(). A missing file (fd < 0) has none. */
int tally_read(int fd, unsigned char **ret, size_t *ret_size);

/* Replaces the counts of all ids. */
int tally_write(int fd, const unsigned char *counts, size_t size);

/* Counts one record in memory, in an array that grows. records: the record's `records` (record.h), or -1. */
int tally_count(unsigned char **counts, size_t *capacity, size_t *size, uint64_t id, int64_t records);

#endif
