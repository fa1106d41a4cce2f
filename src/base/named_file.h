/* SPDX-License-Identifier: MIT */
/* Files that the user has named. */
#ifndef BASE_NAMED_FILE_H
#define BASE_NAMED_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "gpu_dispatch.h"

struct text;
struct trust_way;

/* Where an open file comes from. */
enum named_file_origin {
	NAMED_FILE_FOUND,
	NAMED_FILE_CREATED, /* with the mode 0600 */
	NAMED_FILE_MOVABLE, /* found, but another user may have moved it there, see trust_check_place() */
	NAMED_FILE_PASSED, /* a descriptor of the user, who chose where it writes: neither truncate nor replace the file
			    */
};

/*
 * Opens the file for writing. Creates a missing file; does not truncate. The name of a descriptor that was passed to
 * this process gives a duplicate of it, with its position. Follows symbolic links of the user and root
 * only (else -EPERM), because links of others could lead to any file of this user. Also -EPERM for a link
 * that another user may have moved there, and for a file that belongs to another user or that others can write: they
 * could change its contents afterwards. Does not wait for the reader of a pipe: -ENXIO.
 */
int named_file_open(const char *path, int *ret_fd, enum named_file_origin *ret_origin, struct gd_error *err);

/*
 * Writes a new file, and renames it to `name` in the directory. old_fd: the file that it replaces, whose group, mode
 * and access list it gets; -1: its mode is 0600. The old file stays intact until the new one is complete. Returns 0 or
 * a negative errno value.
 */
int named_file_replace(int dir_fd, const char *name, int old_fd, const struct text *content);

/*
 * Opens a pipe or a character device for writing, as found by named_file_find(), or duplicates a descriptor that was
 * passed. -EPERM: also a regular file, which has just been put there. -ENXIO: the pipe has no reader.
 */
int named_file_open_special(const char *path, int *ret_fd, struct gd_error *err);

/* Whether `path` is the name of a descriptor that was passed to this process: /dev/stdout, /dev/fd/63. */
bool named_file_is_passed(const char *path);
/* Whether it is the name of standard output: "-", /dev/stdout. */
bool named_file_is_stdout(const char *path);

/*
 * Opens what the path leads to with O_PATH. Open it again as /proc/self/fd/N: then nobody can replace the file after
 * the check. Unless the path names a descriptor that was passed to this process, the way is noted, see
 * trust_open_any(), and -EPERM with *ret_objection is returned for
 *  - a pipe or a device of another user, who could make this process wait forever or read what it writes;
 *  - anything but a regular file behind a link of another user, and files that trust_objection_behind_link() names,
 *    unless `trust`: the user accepts links of others.
 * *ret_objection is NULL for all other errors, such as -ENOENT: the path names a descriptor that was not passed.
 */
int named_file_find(
	const char *path, bool trust, struct trust_way *way, int *ret_fd, struct stat *ret, const char **ret_objection);

#endif
