/* SPDX-License-Identifier: MIT */
/*
 * The queues that this user has used on this machine: a directory of symbolic links to their journals, `queues` in the
 * user's state directory for this host (base/state_dir.h). A link has the same name as the queue in claims: the hash of
 * the journal's path. Adding one is a single system call and needs no lock.
 *
 * The registry only helps to find queues. Queues work without it.
 */
#ifndef QUEUE_JOURNAL_QUEUE_REGISTRY_H
#define QUEUE_JOURNAL_QUEUE_REGISTRY_H

#include <stddef.h>

#include "gpu_dispatch.h"

struct queue_registry {
	char **paths; /* paths of journals, absolute, sorted */
	size_t count, capacity;
};

/* Adds the queue. `path` is absolute and resolved, see journal_resolve(). */
int queue_registry_add(const char *path);

/* The path of the queue with this hash, or -ENOENT. Release with free(). */
int queue_registry_find(const char *hash, char **ret);

/*
 * Lists all queues and `own`, the absolute path of a journal, if there is such a file; NULL: only those that are
 * registered. Removes queues whose journal is gone, and leaves out journals of other users. Start from {0}; an empty
 * list is not an error.
 */
int queue_registry_list(struct queue_registry *r, const char *own, struct gd_error *err);
void queue_registry_finish(struct queue_registry *r);

#endif
