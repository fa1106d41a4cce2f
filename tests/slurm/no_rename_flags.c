/* SPDX-License-Identifier: MIT */
/* For LD_PRELOAD: a file system that refuses flags of renameat2(), like NFS, and with NO_LINKS one without hard links.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int renameat2(int old_dir, const char *old, int new_dir, const char *new, unsigned flags)
{
	if (!flags)
		return renameat(old_dir, old, new_dir, new);
	errno = EINVAL;
	return -1;
}

int link(const char *old, const char *new)
{
	if (!getenv("NO_LINKS"))
		return linkat(AT_FDCWD, old, AT_FDCWD, new, 0);
	errno = EPERM;
	return -1;
}
