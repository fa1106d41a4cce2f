/* SPDX-License-Identifier: MIT */
/* Regular files, and whole reads and writes on file descriptors. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * Opens a regular file for reading. Other files are not opened, because opening a device can have effects (a watchdog
 * restarts the machine) and other users can plant links to one: -EISDIR or -EINVAL. flags: 0, or O_NOFOLLOW (-ELOOP for
 * a link). Returns the descriptor, O_CLOEXEC, or a negative errno value.
 */
int file_open_regular(int dirfd, const char *path, int flags);

/*
 * Opens a file for reading, with O_NONBLOCK. If another process has a lease on the file (F_SETLEASE), the kernel asks
 * that process to release the lease: a file server does so at once. -EAGAIN: it has not done so after two seconds;
 * open() without O_NONBLOCK would wait for 45 seconds.
 */
int file_open_leased(const char *path);

/*
 * Writes all bytes; repeats interrupted and short writes, and waits if the descriptor is non-blocking. Returns 0 or a
 * negative errno value; -EAGAIN: the time limit of a blocking socket (SO_SNDTIMEO) has passed.
 */
int file_write_all(int fd, const void *data, size_t size);

/*
 * Gives the new file `to` the group, mode and access list of the file `from`, which it replaces. Best effort: if the
 * group or the list cannot be set, groups get no access.
 */
void file_copy_access(int from, int to);

/*
 * Reads up to `size` bytes; repeats interrupted and short reads. Returns the number of bytes, which is less than `size`
 * only at the end of the file.
 */
ssize_t file_read_full(int fd, void *buf, size_t size);

/*
 * Reads a small file (sysfs, proc) into buf, NUL-terminated and without trailing newlines. Returns its length, or
 * -EFBIG if it does not fit. Does not wait for a pipe.
 */
int file_read_small(int dirfd, const char *path, char *buf, size_t size);

/*
 * Returns the number of bytes in holes between `from` and `to`; stops counting beyond `most`. Queries the file system
 * only if the file has so few blocks that there can be more than `most`, because the query is slow on some file systems
 * (ZFS, while the file is being written). A file of that kind with more than 1,024 holes counts as more than `most`.
 */
off_t file_count_holes(int fd, off_t from, off_t to, off_t most);

/*
 * The modification time since 1970. The owner of a file can set any time, also one that does not fit: the number of
 * nanoseconds then wraps around, so that different times still give different numbers. Milliseconds are limited to a
 * range in which differences fit.
 */
int64_t file_mtime_ns(const struct stat *st);
int64_t file_mtime_ms(const struct stat *st);

/*
 * When the file was created, in nanoseconds since 1970; 0 if the file system does not record it. It distinguishes a
 * file from an earlier one that had the same inode number.
 */
uint64_t file_birth_ns(int fd);

/*
 * The current path of an open file, also with O_PATH, without links. Returns 0, or a negative errno value and "".
 * A removed file gets a path that does not exist.
 */
int file_path(int fd, char ret[PATH_MAX]);

/*
 * Returns a descriptor that is not 0, 1 or 2. If `fd` is one of them, duplicates and closes it: a program with closed
 * standard descriptors would otherwise print into it, and a child would redirect it. If `fd` is negative, returns
 * -errno.
 */
int file_above_stdio(int fd);

/*
 * Opens /dev/null in the place of closed standard descriptors, so that no other file gets their numbers. Children
 * begin without them again (close-on-exec). refuse: reading and writing fail with EBADF, as for a closed descriptor.
 */
void file_fill_stdio(bool refuse);
/* Whether the process that started this program has passed it this descriptor: it is open, and not close-on-exec. */
bool file_is_passed(int fd);

/* Closes the descriptors first…last, open or not. Allocates nothing, so it can be called between fork and exec. */
void file_close_range(int first, int last);
/* Closes all descriptors from `first` on, except those of `keep`, which it sorts. Negative ones are ignored. */
void file_close_except(int first, int *keep, size_t count);

/*
 * Removes the access list that new files in this directory would inherit, and which could let others write to them.
 * Best effort: most file systems and directories have none. O_PATH is enough.
 */
void file_remove_default_list(int fd);

/* Creates a .gitignore in a new directory, so that `git add .` adds nothing in it. Best effort. */
void file_write_gitignore(int dir_fd, mode_t mode);

#endif
