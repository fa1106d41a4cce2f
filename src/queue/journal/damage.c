/* SPDX-License-Identifier: MIT */
#include "queue/journal/damage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/trust.h"
#include "queue/journal/journal_private.h"
#include "queue/journal/tally.h"

/* Number of reads of counters with a wrong checksum before the lock is taken. */
#define READ_TRIES 3

/*
 * append.lock is opened only by a process that has no journal open, because closing it would release the process's
 * lock. It is locked only in a folder that other users cannot write: another user could hold the lock forever.
 */
static int open_lock(const struct journal_reader *r, int dir_fd, bool to_lock, int *ret_opened)
{
	if (r->journal)
		return r->journal->lock_fd;
	if (dir_fd >= 0 && !to_lock)
		*ret_opened = file_open_regular(dir_fd, "append.lock", O_NOFOLLOW);
	else if (dir_fd >= 0 && !trust_objection(dir_fd))
		*ret_opened = openat(dir_fd, "append.lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return *ret_opened;
}

/* While the counters are being written, a reader without the lock may get half of them. */
static bool read_counters(const struct journal_reader *r, int dir_fd, struct journal_counters *ret)
{
	cleanup_(closep) int opened = -1;
	int fd = open_lock(r, dir_fd, true, &opened);
	/* A process with read access only. */
	if (fd < 0 && !r->journal)
		fd = open_lock(r, dir_fd, false, &opened);
	if (fd < 0)
		return false;
	for (int tries = 0; tries < READ_TRIES; tries++)
		if (journal_counters_read(fd, ret))
			return true;
	if ((r->journal && r->journal->locked) || lock_take(fd) < 0)
		return false;
	bool known = journal_counters_read(fd, ret);
	(void)lock_release(fd); /* if this fails, the next release or the end of the process releases it */
	return known;
}

void damage_look(struct damage_check *check, const struct journal_reader *r, int dir_fd)
{
	struct journal_counters c;
	struct machine here;
	*check = (struct damage_check){.loading = r->fd < 0 || r->offset == 0};
	if (!check->loading)
		return;
	if (!read_counters(r, dir_fd, &c) || journal_machine(&here) < 0)
		return;
	check->known = true;
	check->rebooted = journal_counters_rebooted(&c, &here);
	check->generation = c.generation;
	check->next_n = c.next_n;
	check->synced_n = c.synced_n;
	check->next_id = c.next_id;
	memcpy(check->queue, c.queue, sizeof(check->queue));
}

/* Whether the file at the path is the one that was read. */
static bool is_in_place(const struct journal_reader *r)
{
	struct stat st;
	int dir_fd = r->journal ? r->journal->parent_fd : AT_FDCWD;
	return fstatat(dir_fd, r->journal ? r->journal->name : r->path, &st, 0) == 0 && st.st_dev == r->dev &&
	       st.st_ino == r->ino;
}

/* Adds the missing numbers from `first` on that cannot have been lost in a power cut. */
static int add_hole(struct jobs *js, const struct damage_check *c, uint64_t first, uint64_t last)
{
	if (c->known && c->rebooted && last > c->synced_n)
		last = c->synced_n;
	return number_set_add(&js->holes, first, last);
}

/* A file without a readable first line is assumed to belong to the counters. */
static bool is_same_queue(const struct damage_check *c, const struct jobs *js)
{
	return c->known && (!*js->queue || strcmp(c->queue, js->queue) == 0);
}

static int find_holes(const struct damage_check *c, const struct journal_reader *r, struct jobs *js)
{
	int e = 0;
	bool same = is_same_queue(c, js) && (!js->generation || c->generation == js->generation);
	struct damage_check none = {0};
	if (c->loading)
		js->holes.count = 0;
	for (size_t i = 0; e == 0 && i < r->missing.count; i++)
		e = add_hole(js, same ? c : &none, r->missing.ranges[i].first, r->missing.ranges[i].last);
	if (e == 0 && same && c->next_n > r->next_n)
		e = add_hole(js, c, r->next_n, c->next_n - 1);
	for (size_t i = 0; e == 0 && i < js->losses.count; i++)
		e = number_set_remove(&js->holes, js->losses.ranges[i].first, js->losses.ranges[i].last);
	js->outdated =
		c->loading ? is_same_queue(c, js) && js->generation && c->generation > js->generation && is_in_place(r)
			   : js->outdated;
	/* Another user may have written any number. */
	if (c->known && c->next_id > js->next_id && c->next_id <= JOB_MAX_ID)
		js->next_id = c->next_id;
	return e;
}

/* Finds the ids of jobs that were added but are missing, and whether lines of commands files may be lost with them. */
static int find_lost(struct jobs *js, const unsigned char *counts, size_t size)
{
	int e = 0;
	size_t k = 0;
	/* Ids below first_id may have been pruned: then their count is 0. */
	uint64_t first = js->first_id ? js->first_id : 1;
	uint64_t next = js->next_id > js->last_id ? js->next_id : js->last_id + 1;
	for (uint64_t id = 1; e == 0 && id < first && id < size; id++)
		if (counts[id] && !jobs_find(js, id))
			e = number_set_add(&js->lost_ids, id, id);
	while (k < js->count && js->by_id[k]->id < first)
		k++;
	for (uint64_t id = first; e == 0 && id < next; k++) {
		uint64_t known = k < js->count ? js->by_id[k]->id : next;
		if (known > id)
			e = number_set_add(&js->lost_ids, id, known - 1);
		id = known + 1;
	}
	/* A restored file, or one that a prune or repair has written, may have had `seen` and `lost` lines. */
	js->lines_lost = js->lines_lost || js->outdated || js->first_id != 1 || js->lost_ids.count > 0;
	return e;
}

/* `counts` has a byte for each job. A huge file of another user is ignored: the counts are then unknown. */
static int open_counts(int dir_fd)
{
	struct stat st;
	int fd = file_open_regular(dir_fd, TALLY_NAME, O_NOFOLLOW);
	if (fd >= 0 && (fstat(fd, &st) < 0 || (st.st_size > JOURNAL_MAX_HOLE_BYTES && trust_objection(fd))))
		close_fd(&fd);
	return fd;
}

static int compare_counts(const struct journal_reader *r, int dir_fd, struct jobs *js)
{
	cleanup_(closep) int opened = -1;
	cleanup_(freep) unsigned char *counts = NULL;
	size_t size = 0;
	if (!r->journal && dir_fd >= 0)
		opened = open_counts(dir_fd);
	int e = tally_read(r->journal ? r->journal->counts_fd : opened, &counts, &size);
	if (e < 0)
		return e;
	for (size_t i = 0; i < js->count; i++) {
		struct job *job = js->by_id[i];
		if (job->records != (job->id < size ? counts[job->id] : 0))
			jobs_lose(js, job);
	}
	return find_lost(js, counts, size);
}

/* Under the lock, every counted record has been read. A process with read access only does without the lock. */
static int judge_jobs(struct journal_reader *r, int dir_fd, struct jobs *js)
{
	cleanup_(closep) int opened = -1;
	bool lock = !(r->journal && r->journal->locked);
	int fd = lock ? open_lock(r, dir_fd, true, &opened) : -1;
	if (fd >= 0 && lock_take(fd) < 0)
		fd = -1;
	int e = journal_reader_read(r, jobs_apply, js);
	if (e == 0)
		e = compare_counts(r, dir_fd, js);
	if (fd >= 0)
		(void)lock_release(fd); /* if this fails, the next release or the end of the process releases it */
	return e;
}

int damage_judge(const struct damage_check *c, struct journal_reader *r, int dir_fd, struct jobs *js)
{
	uint64_t missing = number_set_size(&r->missing);
	if (r->original || (!c->loading && missing == js->judged_missing))
		return 0;
	js->judged_missing = missing;
	int e = find_holes(c, r, js);
	js->damaged = js->holes.count > 0 || js->outdated;
	return e < 0 || !js->damaged ? e : judge_jobs(r, dir_fd, js);
}
