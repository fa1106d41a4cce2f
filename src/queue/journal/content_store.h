/* SPDX-License-Identifier: MIT */
/*
 * Contents that jobs need, in a folder next to the journal: a file for each distinct content, named by its hash,
 * readable only by the owner. An existing file is always complete.
 */
#ifndef QUEUE_JOURNAL_CONTENT_STORE_H
#define QUEUE_JOURNAL_CONTENT_STORE_H

#include <stddef.h>

#include "base/hash.h"

/* Subfolders of the journal's folder. */
#define STORE_ENVIRONMENTS "env"
#define STORE_SCRIPTS      "scripts"

void content_store_name(const void *data, size_t size, char ret_name[HASH_TEXT]);

/* Stores and syncs a content and returns its name. dir_fd: the journal's folder. -EEXIST: the file of this name has
 * different content and is kept. */
int content_store_save(int dir_fd, const char *folder, const void *data, size_t size, char ret_name[HASH_TEXT]);

/*
 * Removes files that are not in `used` (sorted by strcmp()) and were last saved more than an hour ago. Only under the
 * append lock. So a process that saves a content, and gets the lock within an hour, finds the content.
 */
void content_store_sweep(int dir_fd, const char *folder, const char *const *used, size_t count);

#endif
