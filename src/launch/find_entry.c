/* SPDX-License-Identifier: MIT */
/* An entry of an input folder that may be a malicious link. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/trust.h"
#include "launch/find.h"

/* chooser: the other user who chose the target; restricted: that user may not be allowed to read it. */
static const char *find_objection(uid_t chooser, bool restricted, const struct stat *target)
{
	uid_t user = geteuid();
	if (S_ISDIR(target->st_mode))
		return "its path contains a symbolic link of another user to a folder";
	/* First: in a namespace without a map, all users have the same id. */
	bool ours = target->st_uid == user;
	if (target->st_uid == chooser && !ours)
		return NULL;
	if (ours || user == 0)
		return "its path contains a symbolic link of another user to a file of yours";
	if (!restricted)
		return NULL;
	return "its path contains a symbolic link of another user to a file that not everybody can read, or in a folder that not everybody can enter";
}

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
	if (way->chooser && !trust)
		*ret_objection = find_objection(way->chooser, way->restricted, &st);
	if (*ret_objection)
		return -EPERM;
	*ret_fd = take_fd(&fd);
	*ret = st;
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

int find_open_folder(const char *path, int *ret_fd)
{
	cleanup_(closep) int fd = -1;
	struct trust_way way = {.replaceable = true}; /* not examined */
	struct stat st;
	int r = trust_open_any(AT_FDCWD, path, &fd, &way);
	if (r < 0)
		return r;
	if (way.chooser)
		return -EPERM;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	*ret_fd = take_fd(&fd);
	return 0;
}
