/* SPDX-License-Identifier: MIT */
#include "queue/journal/tally.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "queue/journal/job.h"

/* Ids that span a wider range are counted one by one. */
#define WIDEST_SPAN ((uint64_t)1 << 20)

uint64_t tally_line_id(const char *line, size_t size)
{
	static const char begin[] = "{\"event\":\"", key[] = "\",\"id\":";
	if (size < sizeof(begin) || memcmp(line, begin, sizeof(begin) - 1) != 0)
		return 0;
	const char *p = line + sizeof(begin) - 1, *end = line + size;
	p = memchr(p, '"', (size_t)(end - p));
	if (!p || (size_t)(end - p) < sizeof(key) || memcmp(p, key, sizeof(key) - 1) != 0)
		return 0;
	uint64_t id = 0;
	for (p += sizeof(key) - 1; p < end && *p >= '0' && *p <= '9' && id <= JOB_MAX_ID; p++)
		id = id * 10 + (uint64_t)(*p - '0');
	return id <= JOB_MAX_ID ? id : 0;
}

static bool next_id(const char **p, const char *end, uint64_t *ret)
{
	while (*p < end) {
		const char *newline = memchr(*p, '\n', (size_t)(end - *p));
		const char *line = *p;
		*p = newline ? newline + 1 : end;
		*ret = tally_line_id(line, (size_t)(*p - line));
		if (*ret)
			return true;
	}
	return false;
}

/* Missing bytes, beyond the end of the file, are 0. */
static int read_counts(int fd, unsigned char *counts, size_t size, uint64_t from)
{
	ssize_t n = pread(fd, counts, size, (off_t)from);
	if (n < 0)
		return -errno;
	memset(counts + n, 0, size - (size_t)n);
	return 0;
}

static int write_counts(int fd, const unsigned char *counts, size_t size, uint64_t from)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pwrite(fd, counts + done, size - done, (off_t)(from + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		done += (size_t)n;
	}
	return 0;
}

static int add_each(int fd, const char *p, const char *end, int by)
{
	uint64_t id;
	int r = 0;
	while (r == 0 && next_id(&p, end, &id)) {
		unsigned char count;
		r = read_counts(fd, &count, 1, id);
		count = (unsigned char)(count + by);
		if (r == 0)
			r = write_counts(fd, &count, 1, id);
	}
	return r;
}

int tally_add(int fd, const char *lines, size_t size, int by)
{
	const char *p = lines, *end = lines + size;
	uint64_t id, low = UINT64_MAX, high = 0;
	while (next_id(&p, end, &id)) {
		low = id < low ? id : low;
		high = id > high ? id : high;
	}
	if (high == 0)
		return 0;
	if (high - low >= WIDEST_SPAN)
		return add_each(fd, lines, end, by);
	unsigned char few[64];
	cleanup_(freep) unsigned char *many = NULL;
	size_t span = (size_t)(high - low + 1);
	if (span > sizeof(few) && !(many = malloc(span)))
		return -ENOMEM;
	unsigned char *counts = many ? many : few;
	int r = read_counts(fd, counts, span, low);
	for (p = lines; r == 0 && next_id(&p, end, &id);)
		counts[id - low] = (unsigned char)(counts[id - low] + by);
	return r < 0 ? r : write_counts(fd, counts, span, low);
}

int tally_read(int fd, unsigned char **ret, size_t *ret_size)
{
	struct stat st = {0};
	if (fd >= 0 && fstat(fd, &st) < 0)
		return -errno;
	/* A larger file is not ours. */
	size_t size = st.st_size > (off_t)1 << 32 ? 0 : (size_t)st.st_size;
	unsigned char *counts = calloc(size + 1, 1);
	if (!counts)
		return -ENOMEM;
	int r = size ? read_counts(fd, counts, size, 0) : 0;
	if (r < 0) {
		free(counts);
		return r;
	}
	*ret = counts;
	*ret_size = size;
	return 0;
}

int tally_write(int fd, const unsigned char *counts, size_t size)
{
	int r = ftruncate(fd, 0) < 0 ? -errno : 0;
	return r < 0 ? r : write_counts(fd, counts, size, 0);
}

int tally_count(unsigned char **counts, size_t *capacity, size_t *size, uint64_t id, int64_t records)
{
	if (id >= *size) {
		if (array_reserve(*counts, capacity, id + 1) < 0)
			return -ENOMEM;
		memset(*counts + *size, 0, (size_t)id + 1 - *size);
		*size = (size_t)id + 1;
	}
	(*counts)[id] = (unsigned char)(records >= 0 ? records : (*counts)[id] + 1);
	return 0;
}
