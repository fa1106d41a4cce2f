/* SPDX-License-Identifier: MIT */
#include "cli/log_tail.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

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

int log_tail_seek(int fd, uint64_t lines)
{
	char block[65536];
	off_t end = lseek(fd, 0, SEEK_END);
	if (end < 0)
		return -errno;
	/* The newline at the very end belongs to the last line. */
	uint64_t left = lines;
	if (end > 0 && lines > 0 && pread(fd, block, 1, end - 1) == 1 && block[0] == '\n')
		left++;
	while (end > 0 && left > 0) {
		size_t size = end < (off_t)sizeof(block) ? (size_t)end : sizeof(block);
		ssize_t n = pread(fd, block, size, end - (off_t)size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		ssize_t at = find_newline(block, n, &left);
		end -= (off_t)size;
		if (at >= 0) {
			end += at + 1;
			break;
		}
	}
	return lseek(fd, end, SEEK_SET) < 0 ? -errno : 0;
}
