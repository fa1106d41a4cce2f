/* SPDX-License-Identifier: MIT */
/* The users who can read a git repository, and so all files that git stores in it. */
#ifndef CLI_FROZEN_READERS_H
#define CLI_FROZEN_READERS_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/text.h"
#include "base/trust.h"
#include "gpu_dispatch.h"

struct frozen_readers {
	struct text objects; /* path of the folder of objects */
	int top_fd;          /* the working tree */
	/*
	 * Each directory above the objects belongs to this group, unless everybody can enter the directory. So all
	 * these users are members of the group. They can read a file of this group if its group permissions allow it.
	 * TRUST_NO_GROUP: everybody, or users who cannot be named (several groups, access lists); they can read only
	 * what everybody can read.
	 */
	gid_t group;
	bool hidden; /* they cannot enter the working tree */
};

#define FROZEN_READERS_INIT ((struct frozen_readers){.top_fd = -1, .group = TRUST_NO_GROUP})

/* 1: the user shares the repository of this working tree with others; 0: only this user and root can read it. */
int frozen_readers_find(const char *top, struct frozen_readers *ret, struct gd_error *err);
/* Refuses files that these users cannot read in the working tree. files: each NUL-terminated; remedy: for the message.
 */
int frozen_readers_check(const struct frozen_readers *r, const char *top, const struct text *files, const char *remedy,
	struct gd_error *err);
void frozen_readers_finish(struct frozen_readers *r);

#endif
