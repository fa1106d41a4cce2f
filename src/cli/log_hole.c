/* SPDX-License-Identifier: MIT */
#include "cli/log_hole.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t log_hole_skip(int fd)
{
	struct stat st;
	off_t at = lseek(fd, 0, SEEK_CUR);
	/* Get the size first: data that is appended later is after it and is not skipped. */
	if (at < 0 || fstat(fd, &st) < 0)
		return 0;
	off_t data = lseek(fd, at, SEEK_DATA);
	/* A hole at the end of the file can be of any size: another process may have made it. */
	if (data < 0 && errno == ENXIO && st.st_size > at)
		data = lseek(fd, st.st_size, SEEK_SET);
	if (data < 0)
		lseek(fd, at, SEEK_SET);
	return data > at ? (uint64_t)(data - at) : 0;
}
