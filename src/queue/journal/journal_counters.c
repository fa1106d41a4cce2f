/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/hash.h"

#define COUNTERS_FORMAT                                                                                                \
	"gpuq-counters-1 %020" PRIu64 " %020" PRIu64 " %020" PRIu64 " %020" PRIu64 " %020" PRIu64 " %020" PRIu64 "\n"
#define COUNTERS_SCAN "gpuq-counters-1 %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
#define COUNTERS_SIZE (15 + 6 * 21 + 1)

/* The hash of this many bytes tells whether a file with the same inode number is still the same file. */
#define TAIL_BYTES 64

bool journal_counters_read(struct journal *j, struct journal_counters *ret)
{
	char line[COUNTERS_SIZE + 1];
	ssize_t n = pread(j->lock_fd, line, COUNTERS_SIZE, 0);
	if (n != COUNTERS_SIZE)
		return false;
	line[n] = '\0';
	return line[n - 1] == '\n' && sscanf(line, COUNTERS_SCAN, &ret->dev, &ret->ino, &ret->size, &ret->tail,
					      &ret->next_id, &ret->fence) == 6;
}

/* Of the TAIL_BYTES before `end`. */
static uint64_t tail_hash(const struct journal *j, off_t end)
{
	char tail[TAIL_BYTES];
	off_t from = end > TAIL_BYTES ? end - TAIL_BYTES : 0;
	ssize_t n = pread(j->fd, tail, (size_t)(end - from), from);
	return n < 0 ? 0 : hash_bytes(tail, (size_t)n).a;
}

int journal_counters_write(struct journal *j)
{
	char line[COUNTERS_SIZE + 1];
	int n = snprintf(line, sizeof(line), COUNTERS_FORMAT, (uint64_t)j->dev, (uint64_t)j->ino, (uint64_t)j->size,
		tail_hash(j, j->size), j->next_id, j->fence);
	ssize_t done = pwrite(j->lock_fd, line, (size_t)n, 0);
	if (done != n)
		return done < 0 ? -errno : -ENOSPC;
	j->dirty = false;
	return 0;
}

bool journal_counters_match(const struct journal *j, const struct journal_counters *c, off_t size)
{
	return c->dev == (uint64_t)j->dev && c->ino == (uint64_t)j->ino && c->size <= (uint64_t)size &&
	       c->tail == tail_hash(j, (off_t)c->size);
}
