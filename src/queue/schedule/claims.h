/* SPDX-License-Identifier: MIT */
/*
 * What the queues of all users on this machine have promised to their running jobs.
 *
 * Each running job holds a claim: a file in its user's folder (claim_folders.h) with a write lock by
 * the job's keeper and, until the job has started, the runner; of two claims for one job only one is
 * listed. The lock ends with the process, so a claim cannot outlive its job's keeper, and only the
 * file's owner or root can take it, so no user can claim in another's name. The content of the file
 * comes from another user and is not trusted: the number of a user's claims is limited here; the
 * ledger limits their size to that of the GPU.
 *
 * To place a job: announce, read again, and if the job no longer fits, release and wait
 * claims_backoff_ms(). Of two queues that announce at the same time, at least one sees the other.
 *
 * Locks are fcntl locks: children do not inherit them, and closing any descriptor of a claim's file
 * would drop its lock. So a process uses one struct claims, which never reopens the files of its own
 * claims.
 */
#ifndef QUEUE_SCHEDULE_CLAIMS_H
#define QUEUE_SCHEDULE_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu_dispatch.h"

#define CLAIM_KEY_ROOM  96
#define CLAIM_MAX_GPUS  64
#define CLAIM_MAX_QUEUE 64
#define CLAIM_TEXT_ROOM (16 * 1024)

/* The name of a GPU in claims: its UUID, else its bus address. False: it is simulated or has neither. */
bool claim_gpu_key(const struct gd_gpu *gpu, char key[CLAIM_KEY_ROOM]);

/* The content of a claim. */
struct claim_info {
	char queue[CLAIM_MAX_QUEUE + 1]; /* letters, digits, - and _; claims of the caller's own queue are not listed */
	uint64_t job;
	int64_t pid;             /* the keeper: root of the job's processes; 0: no keeper yet */
	uint64_t promised_bytes; /* on each GPU */
	bool declared;
	bool settled;
	bool exclusive;  /* no other job may be placed on its GPUs */
	size_t num_gpus; /* 0: nothing is claimed at the moment, and the claim is not listed */
	char gpus[CLAIM_MAX_GPUS][CLAIM_KEY_ROOM];
};

/* A claim of another process. */
struct claim_other {
	struct claim_info info;
	uid_t owner;    /* owner of the file, its folder and the lock */
	int64_t holder; /* PID that holds the lock; 0: in another PID namespace */
};

struct claims_list {
	size_t count;
	struct claim_other *claims;
};

struct claims;
struct claim;

/* Opens the directory that all users share, see claim_directory_open(). */
int claims_open(const char *dir, struct claims **ret, struct gd_error *err);
void claims_close(struct claims *c); /* releases the remaining claims */

/* Announces: the claim is locked, complete and visible when this returns 0. */
int claims_announce(struct claims *c, const struct claim_info *info, struct claim **ret);
/* Changes the claim, and recreates the file if a /tmp cleaner removed it: call it from time to time. */
int claim_update(struct claim *claim, const struct claim_info *info);
void claim_release(struct claim *claim); /* NULL is allowed */

/*
 * Lists all live claims, except those of `queue` held by this user; at most 256 for each other user,
 * found among 1,024 files, and fewer if many users have claims. Removes dead claims of this user.
 */
int claims_list(struct claims *c, const char *queue, struct claims_list *ret);
void claims_list_finish(struct claims_list *list);

/*
 * This user's folder, valid until the next call with `c`; -ENOENT if there is none. make: creates a
 * missing one. Without make, for processes that only read, call claims_list() first.
 */
int claims_own_folder(struct claims *c, bool make, int *ret_fd);

/* Delay before a retry: random, growing with each attempt (0…), at most a second. */
unsigned claims_backoff_ms(unsigned attempt);

/* From and to the text of a file; for tests and fuzzing. */
int claim_info_parse(const char *data, size_t size, struct claim_info *ret);
int claim_info_format(const struct claim_info *info, char *buf, size_t size);

#endif
