/* SPDX-License-Identifier: MIT */
/*
 * What jobs need, kept in a folder beside the journal: a file for each distinct content, named by its hash, readable by
 * the owner alone. A file that is there is complete.
 */
#ifndef QUEUE_JOURNAL_CONTENT_STORE_H
#define QUEUE_JOURNAL_CONTENT_STORE_H

#include <stddef.h>

#include "base/hash.h"

/* Folders in the journal's folder. */
#define STORE_ENVIRONMENTS "env"
#define STORE_SCRIPTS      "scripts"

void content_store_name(const void *data, size_t size, char ret_name[HASH_TEXT]);

/* Keeps it, synced, and tells its name. dir_fd: of the journal's folder. -EEXIST: the file of this name has another
 * content, which stays. */
int content_store_save(int dir_fd, const char *folder, const void *data, size_t size, char ret_name[HASH_TEXT]);

/*
 * Removes what no name in `used` (sorted by strcmp()) speaks of and nobody has saved for a while. Only under the
 * append lock: who has saved one before it asks for the lock finds it there, however long it waits.
 */
void content_store_sweep(int dir_fd, const char *folder, const char *const *used, size_t count);

#endif
