/* SPDX-License-Identifier: MIT */
#include "slurm/file_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/trust.h"
#include "queue/input/control.h"
#include "queue/journal/follow.h"
#include "slurm/file_worker.h"
#include "slurm/node_folder.h"
#include "slurm/secret.h"

static int collect_open(struct journal *j, struct id_list *ret, struct gd_error *err)
{
	struct follow f;
	int r = follow_open_journal(j, &f, err);
	if (r < 0)
		return r;
	/* A job whose record was lost may be alive, and a cancellation would not prove its end. */
	if (f.jobs.damaged || f.jobs.counts[JOB_UNKNOWN])
		r = error_set(err, -EBADMSG,
			"journal '%s' of an earlier launch is damaged; check with 'squeue' that none of its Slurm jobs is running, then remove the folder that contains the journal",
			j->path);
	for (size_t i = 0; r == 0 && i < f.jobs.count; i++)
		if (!job_is_final(f.jobs.by_id[i]) && id_list_add(ret, f.jobs.by_id[i]->id) < 0)
			r = error_set(err, -ENOMEM,
				"cannot cancel the jobs of an earlier launch in '%s': out of memory", j->path);
	follow_close(&f);
	return r;
}

static void on_refused(void *context, size_t index, const struct gd_error *why)
{
	(void)context, (void)index, (void)why; /* it has ended meanwhile, or the next coordinator ends it */
}

/* Cancels the jobs that have not ended; *ret_open is how many are left. */
static int cancel_jobs(struct journal *j, size_t *ret_open, struct gd_error *err)
{
	cleanup_(id_list_finish) struct id_list before = {0}, after = {0};
	size_t done;
	int r = collect_open(j, &before, err);
	if (r == 0 && before.count > 0)
		r = control_jobs(j, EVENT_CANCEL, &before, on_refused, NULL, &done, err);
	if (r == 0)
		r = collect_open(j, &after, err);
	*ret_open = after.count;
	return r;
}

static int end_earlier(const char *dir, int dir_fd, struct gd_error *err)
{
	cleanup_(journal_closep) struct journal *j = NULL;
	char path[PATH_MAX];
	size_t open_jobs = 0;
	pid_t holder = 0;
	if (faccessat(dir_fd, FILE_JOURNAL_NAME, F_OK, 0) < 0)
		return errno == ENOENT ? 0 : error_set(err, -errno, "cannot open '%s': %s", dir, error_words(errno));
	if (snprintf(path, sizeof(path), "%s/" FILE_JOURNAL_NAME, dir) >= (int)sizeof(path))
		return error_set(err, -ENAMETOOLONG, "the path of the output folder is too long");
	int r = journal_open(path, false, &j, err);
	if (r == 0)
		r = cancel_jobs(j, &open_jobs, err);
	if (r == 0)
		r = lock_holder_at(j->dir_fd, "runner.lock", &holder);
	if (r < 0)
		return r;
	return open_jobs > 0 || holder != 0 ? -EBUSY : 0;
}

/*
 * The folder will be cleared, so a user who can replace it could make us clear any other directory of this user. The
 * coordinator would refuse its journal, too.
 */
static int open_folder(const char *dir, int *ret_fd, struct gd_error *err)
{
	struct gd_error why = {0};
	bool check = !trust_is_off();
	cleanup_(closep) int fd = -1;
	int r = trust_open_directory(dir, check, &fd, &why);
	if (r == 0 && check)
		r = trust_check_way(fd, &why);
	if (r == -EPERM)
		return error_set(err, r,
			"refusing to clear folder '%s': %s, so other users could put another folder of yours there; choose another output folder, or set GPUQ_TRUST=1 if you trust these users",
			dir, why.message);
	int opened = r < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (opened < 0)
		return error_set(err, r < 0 ? r : -errno, "cannot open '%s': %s", dir, error_words(r < 0 ? r : -errno));
	*ret_fd = opened;
	return 0;
}

int file_queue_prepare(const char *dir, struct gd_error *err)
{
	uint8_t secret[MAC_KEY_SIZE];
	cleanup_(closep) int fd = -1;
	int r = open_folder(dir, &fd, err);
	if (r == 0)
		r = end_earlier(dir, fd, err);
	if (r < 0)
		return r;
	node_folder_clear(fd);
	r = secret_load_or_create(fd, secret, err);
	explicit_bzero(secret, sizeof(secret));
	return r;
}
