/* SPDX-License-Identifier: MIT */
/* Shared by trust.c, trust_access.c, trust_remedy.c, trust_tree.c, trust_walk.c and named_file.c. */
#ifndef BASE_TRUST_PRIVATE_H
#define BASE_TRUST_PRIVATE_H

#include <stdbool.h>
#include <sys/stat.h>

/* Objections to a path that leads through links of other users, see struct trust_way. */
#define TRUST_LINK_OF_OTHERS   "its path contains a symbolic link of another user"
#define TRUST_LINK_OF_UNMAPPED "its path contains a symbolic link whose owner has no id in this user namespace"

/* The kernel's limit on symbolic links in a path. */
#define TRUST_MAX_LINKS 40

/* Whether the file belongs to the effective user or root. */
bool trust_is_ours(const struct stat *st);

/* trust_objection_above() for many directories, like trust_objection_cached(). */
const char *trust_objection_above_cached(int fd, const struct stat *st, gid_t *private_group);

/* Whether `gid` is the user's private group. The cache begins with TRUST_NO_GROUP. */
bool trust_is_private_group(gid_t gid, gid_t *cache);

#endif
