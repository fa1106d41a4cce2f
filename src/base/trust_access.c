/* SPDX-License-Identifier: MIT */
/* Which users can read a file or a directory: trust_objection_behind_link(), trust_is_known_to_movers() and
 * trust_is_open_to_others(). */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/trust.h"
#include "base/trust_private.h"

/* A directory, and then those above it. */
struct climb {
	int fd;
	struct stat st;
	gid_t private_group; /* a cache */
};

static bool climb_begin(struct climb *c, int fd)
{
	c->private_group = TRUST_NO_GROUP;
	c->fd = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return c->fd >= 0 && fstat(c->fd, &c->st) == 0;
}

static void climb_finish(struct climb *c)
{
	closep(&c->fd);
}

/* To the directory above. False: this is the root, or the directory above cannot be examined (*ret_failed). */
static bool climb_up(struct climb *c, bool *ret_failed)
{
	struct stat above;
	int up = openat(c->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	close_fd(&c->fd);
	c->fd = up;
	*ret_failed = up < 0 || fstat(up, &above) < 0;
	if (*ret_failed || (above.st_dev == c->st.st_dev && above.st_ino == c->st.st_ino))
		return false;
	c->st = above;
	return true;
}

bool trust_everybody_has(int fd, const struct stat *st, mode_t wanted)
{
	mode_t needed = wanted | wanted << 3;
	return (st->st_mode & needed) == needed && !trust_has_access_list(fd);
}

const char *trust_objection_behind_link(const struct trust_way *way, const struct stat *target)
{
	uid_t user = geteuid();
	bool is_folder = S_ISDIR(target->st_mode);
	/* Compared first: in a namespace without a map, all users, also the chooser, have the same id. */
	bool ours = target->st_uid == user;
	bool is_private = ours || (target->st_uid != way->chooser && (user == 0 || way->restricted));
	if (!is_folder && !is_private)
		return NULL;
	if (way->unmapped)
		return TRUST_LINK_OF_UNMAPPED;
	if (is_folder)
		return TRUST_LINK_OF_OTHERS " to a folder";
	if (ours || user == 0)
		return TRUST_LINK_OF_OTHERS " to a file of yours";
	return TRUST_LINK_OF_OTHERS
		" to a file that not everybody can read or that is in a folder that not everybody can enter";
}

bool trust_is_known_to_movers(int fd)
{
	cleanup_(climb_finish) struct climb c;
	bool known = true, failed = false;
	if (!climb_begin(&c, fd))
		return false;
	bool open_below = trust_everybody_has(c.fd, &c.st, S_IROTH | S_IXOTH);
	while (climb_up(&c, &failed)) {
		if (trust_objection_above_cached(c.fd, &c.st, &c.private_group))
			known = open_below;
		open_below = open_below && trust_everybody_has(c.fd, &c.st, S_IXOTH);
	}
	return known && !failed;
}

/* Whether anybody but the user and root has one of the permissions `wanted` (S_IROTH, S_IXOTH). */
static bool others_have(struct climb *c, mode_t wanted)
{
	if (!trust_is_ours(&c->st) || c->st.st_mode & wanted)
		return true;
	/* With an access list, the group's permissions are the maximum for everybody in the list. */
	return c->st.st_mode & wanted << 3 &&
	       (trust_has_access_list(c->fd) || !trust_is_private_group(c->st.st_gid, &c->private_group));
}

bool trust_is_open_to_others(int fd)
{
	cleanup_(climb_finish) struct climb c;
	bool failed = false;
	if (!climb_begin(&c, fd))
		return true;
	for (mode_t wanted = S_IROTH | S_IXOTH; others_have(&c, wanted); wanted = S_IXOTH)
		if (!climb_up(&c, &failed))
			return true;
	return false;
}
