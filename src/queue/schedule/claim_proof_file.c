/* SPDX-License-Identifier: MIT */
#include "queue/schedule/claim_proof_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/state_dir.h"
#include "base/text.h"
#include "queue/schedule/gpu_users.h"

#define NAME_IN_CLAIMS ".proofs"
#define HEADER         "gpuq-proofs 2"
#define OPEN_FLAGS     (O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
/* 4096 records; further records are not kept. */
#define MAX_BYTES (4096 * 160)

/* "1000 GPU-… SPENT SEEN PROVED"; truncated or old lines are ignored. A time in the future, from before the clock was
 * set back, counts as now. */
static int merge_line(struct claim_proofs *p, uint64_t now_ns, const char *line)
{
	struct claim_proof proof = {0};
	unsigned user;
	int end = 0;
	_Static_assert(sizeof(proof.gpu) == 96, "the width in the format below");
	int got = sscanf(line, "%u %95s %" SCNu64 " %" SCNu64 " %" SCNu64 " .%n", &user, proof.gpu, &proof.spent_ns,
		&proof.seen_ns, &proof.proved_ns, &end);
	if (got != 5 || end == 0 || line[end] ||
		(proof.seen_ns < now_ns && now_ns - proof.seen_ns >= CLAIM_PROOF_FORGET_NS))
		return 0;
	proof.seen_ns = proof.seen_ns < now_ns ? proof.seen_ns : now_ns;
	proof.proved_ns = proof.proved_ns < now_ns ? proof.proved_ns : now_ns;
	proof.user = user;
	return claim_proofs_merge(p, &proof);
}

static int merge_file(struct claim_proofs *p, uint64_t now_ns, int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return -EPERM;
	cleanup_(freep) char *text = malloc(MAX_BYTES + 1);
	if (!text)
		return -ENOMEM;
	ssize_t size = file_read_full(fd, text, MAX_BYTES);
	if (size < 0)
		return (int)size;
	text[size] = '\0';
	char *rest = text;
	const char *line = strsep(&rest, "\n");
	if (strcmp(line, HEADER) != 0)
		return 0;
	int r = 0;
	while (r == 0 && (line = strsep(&rest, "\n")))
		r = merge_line(p, now_ns, line);
	return r;
}

static int write_file(const struct claim_proofs *p, int fd)
{
	cleanup_(text_finish) struct text t = {0};
	text_append_string(&t, HEADER "\n");
	for (size_t i = 0; i < p->count && t.length < MAX_BYTES - 160; i++) {
		const struct claim_proof *proof = &p->proofs[i];
		text_appendf(&t, "%u %s %" PRIu64 " %" PRIu64 " %" PRIu64 " .\n", (unsigned)proof->user, proof->gpu,
			proof->spent_ns, proof->seen_ns, proof->proved_ns);
	}
	if (text_error(&t))
		return -ENOMEM;
	ssize_t n = pwrite(fd, t.data, t.length, 0);
	if (n < 0 || ftruncate(fd, n) < 0)
		return -errno;
	return (size_t)n < t.length ? -ENOSPC : 0;
}

/* ---- Where it is ----------------------------------------------------------------- */

/* In the order in which they are tried. */
enum proof_place {
	PROOF_IN_STATE,
	PROOF_IN_CLAIMS,
	NUM_PROOF_PLACES,
};

static int open_in_state(const char *host, int flags, int *ret_fd)
{
	char name[NAME_MAX + 1];
	cleanup_(closep) int dir_fd = -1;
	int r = state_dir_open(flags & O_CREAT, &dir_fd);
	if (r < 0)
		return r;
	/* Machines can share a home directory, but have different users and GPUs. */
	snprintf(name, sizeof(name), "claims-%s", host);
	for (char *slash = name; (slash = strchr(slash, '/'));)
		*slash = '_';
	*ret_fd = openat(dir_fd, name, flags, 0600);
	return *ret_fd < 0 ? -errno : 0;
}

static int open_in_claims(struct claims *claims, int flags, int *ret_fd)
{
	int dir_fd;
	int r = claims_own_folder(claims, flags & O_CREAT, &dir_fd);
	if (r < 0)
		return r;
	*ret_fd = openat(dir_fd, NAME_IN_CLAIMS, flags, 0600);
	return *ret_fd < 0 ? -errno : 0;
}

static int open_file(enum proof_place place, const char *host, struct claims *claims, int flags, int *ret_fd)
{
	return place == PROOF_IN_STATE ? open_in_state(host, flags | OPEN_FLAGS, ret_fd)
				       : open_in_claims(claims, flags | OPEN_FLAGS, ret_fd);
}

int claim_proofs_load(struct claim_proofs *p, uint64_t now_ns, const char *host, struct claims *claims)
{
	int result = 0;
	for (enum proof_place place = 0; place < NUM_PROOF_PLACES; place++) {
		cleanup_(closep) int fd = -1;
		int r = open_file(place, host, claims, O_RDONLY, &fd);
		if (r == 0)
			r = merge_file(p, now_ns, fd);
		if (r < 0 && r != -ENOENT)
			result = r;
	}
	return result;
}

/*
 * Merges even without the lock, because damaged lines are ignored. If only a foreign lock prevents the lock, the file
 * is also written: a user whose claims it limits may hold that lock, and two runners at once can only damage lines.
 */
static int sync_file(struct claim_proofs *p, uint64_t now_ns, int fd)
{
	pid_t writer = 0;
	lock_protect(fd);
	int locked = lock_try(fd);
	if (locked == -EAGAIN && lock_holder(fd, &writer) == 0 && writer == 0)
		locked = 0;
	if (locked < 0 && locked != -EAGAIN)
		return locked;
	int r = merge_file(p, now_ns, fd);
	if (r == 0)
		r = locked;
	return r < 0 ? r : write_file(p, fd);
}

int claim_proofs_sync(struct claim_proofs *p, uint64_t now_ns, const char *host, struct claims *claims)
{
	int r = -ENOENT;
	if (p->synced_ns && now_ns >= p->synced_ns && now_ns - p->synced_ns < CLAIM_PROOF_SYNC_NS)
		return 0;
	for (enum proof_place place = 0; r < 0 && r != -EAGAIN && place < NUM_PROOF_PLACES; place++) {
		cleanup_(closep) int fd = -1;
		r = open_file(place, host, claims, O_RDWR | O_CREAT, &fd);
		if (r == 0)
			r = sync_file(p, now_ns, fd);
	}
	if (r == 0)
		p->synced_ns = now_ns;
	return r == -EAGAIN ? 0 : r;
}

static bool has_claim_of_others(const struct claims_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->claims[i].owner != geteuid())
			return true;
	return false;
}

int claim_proofs_update_shared(struct claim_proofs *p, uint64_t now_ns, struct claims *claims,
	const struct claims_list *list, const struct gd_gpu_list *gpus, const struct machine *here)
{
	bool others = has_claim_of_others(list);
	/* Load first, so that the time since an earlier runner saw the claims is counted: each runner may have lived
	 * for only a few seconds. */
	if (others && !p->synced_ns)
		(void)claim_proofs_load(p, now_ns, here->host, claims);
	int r = claim_proofs_update(p, now_ns, list, gpus, gpu_users_foreign_pids(here));
	if (p->count > 0 && others)
		(void)claim_proofs_sync(p, now_ns, here->host, claims);
	return r;
}
