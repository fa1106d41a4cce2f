/* SPDX-License-Identifier: MIT */
/*
 * Checks whether another user could have created or changed a file whose content we are about to execute.
 *
 * A file is trusted if it belongs to the effective user or root and no other user can write it. The user's private
 * group (umask 002) may have write access: a group that has the user's name, is the user's primary group, has no
 * other member, and is not the primary group of another account in /etc/passwd, except root. A file is not trusted if
 * an access list lets anyone else write it.
 *
 * In a user namespace (Apptainer, bubblewrap, rootless Podman), all users that are not mapped, including root, have the
 * overflow user id. A directory above a file may belong to this id. The file and its own directory may not, even if the
 * effective user has this id, as in a namespace without a map.
 */
#ifndef BASE_TRUST_H
#define BASE_TRUST_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "gpu_dispatch.h"

/* Whether the user accepts files of others, by the variable GPUQ_TRUST. */
bool trust_is_off(void);

/* Whether `uid` is the effective user, and not the overflow id of this user namespace. */
bool trust_is_user(uid_t uid);

/* Whether the id can stand for any user, even root: the overflow id in a user namespace. */
bool trust_is_unmapped(uid_t uid);

/* Whether the file has an access list; also true if this cannot be determined. O_PATH is enough. */
bool trust_has_access_list(int fd);

/* NULL if the open file or directory is trusted; otherwise the reason: "belongs to another user". O_PATH is enough. */
const char *trust_objection(int fd);

/*
 * NULL, or the reason why others can write the files that programs create in this directory: its default access list,
 * which replaces the umask. O_PATH is enough.
 */
const char *trust_objection_to_new_files(int fd);

/*
 * trust_objection() for an entry of a directory, for many files: st is what fstatat() returned for it, and only files
 * that need it are opened. Symbolic links are not followed: "is a symbolic link of another user". *private_group caches
 * the user's private group, because looking it up is slow; begin with TRUST_NO_GROUP.
 */
#define TRUST_NO_GROUP ((gid_t)-1)
const char *trust_objection_at(int dir_fd, const char *name, const struct stat *st, gid_t *private_group);

/* trust_objection() for many files whose st is known; *private_group is the same cache. */
const char *trust_objection_cached(int fd, const struct stat *st, gid_t *private_group);

/*
 * NULL, or the reason why another user could replace an entry of this directory. A sticky directory of the user or root
 * is accepted, because only the owner of an entry can rename or remove it there.
 */
const char *trust_objection_above(int fd);

/*
 * The same for the directory `fd` and all directories above it, up to the root: a user who can write one of them can
 * replace the directory below it. Returns 0 or -EPERM with a message such as "directory '/a/b' can be written by group
 * 'lab'".
 */
int trust_check_way(int fd, struct gd_error *err);

/*
 * The same for the directory `fd` of a file that is used only because of its name: no other user may be able to add
 * entries to it either, so it must not be sticky and writable. Otherwise another user who can write to this
 * directory and to one that contains a file of this user could move that file here.
 */
int trust_check_place(int fd, struct gd_error *err);

/*
 * Checks that no other user can replace the file `path`, which is absolute and contains no symbolic link, "." or "..".
 * Returns 0; -EPERM if the regular file or its directory is not trusted, or if a directory above them is neither
 * trusted nor a sticky directory of the user or root, with a message such as "'DIRECTORY' can be written by everybody";
 * -ENOENT if it does not exist; other codes if it cannot be examined.
 *
 * The path is opened component by component, and each one is checked by its descriptor. Other users cannot rename or
 * replace trusted components, so the path can be executed afterwards.
 */
int trust_check_path(const char *path, struct gd_error *err);

/* The same for a directory: checks that no other user can replace a file in it. */
int trust_check_directory(const char *path, struct gd_error *err);

/*
 * If the last component of `path` is a symbolic link, follows it, until the last component is not a link or does not
 * exist. *ret_foreign: one of the links belongs to neither the effective user nor root, so another user has chosen the
 * file. Open the result with O_NOFOLLOW, so that no new link is followed. Release it with free().
 */
int trust_follow_links(const char *path, char **ret, bool *ret_foreign);

/*
 * Opens a directory with O_PATH, component by component, and follows only symbolic links of the effective user and
 * root. check_above: each directory above it must be trusted, or be a sticky directory of the user or root, and no link
 * may be in a sticky directory: another user may have renamed a link of this user. Then no other user can replace the
 * directory, and the path can be used afterwards. The directory itself is not checked, see
 * trust_objection().
 *
 * -EPERM, with a message such as "'/a/b' is a symbolic link of another user". -ENOENT: it does not exist, and the
 * existing directories above it passed the checks. err is set for all codes.
 */
int trust_open_directory(const char *path, bool check_above, int *ret_fd, struct gd_error *err);

/* The same for a path relative to the directory dir_fd. dir_fd itself and the directories above it are not checked. */
int trust_open_directory_at(int dir_fd, const char *path, bool check_above, int *ret_fd, struct gd_error *err);

/* Several users, users without an id in this user namespace, or a user whose link leads through a link in /proc: such a
 * link can have another target in another process. */
#define TRUST_SEVERAL_USERS ((uid_t)-1)

