/* SPDX-License-Identifier: MIT */
#include "queue/schedule/claim_proof_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/text.h"

#define FILE_NAME  ".proofs"
#define HEADER     "gpuq-proofs 1 "
#define OPEN_FLAGS (O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
/* 4096 records; more are not kept. */
#define MAX_BYTES (4096 * 160)

/* "1000 GPU-… SPENT SEEN PROVED"; lines that are cut or from the future are ignored. */
static int merge_line(struct claim_proofs *p, uint64_t now_ns, const char *line)
{
	struct claim_proof proof = {0};
	unsigned user;
	int end = 0;
	_Static_assert(sizeof(proof.gpu) == 96, "the width in the format below");
	int got = sscanf(line, "%u %95s %" SCNu64 " %" SCNu64 " %" SCNu64 " .%n", &user, proof.gpu, &proof.spent_ns,
		&proof.seen_ns, &proof.proved_ns, &end);
	if (got != 5 || end == 0 || line[end] || proof.seen_ns > now_ns || proof.proved_ns > now_ns ||
		now_ns - proof.seen_ns >= CLAIM_PROOF_FORGET_NS)
		return 0;
	proof.user = user;
	return claim_proofs_merge(p, &proof);
}

static int merge_file(struct claim_proofs *p, uint64_t now_ns, const char *boot, int fd)
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
	if (strncmp(line, HEADER, sizeof(HEADER) - 1) != 0 || strcmp(line + sizeof(HEADER) - 1, boot) != 0)
		return 0;
	int r = 0;
	while (r == 0 && (line = strsep(&rest, "\n")))
		r = merge_line(p, now_ns, line);
	return r;
}

static int write_file(const struct claim_proofs *p, const char *boot, int fd)
{
	cleanup_(text_finish) struct text t = {0};
	text_appendf(&t, HEADER "%s\n", boot);
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

int claim_proofs_load(struct claim_proofs *p, uint64_t now_ns, const char *boot, int folder_fd)
{
	cleanup_(closep) int fd = openat(folder_fd, FILE_NAME, O_RDONLY | OPEN_FLAGS);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	return merge_file(p, now_ns, boot, fd);
}

int claim_proofs_sync(struct claim_proofs *p, uint64_t now_ns, const char *boot, int folder_fd)
{
	if (p->synced_ns && now_ns - p->synced_ns < CLAIM_PROOF_SYNC_NS)
		return 0;
	cleanup_(closep) int fd = openat(folder_fd, FILE_NAME, O_RDWR | O_CREAT | OPEN_FLAGS, 0600);
	if (fd < 0)
		return -errno;
	int r = lock_try(fd);
	if (r < 0)
		return r == -EAGAIN ? 0 : r;
	p->synced_ns = now_ns;
	r = merge_file(p, now_ns, boot, fd);
	return r < 0 ? r : write_file(p, boot, fd);
}
