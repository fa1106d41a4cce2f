/* SPDX-License-Identifier: MIT */
/*
 * Whether another user could have made or changed a file whose content we are about to execute.
 *
 * A file is trusted if it belongs to the effective user or root and no other user can write it. The user's private
 * group (umask 002) may write: a group that has the user's name, is the user's primary group and has no other member,
 * also none in /etc/passwd.
 * An access list that lets anybody else write makes the file untrusted.
 *
 * In a user namespace (Apptainer, bubblewrap, rootless Podman) users that are not mapped, root among them, all have the
 * overflow user id. A directory above a file may belong to it; the file and its own directory may not, also if the
 * effective user has this id, as in a namespace without a map.
 */
#ifndef BASE_TRUST_H
#define BASE_TRUST_H

#include <stdbool.h>
#include <sys/types.h>

#include "gpu_dispatch.h"

/* Whether the variable GPUQ_TRUST says that the user accepts files of others. */
bool trust_is_off(void);

/* Whether it is the effective user, and not the overflow id of this user namespace. */
bool trust_is_user(uid_t uid);

/* NULL if the open file or directory is trusted; otherwise the reason: "belongs to another user". O_PATH is enough. */
const char *trust_objection(int fd);

/* NULL, or why another user could replace what is in this directory. A sticky directory of the user or root is fine:
 * only the owner of an entry can rename or remove it there. */
const char *trust_objection_above(int fd);

/*
 * The same for the directory `fd` and all directories above it, up to the root: whoever can write one of them can put
 * another directory in its place. 0, or -EPERM: err says "directory '/a/b' can be written by group 'lab'".
 */
int trust_check_way(int fd, struct gd_error *err);

/*
 * Whether no other user can put another file in the place of `path`, which is absolute and has no symbolic link, "." or
 * "..": 0; -EPERM if the regular file or its directory is not trusted, or if a directory above them is neither trusted
 * nor, being sticky, of the user or root. err says "'DIRECTORY' can be written by everybody". Other codes: the file
 * cannot be examined; -ENOENT: it does not exist.
 *
 * The path is opened component by component, and each one is checked by its descriptor. What is trusted cannot be
 * renamed or replaced by others, so the path can be executed afterwards.
 */
int trust_check_path(const char *path, struct gd_error *err);

/* The same for a directory: whether no other user can put another file in the place of one in it. */
int trust_check_directory(const char *path, struct gd_error *err);

/*
 * Follows the symbolic links that the last component of `path` is, to a path whose last component is no link or does
 * not exist. *ret_foreign: one of the links belongs to neither the effective user nor root, so that another user
 * chooses the file. Open the result with O_NOFOLLOW: then no other link can come in between. Release with free().
 */
int trust_follow_links(const char *path, char **ret, bool *ret_foreign);

/*
 * Opens a directory with O_PATH, component by component, and follows only symbolic links of the effective user and
 * root. check_above: each directory above it must be trusted or, being sticky, of the user or root; then no other user
 * can put another directory in its place, and the path can be used afterwards. The directory itself is not checked, see
 * trust_objection().
 *
 * -EPERM: err says "'/a/b' is a symbolic link of another user". -ENOENT: it does not exist, and nothing is wrong with
 * what exists above it. err is set for all codes.
 */
int trust_open_directory(const char *path, bool check_above, int *ret_fd, struct gd_error *err);

/* The same for a path that is seen from the directory dir_fd, which, with those above it, is not checked. */
int trust_open_directory_at(int dir_fd, const char *path, bool check_above, int *ret_fd, struct gd_error *err);

/*
 * Opens what the path is, seen from dir_fd: a directory or any file, with O_PATH. Follows links of everybody.
 * *ret_chooser: the other user whose links the path leads through, also behind links of this user, and who can
 * therefore have chosen the file; 0: nobody but this user and root; TRUST_SEVERAL_USERS.
 */
#define TRUST_SEVERAL_USERS ((uid_t)-1)
int trust_open_any(int dir_fd, const char *path, int *ret_fd, uid_t *ret_chooser);

/*
 * Opens the directory of a file in the same way, with O_PATH. Links that the file itself is are followed too; ret_name
 * is the last name, which need not exist. Open it there with O_NOFOLLOW. Release with free(). check_above: this
 * directory is one of those that must be trusted or sticky. -EISDIR: the path ends in a directory for certain. err is
 * set for all codes.
 */
int trust_open_parent(const char *path, bool check_above, int *ret_fd, char **ret_name, struct gd_error *err);

#endif
