/* SPDX-License-Identifier: MIT */
/*
 * Where claims are stored: one folder for each user in a directory that all users share.
 *
 * A user's folder is "gpuq-claims-UID". It counts only if it belongs to that user and no other user
 * can write in it, and files in it count only if they belong to the same user. A folder that another
 * user created under this name is ignored, and the user uses "gpuq-claims-UID-RANDOM" instead. So
 * another user cannot take, hide or change claims, as long as the shared directory is sticky and its
 * owner is trusted: see claim_directory.h.
 */
#ifndef QUEUE_SCHEDULE_CLAIM_FOLDERS_H
#define QUEUE_SCHEDULE_CLAIM_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "gpu_dispatch.h"

#define CLAIM_FOLDER_PREFIX "gpuq-claims-"
#define CLAIM_FOLDER_ROOM   48

struct claim_folder {
	uid_t owner;
	char name[CLAIM_FOLDER_ROOM];
};

/* Start from {0}. */
struct claim_folders {
	struct claim_folder *folders; /* ordered by owner */
	size_t count;
	bool is_current;       /* until the directory changes */
	struct timespec mtime; /* mtime of the directory */
};

/*
 * All folders that count; reads the directory only if it has changed since the last call. If the
 * directory has more than 65,536 entries, or 1,024 folders, only the folders of users with a process
 * on this machine are found. At most 16 folders per user count.
 */
int claim_folders_update(int dir_fd, struct claim_folders *f);
void claim_folders_finish(struct claim_folders *f);

/* Opens a folder and checks it again: -EPERM if it does not count. */
int claim_folder_open(int dir_fd, const struct claim_folder *folder, int *ret_fd);

/* Opens this user's folder; creates it if it is missing. */
int claim_folder_open_own(int dir_fd, int *ret_fd);

/* For names and delays, not for secrets. */
uint64_t claim_random(void);

#endif
