/* SPDX-License-Identifier: MIT */
/* An entry of an input folder that may be a malicious link. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/trust.h"
#include "launch/find.h"

#define MAX_HOLE_BYTES ((off_t)64 << 20)

static const char holes[] =
	"another user may have written or chosen it, and it has more than 64 MiB of holes, which take long to read";

int find_open_entry(int folder_fd, const char *path, bool trust, struct trust_way *way, int *ret_fd, struct stat *ret,
	const char **ret_objection)
{
	cleanup_(closep) int fd = -1;
	struct stat st;
	*ret_objection = NULL;
	int r = trust_open_any(folder_fd, path, &fd, way);
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	*ret = st;
	if (way->chooser && !trust)
		*ret_objection = trust_objection_behind_link(way, &st);
	if (*ret_objection)
		return -EPERM;
	*ret_fd = take_fd(&fd);
	return 0;
}

uid_t find_owner_of(int fd, const char *name, const struct stat *st, struct trust_way *way, uid_t user)
{
	if (way->chooser)
		return way->chooser;
	if (st->st_uid != user && st->st_uid != 0)
		return st->st_uid;
	return S_ISREG(st->st_mode) && trust_is_shared(fd, name, st, way) ? TRUST_SEVERAL_USERS : 0;
}

bool find_may_have_holes(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_size - (off_t)st->st_blocks * 512 > MAX_HOLE_BYTES;
}

const char *find_objection_to_holes(int fd, const char *name, const struct stat *st, struct trust_way *way)
{
	char opened[32];
	/* Most files: nothing is opened. */
	if (!find_may_have_holes(st))
		return NULL;
	if (find_owner_of(fd, name, st, way, geteuid()) == 0)
		return NULL;
	snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
	cleanup_(closep) int file =
		name ? file_open_regular(fd, name, O_NOFOLLOW) : file_open_regular(AT_FDCWD, opened, 0);
	/* The owner can prevent others from opening it for a while, with a lease or by its mode. */
	if (file == -EAGAIN || file == -EACCES || file == -EPERM)
		return holes;
	bool many = file >= 0 && file_count_holes(file, 0, st->st_size, MAX_HOLE_BYTES) > MAX_HOLE_BYTES;
	return many ? holes : NULL;
}

const char *find_advice(const char *objection)
{
	return objection == holes ? "; set trust_input to include it"
				  : "; create the link yourself, or set trust_input to follow it";
}
