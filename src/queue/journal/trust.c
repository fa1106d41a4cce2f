/* SPDX-License-Identifier: MIT */
#include "queue/journal/trust.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/error.h"

/* A group that has the user's own name and no other member. */
static bool is_private_group(gid_t gid)
{
	char user_room[4096], group_room[4096];
	struct passwd pw, *user;
	struct group gr, *group;
	if (getpwuid_r(geteuid(), &pw, user_room, sizeof(user_room), &user) || !user || user->pw_gid != gid)
		return false;
	if (getgrgid_r(gid, &gr, group_room, sizeof(group_room), &group) || !group)
		return false;
	if (strcmp(group->gr_name, user->pw_name) != 0)
		return false;
	for (char **member = group->gr_mem; *member; member++)
		if (strcmp(*member, user->pw_name) != 0)
			return false;
	return true;
}

/* With an access list the group's bits are its mask: whom it lets write is not seen in them. */
static bool has_access_list(int fd)
{
	return fgetxattr(fd, "system.posix_acl_access", NULL, 0) > 0;
}

int trust_check(int fd, const char *path, struct gd_error *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		int code = -errno;
		return error_set(err, code, "cannot look at '%s': %s", path, error_words(code));
	}
	/* /dev/null and terminals: writable for all, but nobody's words stay in them. */
	if (S_ISCHR(st.st_mode))
		return 0;

	const char *who = NULL;
	if (st.st_uid != 0 && st.st_uid != geteuid())
		who = "belongs to another user";
	else if (st.st_mode & S_IWOTH)
		who = "can be written by everybody";
	else if ((st.st_mode & S_IWGRP) && has_access_list(fd))
		who = "can be written by others (it has an access list)";
	else if ((st.st_mode & S_IWGRP) && !is_private_group(st.st_gid))
		who = "can be written by its group";
	if (!who)
		return 0;
	return error_set(err, -EPERM,
		"'%s' %s, who could make this account run anything; use 'chmod go-w' or, if that is meant, --trust",
		path, who);
}
