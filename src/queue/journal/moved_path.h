/* SPDX-License-Identifier: MIT */
/* Where a file is after the directory of its queue, or one above it, was renamed. */
#ifndef QUEUE_JOURNAL_MOVED_PATH_H
#define QUEUE_JOURNAL_MOVED_PATH_H

/*
 * The directory `from` is `to` now. 1: the path was in `from`, or in a directory above that was renamed, too; *ret is
 * the new path, to be released with free(). 0: the path stays. -ENOMEM. All paths are absolute.
 */
int moved_path_find(const char *path, const char *from, const char *to, char **ret);

#endif