/* How other users affect where a path leads. Start from TRUST_WAY_INIT. */
struct trust_way {
	/*
	 * The other user whose links the path leads through, even behind links of this user, and who may therefore have
	 * chosen the file; 0: only this user and root.
	 */
	uid_t chooser;
	/* One of these links belongs to a user without an id in this user namespace: it may be anybody, even root. */
	bool unmapped;
	/*
	 * Such a user may not be allowed to read the file, because behind the first of these links there is a directory
	 * (also the one that a relative link is in) that not everybody can enter, a file that not everybody can read,
	 * an access list or a link in /proc. Always false if there is no chooser.
	 */
	bool restricted;
	/*
	 * Another user can make the path lead elsewhere: there is a chooser, or another user can replace the next
	 * component in a directory on the way to the file, other than the one that the path begins at. Never reset, so
	 * one struct can sum up many paths; if it is true, it is not examined again.
	 */
	bool replaceable;
	/*
	 * long_steps: the number of components of all paths behind links of other users, without the first few of each
	 * path. Never reset; when it reaches most_long_steps, further long paths fail with -ELOOP. Limit 0: no limit.
	 */
	size_t long_steps, most_long_steps;
	gid_t private_group; /* a cache */
	gid_t shared_group;  /* a cache of trust_is_shared() */
};

#define TRUST_WAY_INIT ((struct trust_way){.private_group = TRUST_NO_GROUP, .shared_group = TRUST_NO_GROUP})

/* Opens a path relative to dir_fd, a directory or any file, with O_PATH. Follows links of all users. */
int trust_open_any(int dir_fd, const char *path, int *ret_fd, struct trust_way *way);

/*
 * NULL, or why a file must not be used whose path leads through a link of another user (way->chooser). It must not be a
 * folder, a file of this user, or a third user's file that not everybody can reach and read: the link's owner may not
 * be allowed to read it, and the results would disclose it. For root, all files are "ours" except those of the link's
 * owner.
 */
const char *trust_objection_behind_link(const struct trust_way *way, const struct stat *target);

/*
 * Whether another user may have written a regular file of this user or root, or have put it at its place with a hard
 * link: others can write it, or it has several links. name: an entry of the directory fd, or NULL: fd is the file, and
 * O_PATH is enough. Access lists are looked at only if way->replaceable: this takes microseconds.
 */
bool trust_is_shared(int fd, const char *name, const struct stat *st, struct trust_way *way);

/*
 * Whether everybody has these permissions (S_IROTH, S_IXOTH). The mode 0705 excludes the members of a group. If there
 * is an access list, the mode does not show who is excluded.
 */
bool trust_everybody_has(int fd, const struct stat *st, mode_t wanted);

/*
 * Whether all users who may have put the directory at its place, by renaming it or a directory above it, can read it:
 * everybody can list it and can enter the directories above it, up to the topmost one in which another user can replace
 * entries. Always true if there is none.
 */
bool trust_is_known_to_movers(int fd);

/*
 * Whether other users may be able to list or enter the directory: its permissions, and those of each directory above
 * it, do not exclude all of them. An access list that lets anybody in counts.
 */
bool trust_is_open_to_others(int fd);

/*
 * Opens the directory of a file as trust_open_directory() does, with O_PATH. If the file itself is a link, follows it;
 * *ret_name is the last component, which need not exist: open it there with O_NOFOLLOW, and release it with free().
 * check_above: this directory must be trusted or sticky, too. -EISDIR: the path certainly names a directory. err is set
 * for all codes.
 */
int trust_open_parent(const char *path, bool check_above, int *ret_fd, char **ret_name, struct gd_error *err);

/*
 * As trust_open_parent() with check_above false, but each link that is followed must be in a directory that passes
 * trust_check_place(): otherwise another user may have moved a link of this user there. Judge the directory by
 * *ret_fd, and open the file there: the path may lead elsewhere a moment later.
 */
int trust_open_parent_stable(const char *path, int *ret_fd, char **ret_name, struct gd_error *err);

/*
 * Checks a directory and everything in it, at any depth: files and directories must be trusted, and a default access
 * list must not let others write what is created there. A symbolic link must belong to the user or root, and what it
 * leads to is checked in the same way. The directories above dir_fd are not checked, see trust_open_directory(). skip:
 * an entry of dir_fd that is not checked, or NULL.
 *
 * 0, or -EPERM with a message such as "'/a/b' can be written by its group"; other codes, with a message, if something
 * cannot be examined. Takes a few microseconds per file.
 */
int trust_check_tree(int dir_fd, const char *skip, struct gd_error *err);

/*
 * The same for a file or directory and all directories above it. Follows links of the user and root. A missing file
 * passes if no other user can create it.
 */
int trust_check_target(const char *path, struct gd_error *err);

/*
 * Advice for messages: how the file or directory `path`, which was refused, can pass the checks: "check its content,
 * then run chmod g-w '/a/b' to exclude group 'lab', or "; the caller appends the alternatives. "" if it belongs to
 * another user, or if the path is too long. by_name: a file that is used because of its name, see trust_check_place().
 * The path need not exist. The path is examined again, so never base a decision on this.
 */
#define TRUST_REMEDY_SIZE 320
const char *trust_remedy(const char *path, bool by_name, char ret[TRUST_REMEDY_SIZE]);

/*
 * Returns -EPERM with the message "REASON; REMEDY, or ALTERNATIVES", in which the reason is formatted. The remedy is
 * left out if it does not fit into the message: an incomplete command would be dangerous.
 */
int trust_refuse_path(const char *path, bool by_name, const char *alternatives, struct gd_error *err,
	const char *reason, ...) GD_PRINTF(5, 6);

#endif
