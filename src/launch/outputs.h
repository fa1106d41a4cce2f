/* SPDX-License-Identifier: MIT */
/*
 * Which folder below the output folder belongs to which file.
 *
 * "a/b.wav" gets "a/b", or "a/b.wav" if "a/b" belongs to another file (b.mp3 came first) or contains folders of other
 * files (of "a/b/c.wav"). A file keeps its folder of an earlier run; new files get theirs in the order of calls, which
 * is the order of their names, files of other users last. No two files share a folder, and no new one is in the folder
 * of another file.
 */
#ifndef LAUNCH_OUTPUTS_H
#define LAUNCH_OUTPUTS_H

#include <sys/stat.h>
#include <sys/types.h>

#include "base/arena.h"
#include "gpu_dispatch.h"
#include "launch/path_map.h"

/* Start from {0}. */
struct outputs {
	struct path_map owners; /* numbers of files, by folder */
	struct path_map above;  /* folders that contain folders of files; the numbers are unused */
	struct path_map
		next; /* by wanted folder: the number that is tried next, so that a million equal names stay cheap */
	struct arena arena;
};

void outputs_finish(struct outputs *o);

/*
 * Records that an earlier run gave `output` to the file with this number. False if that is impossible: `output` is not
 * a path below the output folder, or another file has it; treat the file as new. Negative: no memory.
 */
int outputs_claim(struct outputs *o, const char *output, size_t file);

/* The folder for a new file; the arena owns the string. -ENOMEM. */
int outputs_choose(struct outputs *o, const char *path, size_t file, const char **ret);

/* "b" of "a/b.wav": its beginning in the path, and its length. Never empty, "." or "..". */
const char *outputs_stem(const char *path, size_t *ret_length);

/* Whether the launcher itself uses this name in the output folder. */
bool outputs_is_reserved(const char *path);

/* The first `length` bytes of this path are the name of something else: no new file gets this folder, or one in it. */
int outputs_avoid(struct outputs *o, const char *path, size_t length);

struct outputs_rules {
	bool trust;    /* otherwise each folder must be trusted, because workers follow links in them, and new ones have
			  no default access list */
	bool private;  /* the folder and those above it are for their owner alone from now on, except behind links */
	bool no_links; /* the path must have no links, not even of this user */
	bool unused;   /* the folder must be new, or empty and trusted */
	const struct stat *input; /* the input folder, which must not be on the path; or NULL */
};

/*
 * Makes the folder `path` of a result, below the output folder, with missing parents. Links of other users on the path
 * are never followed: -EPERM, and *ret_objection says why: "belongs to another user". Returns OUTPUTS_MADE if the
 * folder is new; OUTPUTS_TAKEN if it breaks no_links or unused or contains the input folder: *ret_taken is the length
 * of the path up to the link, the file or the folder in use.
 */
int outputs_make_result_folder(int root_fd, const char *path, const struct outputs_rules *rules, size_t *ret_taken,
	const char **ret_objection);

/* Removes the permissions of others from the folder and those above it, as far as they exist and are not links. */
int outputs_close_result_folder(int root_fd, const char *path);

/* Removes the permissions of others from a folder, which may be open with O_PATH. */
int outputs_close_folder(int fd);

/*
 * Opens the output folder `path` with O_PATH, unless another user could have chosen it, can fill it or can replace it:
 * the path must have no links of other users, and base/trust.h must have no objection to the folder, to new files in it
 * and to the directories above it. Otherwise returns -EPERM, and err says what to do. -ENOENT: it is missing, and there
 * is no objection to the directories above it; err is not set.
 */
int outputs_open_trusted(const char *path, int *ret_fd, struct gd_error *err);

/* Makes the folder `path` in `dirfd`, private to the user. -EPERM: another user has made it, or a link on its path. */
int outputs_make_private(int dirfd, const char *path);

/* Makes the folder `path` below `dirfd`, with missing parents, which get the mode 0755. OUTPUTS_MADE, or 0: it exists.
 */
#define OUTPUTS_MADE  1
#define OUTPUTS_TAKEN 2
int outputs_make_folder(int dirfd, const char *path, mode_t mode);

/* Removes the default access list that a new folder has inherited. */
void outputs_drop_default_list(int dirfd, const char *path);

#endif
