/* SPDX-License-Identifier: MIT */
/*
 * The log of an attempt. The job writes directly into the file, without a pipe.
 *
 * We create the file and open it once; all later access uses its descriptor. A file that another user
 * puts at its path is neither read nor waited for.
 */
#ifndef QUEUE_KEEPER_ATTEMPT_LOG_H
#define QUEUE_KEEPER_ATTEMPT_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Users who may read logs, besides the owner. */
enum log_access {
	LOG_ACCESS_OWNER, /* no other user */
	LOG_ACCESS_GROUP,
	LOG_ACCESS_ALL,
};

/* What other users may do with the directory of a log. */
enum log_trust {
	LOG_TRUST_OWN,   /* nothing */
	LOG_TRUST_NAMED, /* change it, because the user named it; but links of theirs are not followed */
	LOG_TRUST_ALL,   /* everything */
};

struct journal;
struct known_directory;

struct attempt_log_options {
	const char *directory; /* absolute; created if it is missing */
	enum log_trust trust;
	enum log_access access;
	int64_t max_bytes;             /* above this, the middle is removed; 0: no limit */
	struct known_directory *known; /* the directory of the last attempt */
	const char *name;              /* -EEXIST if this file exists; NULL: a new name, made of time and job */
	/* A missing folder inside the directory of this journal is created through the descriptor of that directory,
	 * which may be renamed meanwhile; NULL: by its path. */
	const struct journal *journal;
};

/* The name of a log on a cluster, which the coordinator knows before the attempt begins. tag: see slurm/log_name.h. */
#define ATTEMPT_LOG_NAME_ROOM 128
void attempt_log_name_on_cluster(
	char ret[ATTEMPT_LOG_NAME_ROOM], uint64_t id, uint32_t attempt, uint64_t slurm_job, uint64_t tag);

struct attempt_log {
	int fd; /* for reading and appending; -1: none */
	int dir_fd;
	char *path;
	int64_t max_bytes; /* 0: no limit, or the file system cannot remove the middle */
	off_t removed_to;  /* end of the removed part */
	uint64_t trim_ns;  /* time of the next trim */
};

#define ATTEMPT_LOG_NONE                                                                                               \
	(struct attempt_log)                                                                                           \
	{                                                                                                              \
		.fd = -1, .dir_fd = -1                                                                                 \
	}

/*
 * Creates a new file, so no two attempts share a file. -ENOTUNIQ: another user can change the
 * directory, or its path leads through a symbolic link of another user. The umask does not affect the
 * access to the file, nor to the directory if it is created here.
 */
int attempt_log_open(struct attempt_log *l, const struct attempt_log_options *o, uint64_t id);
void attempt_log_close(struct attempt_log *l);
/* Removes the file of an attempt that never started. */
void attempt_log_remove(struct attempt_log *l);

/* Reads up to `size` bytes from the end. Returns how many. */
size_t attempt_log_tail(const struct attempt_log *l, void *buf, size_t size);

/*
 * If the log has more than max_bytes, frees the disk space of its middle: a hole that reads as zeros
 * remains, and offsets do not change. The first and the last half of max_bytes are kept. Call it at
 * trim_ns, and at the end.
 */
void attempt_log_trim(struct attempt_log *l, uint64_t now_ns);

#endif
