/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "queue/journal/journal.h"

void journal_remove_empty(struct journal *j)
{
	static const char *const names[] = {
		"counts", "runner.lock", "runner.log", "env", "scripts", "trees", "keepers", "home", "append.lock"};
	if (journal_lock(j, NULL) < 0)
		return;
	cleanup_(freep) char *folder = NULL;
	pid_t runner = 0;
	/* A runner may wait for the first job. It holds its lock, so removing the file would end it. */
	bool has_runner = lock_holder_at(j->dir_fd, "runner.lock", &runner) < 0 || runner != 0;
	/* A process that waits for the lock sees that the lock file was removed, and creates both again. */
	if (j->next_id == 1 && !has_runner && asprintf(&folder, "%s.d", j->name) >= 0) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (unlinkat(j->dir_fd, names[i], 0) < 0)
				(void)unlinkat(j->dir_fd, names[i], AT_REMOVEDIR);
		if (unlinkat(j->parent_fd, folder, AT_REMOVEDIR) == 0)
			(void)unlinkat(j->parent_fd, j->name, 0);
		j->dirty = false;
	}
	journal_unlock(j);
}
