/* SPDX-License-Identifier: MIT */
#include "queue/journal/journal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/trust.h"
#include "queue/journal/tally.h"

int journal_sync_directory(const struct journal *j)
{
	cleanup_(closep) int fd = openat(j->parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Some file systems cannot sync a directory and fail with EINVAL. */
	return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

/* Updates only this number: the next append checks whether the counters match the file. */
int journal_counters_note(int lock_fd, const char *queue, uint64_t generation, uint64_t n)
{
	struct journal_counters c;
	if (!journal_counters_read(lock_fd, &c) || strcmp(c.queue, queue) != 0 || c.generation != generation ||
		c.synced_n >= n || n >= c.next_n)
		return 0;
	c.synced_n = n;
	return journal_counters_store(lock_fd, &c);
}

static void note_synced(struct journal *j, uint64_t generation, uint64_t n)
{
	struct stat st;
	if (j->lock_fd < 0 || lock_take(j->lock_fd) < 0)
		return;
	if (fstat(j->lock_fd, &st) == 0 && st.st_nlink > 0)
		(void)journal_counters_note(j->lock_fd, j->queue, generation, n);
	if (lock_release(j->lock_fd) < 0)
		close_fd(&j->lock_fd);
}

int journal_sync(struct journal *j, struct gd_error *err)
{
	/* The counters as they were when this process unlocked. */
	uint64_t generation = j->generation, n = j->next_n ? j->next_n - 1 : 0;
	int r = fdatasync(j->fd) < 0 ? -errno : 0;
	if (r == 0 && j->created)
		r = journal_sync_directory(j);
	if (r < 0)
		return error_set(err, r, "cannot sync journal '%s': %s", j->path, error_words(r));
	j->created = false;
	/* Without this, the lines are just as safe, but their loss in a power cut would not be noticed. */
	note_synced(j, generation, n);
	return 0;
}

/* Reads the counters; false if they do not belong to the open file. */
static bool read_counters(int lock_fd, int fd, struct journal_counters *ret)
{
	struct stat st;
	if (lock_fd < 0 || trust_objection(lock_fd) || fstat(fd, &st) < 0 || lock_take(lock_fd) < 0)
		return false;
	bool known = journal_counters_read(lock_fd, ret) && ret->dev == (uint64_t)st.st_dev &&
		     ret->ino == (uint64_t)st.st_ino;
	return lock_release(lock_fd) == 0 && known;
}

int journal_sync_at(int parent_fd, const char *name)
{
	char path[NAME_MAX + 32];
	struct journal_counters c;
	const int flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;
	cleanup_(closep) int fd = openat(parent_fd, name, O_RDONLY | flags);
	if (fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "%s.d/append.lock", name);
	cleanup_(closep) int lock_fd = openat(parent_fd, path, O_RDWR | flags);
	snprintf(path, sizeof(path), "%s.d/" TALLY_NAME, name);
	cleanup_(closep) int counts_fd = openat(parent_fd, path, O_RDONLY | flags);
	bool known = read_counters(lock_fd, fd, &c);
	if (fdatasync(fd) < 0)
		return -errno;
	if (!known || counts_fd < 0 || fdatasync(counts_fd) < 0 || lock_take(lock_fd) < 0)
		return 0;
	/* Closing the descriptor releases the lock. */
	return journal_counters_note(lock_fd, c.queue, c.generation, c.next_n - 1);
}
