/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/hash.h"

/* The hash of this many bytes shows whether a file with the same inode number is still the same file. */
#define TAIL_BYTES 64

#define MAGIC         "gpuq-counters-2"
#define LINE_ROOM     512
#define CHECK_SIZE    10 /* a space, eight digits, a newline */
#define NUM_NUMBERS   10
#define SCAN_STRINGS  MAGIC " %32[0-9a-f] %36s %64s %n"
#define WRITE_STRINGS MAGIC " %s %s %s"

static uint64_t *number_of(struct journal_counters *c, int i)
{
	uint64_t *const numbers[NUM_NUMBERS] = {&c->generation, &c->dev, &c->ino, &c->size, &c->tail, &c->next_n,
		&c->next_id, &c->fence, &c->synced_n, &c->birth};
	return numbers[i];
}

static bool check_is_right(const char *line, size_t size)
{
	return size > CHECK_SIZE && strtoul(line + size - CHECK_SIZE, NULL, 16) == crc32c(0, line, size - CHECK_SIZE);
}

bool journal_counters_read(int lock_fd, struct journal_counters *ret)
{
	char line[LINE_ROOM + 1];
	struct journal_counters c = {0};
	int at = 0;
	ssize_t n = pread(lock_fd, line, LINE_ROOM, 0);
	char *newline = n > 0 ? memchr(line, '\n', (size_t)n) : NULL;
	if (!newline || !check_is_right(line, (size_t)(newline - line) + 1))
		return false;
	newline[1] = '\0';
	if (sscanf(line, SCAN_STRINGS, c.queue, c.boot, c.host, &at) != 3 || at == 0)
		return false;
	char *p = line + at, *end = newline + 1 - CHECK_SIZE;
	for (int i = 0; i < NUM_NUMBERS && p < end; i++)
		*number_of(&c, i) = strtoull(p, &p, 10);
	*ret = c;
	return true;
}

uint64_t journal_tail(const struct journal *j, off_t end)
{
	char tail[TAIL_BYTES];
	off_t from = end > TAIL_BYTES ? end - TAIL_BYTES : 0;
	ssize_t n = pread(j->fd, tail, (size_t)(end - from), from);
	return n < 0 ? 0 : hash_bytes(tail, (size_t)n).a;
}

uint64_t journal_tail_of(const char *bytes, size_t size)
{
	return size < TAIL_BYTES ? 0 : hash_bytes(bytes + size - TAIL_BYTES, TAIL_BYTES).a;
}

#define MOST_DIGITS 20
_Static_assert(sizeof(MAGIC) + 32 + 36 + 64 + 3 + NUM_NUMBERS * (MOST_DIGITS + 1) + CHECK_SIZE < LINE_ROOM,
	"the longest line has room");

/* Called for every record: printf() would take most of the time. Returns the number of bytes. */
static int put_number(char *out, uint64_t n)
{
	char digits[MOST_DIGITS + 1];
	size_t at = sizeof(digits);
	do
		digits[--at] = (char)('0' + n % 10);
	while ((n /= 10) > 0);
	digits[--at] = ' ';
	memcpy(out, digits + at, sizeof(digits) - at);
	return (int)(sizeof(digits) - at);
}

int journal_counters_store(int lock_fd, const struct journal_counters *counters)
{
	char line[LINE_ROOM];
	struct journal_counters c = *counters;
	int n = snprintf(line, sizeof(line), WRITE_STRINGS, c.queue, c.boot, c.host);
	for (int i = 0; i < NUM_NUMBERS; i++)
		n += put_number(line + n, *number_of(&c, i));
	n += snprintf(line + n, sizeof(line) - (size_t)n, " %08" PRIx32 "\n", crc32c(0, line, (size_t)n));
	ssize_t done = pwrite(lock_fd, line, (size_t)n, 0);
	return done == n ? 0 : done < 0 ? -errno : -ENOSPC;
}

int journal_counters_write(struct journal *j)
{
	struct journal_counters c = {.generation = j->generation,
		.dev = (uint64_t)j->dev,
		.ino = (uint64_t)j->ino,
		.size = (uint64_t)j->size,
		.tail = j->tail ? j->tail : journal_tail(j, j->size),
		.next_n = j->next_n,
		.next_id = j->next_id,
		.fence = j->fence,
		.synced_n = j->synced_n,
		.birth = j->birth};
	memcpy(c.queue, j->queue, sizeof(c.queue));
	memcpy(c.boot, j->boot, sizeof(c.boot));
	memcpy(c.host, j->host, sizeof(c.host));
	int r = journal_counters_store(j->lock_fd, &c);
	j->dirty = j->dirty && r < 0;
	return r;
}

bool journal_counters_match(const struct journal *j, const struct journal_counters *c, off_t size)
{
	return c->dev == (uint64_t)j->dev && c->ino == (uint64_t)j->ino && c->size <= (uint64_t)size &&
	       c->tail == journal_tail(j, (off_t)c->size);
}

int journal_machine(struct machine *ret)
{
	struct machine m;
	int r = machine_get(&m);
	if (r < 0)
		return r;
	for (char *p = m.host; *p; p++)
		if ((unsigned char)*p <= ' ')
			*p = '_';
	if (!*m.host)
		strcpy(m.host, "-");
	*ret = m;
	return 0;
}

bool journal_counters_rebooted(const struct journal_counters *c, const struct machine *here)
{
	return strcmp(c->host, here->host) == 0 && strcmp(c->boot, here->boot) != 0;
}
