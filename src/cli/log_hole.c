/* SPDX-License-Identifier: MIT */
#include "cli/log_hole.h"

#include <errno.h>
#include <unistd.h>

uint64_t log_hole_skip(int fd)
{
	off_t at = lseek(fd, 0, SEEK_CUR);
	if (at < 0)
		return 0;
	off_t data = lseek(fd, at, SEEK_DATA);
	if (data > at)
		return (uint64_t)(data - at);
	/* A hole up to the end of the file: the job itself made it. It is read as zeros. */
	if (data < 0)
		lseek(fd, at, SEEK_SET);
	return 0;
}
