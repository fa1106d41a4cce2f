/* SPDX-License-Identifier: MIT */
/* Regular files, and whole reads and writes on file descriptors. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Opens a regular file for reading. Anything else is not even opened: -EISDIR or -EINVAL. Opening
 * a device can have effects (a watchdog restarts the machine), and other users can plant links to one. flags: 0,
 * or O_NOFOLLOW (-ELOOP for a link). Returns the descriptor, O_CLOEXEC, or a negative errno value.
 */
int file_open_regular(int dirfd, const char *path, int flags);

/* All of it, through interruptions and short writes; 0 or a negative errno value. */
int file_write_all(int fd, const void *data, size_t size);

/* Up to `size` bytes, through interruptions and short reads. Returns how many: less only at the end of the file. */
ssize_t file_read_full(int fd, void *buf, size_t size);

/*
 * A small file (sysfs, proc) into buf, always NUL-terminated, trailing newlines
 * cut off. Returns its length, or -EFBIG where it does not fit. Does not wait for a pipe.
 */
int file_read_small(int dirfd, const char *path, char *buf, size_t size);

/*
 * How many bytes of holes there are from `from` up to `to`; stops counting beyond `most`. Only asks the file system if
 * the file has so few blocks that there can be more than `most`: asking is slow in some (ZFS, while the file is
 * written).
 */
off_t file_count_holes(int fd, off_t from, off_t to, off_t most);

/*
 * A descriptor that is not 0, 1 or 2, in place of `fd`, which is closed if it was
 * one of them: a host with closed standard descriptors would otherwise print into
 * it, and a child redirect it. Passes a negative value on as -errno.
 */
int file_above_stdio(int fd);

/* Closes the descriptors first…last, open or not. Allocates nothing, so it can be called between fork and exec. */
void file_close_range(int first, int last);

#endif
