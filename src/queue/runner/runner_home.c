/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_home.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "queue/runner/runner_private.h"

static void end_run(struct runner *r, const char *how)
{
	r->fatal = error_set(
		&r->error, -ENOENT, "cannot follow journal '%s': its folder was %s", r->following.journal->path, how);
}

/* Whether the journal has another path now. False if its path is only missing for a moment, as on a network file
 * system. */
static bool can_follow(const struct journal *j)
{
	cleanup_(freep) char *path = NULL;
	return journal_locate(j, &path) == 0 && strcmp(path, j->path) != 0;
}

static void check_absence(struct runner *r)
{
	int limit_ms = journal_absence_limit_ms(r->following.journal);
	uint64_t now = clock_now_ns();
	if (!limit_ms)
		r->following.absent_ns = 0;
	else if (!r->following.absent_ns)
		r->following.absent_ns = now;
	else if (now - r->following.absent_ns > (uint64_t)limit_ms * NS_PER_MS)
		end_run(r, limit_ms == JOURNAL_REMOVED_MS ? "removed" : "renamed");
}

bool runner_home_check(struct runner *r)
{
	struct stat st;
	if (fstat(r->following.lock_fd, &st) == 0 && st.st_nlink == 0) {
		end_run(r, "removed");
		return false;
	}
	bool moved = journal_is_moved(r->following.journal);
	/* An interrupted runner starts no jobs and only waits for running ones to end: it needs no paths. */
	if (moved && !r->interrupts && can_follow(r->following.journal))
		r->moved = true;
	else if (!moved || !r->interrupts)
		check_absence(r);
	return !moved && !r->fatal;
}
