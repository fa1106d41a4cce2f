/* SPDX-License-Identifier: MIT */
/* Shared by trust.c, trust_walk.c and trust_tree.c. */
#ifndef BASE_TRUST_PRIVATE_H
#define BASE_TRUST_PRIVATE_H

#include <stdbool.h>
#include <sys/stat.h>

/* The kernel's limit on symbolic links in a path. */
#define TRUST_MAX_LINKS 40

/* Whether the file belongs to the effective user or root. */
bool trust_is_ours(const struct stat *st);

/* trust_objection() for many files, of which st is known; *private_group as for trust_objection_at(). */
const char *trust_objection_cached(int fd, const struct stat *st, gid_t *private_group);

/* Whether the id can stand for any user, even root: the overflow id in a user namespace. */
bool trust_is_unmapped(uid_t uid);

/* Also if this cannot be determined. O_PATH is enough. */
bool trust_has_access_list(int fd);

#endif
