/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "queue/journal/journal.h"

/* Returns false if a folder is not empty: another process has stored an environment or a script for its first job. */
static bool remove_folders(int dir_fd)
{
	static const char *const folders[] = {"env", "scripts", "trees", "keepers"};
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (unlinkat(dir_fd, folders[i], AT_REMOVEDIR) < 0 && errno != ENOENT)
			return false;
	return true;
}

void journal_remove_empty(struct journal *j)
{
	static const char *const files[] = {"counts", "runner.lock", "runner.log", "home", ".gitignore", "append.lock"};
	if (!j->made || journal_lock(j, NULL) < 0)
		return;
	cleanup_(freep) char *folder = NULL;
	pid_t runner = 0;
	/* A runner may be waiting for the first job. Removing runner.lock, which the runner holds, would end it. */
	bool has_runner = lock_holder_at(j->dir_fd, "runner.lock", &runner) < 0 || runner != 0;
	/* A process that waits for the lock sees that its file was removed, and creates folder and journal again. */
	if (j->next_id == 1 && !has_runner && asprintf(&folder, "%s.d", j->name) >= 0 && remove_folders(j->dir_fd)) {
		for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
			(void)unlinkat(j->dir_fd, files[i], 0);
		if (unlinkat(j->parent_fd, folder, AT_REMOVEDIR) == 0)
			(void)unlinkat(j->parent_fd, j->name, 0);
		j->dirty = false;
	}
	journal_unlock(j);
}
