/* SPDX-License-Identifier: MIT */
#include "cli/log_tail.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define BLOCK 65536
/*
 * The beginning of a line is searched for in at most this many blocks: another user can make a log that is longer than
 * the disk, with holes or shared blocks.
 */
#define MAX_BLOCKS 1024

/* Searches the block backward for the *left-th newline. -1: it is not in this block, and *left is how many remain. */
static ssize_t find_newline(const char *block, ssize_t size, uint64_t *left)
{
	while (size > 0) {
		const char *newline = memrchr(block, '\n', (size_t)size);
		if (!newline)
			return -1;
		size = newline - block;
		if (--*left == 0)
			return size;
	}
	return -1;
}

/* Whether there is data in these blocks; true if holes cannot be detected. */
static bool has_data(int fd, off_t from, off_t to)
{
	off_t data = lseek(fd, from * BLOCK, SEEK_DATA);
	return data < 0 ? errno != ENXIO : data / BLOCK < to;
}

/*
 * The number of blocks up to the last one with data, out of the first `count`. The kernel does not search backward:
 * goes back in growing steps, then bisects the last one.
 */
static off_t skip_hole(int fd, off_t count)
{
	off_t high = count, low = count > 0 ? count - 1 : 0;
	while (high > 0 && !has_data(fd, low, high)) {
		high = low;
		low = low > count - low ? low - (count - low) : 0;
	}
	while (high - low > 1) {
		off_t middle = low + (high - low) / 2;
		if (has_data(fd, middle, high))
			low = middle;
		else
			high = middle;
	}
	return high;
}

/* The position after the left-th newline, from the end; 0 if there are fewer. */
static int search_back(int fd, off_t size, uint64_t left, off_t *ret)
{
	char block[BLOCK];
	off_t end = size, count = size / BLOCK + (size % BLOCK > 0);
	for (int searched = 0; left > 0 && searched < MAX_BLOCKS; searched++) {
		uint64_t before = left;
		count = skip_hole(fd, count);
		end = count > 0 ? (count - 1) * BLOCK : 0;
		if (count == 0)
			break;
		ssize_t n = pread(fd, block, (size_t)(size - end < BLOCK ? size - end : BLOCK), end);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		ssize_t at = find_newline(block, n, &left);
		end += at + 1;
		if (left != before)
			searched = 0;
		count--;
	}
	*ret = end;
	return 0;
}

int log_tail_seek(int fd, uint64_t lines)
{
	char byte;
	off_t end = lseek(fd, 0, SEEK_END);
	if (end < 0)
		return -errno;
	/* The newline at the very end belongs to the last line. */
	bool ended = end > 0 && lines > 0 && pread(fd, &byte, 1, end - 1) == 1 && byte == '\n';
	int r = search_back(fd, end, lines + ended, &end);
	if (r < 0)
		return r;
	return lseek(fd, end, SEEK_SET) < 0 ? -errno : 0;
}
