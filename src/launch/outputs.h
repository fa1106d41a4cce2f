/* SPDX-License-Identifier: MIT */
/*
 * Which folder below the output folder belongs to which file.
 *
 * "a/b.wav" has "a/b"; where that belongs to another file (b.mp3 came first), it has
 * "a/b.wav". Whoever had a folder in an earlier run keeps it; among new ones, the
 * order of asking decides, which is that of their names. No two files share one.
 */
#ifndef LAUNCH_OUTPUTS_H
#define LAUNCH_OUTPUTS_H

#include "base/arena.h"
#include "gpu_dispatch.h"
#include "launch/path_map.h"

/* Start from {0}. */
struct outputs {
	struct path_map owners; /* numbers of files, by folder */
	struct arena arena;
};

void outputs_finish(struct outputs *o);

/*
 * Says that an earlier run has given `output` to the file with this number. False where it cannot be: it is no path
 * below the output folder, or another has it; then the file is like a new one. Negative: no memory.
 */
int outputs_claim(struct outputs *o, const char *output, size_t file);

/* The folder for a new file, which is the arena's. -ENOMEM. */
int outputs_choose(struct outputs *o, const char *path, size_t file, const char **ret);

/* "b" of "a/b.wav": where it begins in the path, and its length. Never empty, "." or "..". */
const char *outputs_stem(const char *path, size_t *ret_length);

/* A name that the launcher itself has in the output folder. */
bool outputs_is_reserved(const char *path);

/*
 * Makes the folder `path` of a result, below the output folder, with those above it, as far as they are missing. Each
 * of them must be trusted, unless `trust`, for workers follow the links that they find there; links of others on the
 * way are never followed: -EPERM, and *ret_objection says why: "belongs to another user".
 */
int outputs_make_result_folder(int root_fd, const char *path, bool trust, const char **ret_objection);

/*
 * Opens the output folder `path` with O_PATH, if no other user can have chosen it, fill it or put another in its place:
 * no link of others leads there, and base/trust.h has no objection to it and the directories above it. Otherwise
 * -EPERM, and err says what to do. -ENOENT: it is missing, without objection to what is above it; err is not set.
 */
int outputs_open_trusted(const char *path, int *ret_fd, struct gd_error *err);

/* The folder `path` in that of `dirfd`, for the user alone. -EPERM: it is there and another user has made it, or a link
 * on the way to it. */
int outputs_make_private(int dirfd, const char *path);

/* Makes the folder `path`, below that of `dirfd`, with those above it, as far as they are not there. */
int outputs_make_folder(int dirfd, const char *path);

#endif
