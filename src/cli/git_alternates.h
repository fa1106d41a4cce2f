/* SPDX-License-Identifier: MIT */
/*
 * Folders from which a git repository borrows objects: those in objects/info/alternates, which can name further ones,
 * and those in GIT_ALTERNATE_OBJECT_DIRECTORIES.
 */
#ifndef CLI_GIT_ALTERNATES_H
#define CLI_GIT_ALTERNATES_H

#include "gpu_dispatch.h"

/*
 * Checks that no other user can write or replace these folders and their contents (trust_check_tree()). objects: the
 * repository's own folder of objects, checked before. Codes and messages as for git_trust_check(). Paths that git may
 * interpret in another way than the kernel, and missing folders, are refused.
 */
int git_alternates_check(int objects, struct gd_error *err);

#endif
