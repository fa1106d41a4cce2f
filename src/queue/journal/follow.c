/* SPDX-License-Identifier: MIT */
#include "queue/journal/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/cost_limit.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/process.h"
#include "base/trust.h"
#include "queue/journal/damage.h"
#include "queue/journal/trust.h"

/* Reads the whole journal, unless creating the reader failed (r). */
static int begin(struct follow *f, int r, const char *path, struct follow *ret, struct gd_error *err)
{
	r = r < 0 ? error_set(err, r, "cannot read journal '%s': %s", path, error_words(r)) : follow_update(f, err);
	if (r == 0 && f->reader.fd < 0)
		r = error_set(err, -ENOENT,
			"cannot read journal '%s': no such file; add jobs with 'gpuq add' or 'gpuq run'", path);
	if (r < 0)
		follow_close(f);
	else
		*ret = *f;
	return r;
}

int follow_open_folder(const char *path)
{
	cleanup_(closep) int parent_fd = -1;
	cleanup_(freep) char *name = NULL;
	cleanup_(freep) char *folder = NULL;
	bool trusting = trust_is_off();
	int r = trusting ? 0 : trust_open_parent(path, false, &parent_fd, &name, NULL);
	if (r < 0)
		return r;
	if (asprintf(&folder, "%s.d", trusting ? path : name) < 0)
		return -ENOMEM;
	int fd = openat(trusting ? AT_FDCWD : parent_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

static int open_path(const char *path, bool watch, bool checked, struct follow *ret, struct gd_error *err)
{
	struct follow f = {.watch_fd = -1, .dir_fd = -1};
	const char *objection = NULL;
	jobs_init(&f.jobs);
	int r = journal_resolve(path, &f.path, &objection, err);
	if (r == 0 && objection && !trust_is_off())
		r = trust_refuse(path, objection, err);
	if (r < 0) {
		free(f.path);
		return r;
	}
	r = journal_reader_init(&f.reader, f.path);
	f.reader.checked = checked;
	if (r == 0 && watch)
		f.watch_fd = journal_watch(f.path);
	if (r == 0)
		f.dir_fd = follow_open_folder(f.path);
	return begin(&f, r, path, ret, err);
}

int follow_open(const char *path, bool watch, struct follow *ret, struct gd_error *err)
{
	return open_path(path, watch, false, ret, err);
}

int follow_open_trusted(const char *path, struct follow *ret, struct gd_error *err)
{
	return open_path(path, false, true, ret, err);
}

int follow_open_journal(struct journal *j, struct follow *ret, struct gd_error *err)
{
	/* Taking the lock recovers or converts the journal if needed: afterwards the counters match the file. */
	if (!j->locked) {
		int e = journal_lock(j, err);
		if (e < 0)
			return e;
		journal_unlock(j);
	}
	struct follow f = {.watch_fd = -1, .path = strdup(j->path)};
	jobs_init(&f.jobs);
	f.dir_fd = fcntl(j->dir_fd, F_DUPFD_CLOEXEC, 3);
	int r = journal_reader_init_at(&f.reader, j);
	return begin(&f, f.path ? r : -ENOMEM, j->path, ret, err);
}

int follow_insist_on_trust(struct follow *f, struct gd_error *err)
{
	int r = journal_reader_check(&f->reader);
	if (r < 0)
		return journal_reader_explain(&f->reader, r, err);
	f->reader.checked = true;
	return 0;
}

void follow_close(struct follow *f)
{
	jobs_finish(&f->jobs);
	journal_reader_finish(&f->reader);
	closep(&f->watch_fd);
	closep(&f->dir_fd);
	free(f->path);
	*f = (struct follow){.watch_fd = -1, .dir_fd = -1};
}

/* A few characters of a line can be a dependency, which takes more memory. */
static int check_after(struct follow *f)
{
	struct journal_reader *r = &f->reader;
	if (!r->limits.foreign || f->jobs.num_after <= JOURNAL_MAX_FOREIGN_AFTER)
		return 0;
	return journal_limits_refuse(&r->limits, r->path, "its jobs have too many dependencies", &r->refusal);
}

static int apply_line(void *context, uint64_t line_no, const char *line, size_t size)
{
	struct follow *f = context;
	int r = jobs_apply(&f->jobs, line_no, line, size);
	return r < 0 ? r : check_after(f);
}

int follow_update(struct follow *f, struct gd_error *err)
{
	f->reset = f->reset_early;
	f->reset_early = false;
	for (int resets = 0;; resets++) {
		struct damage_check check;
		damage_look(&check, &f->reader, f->dir_fd);
		int r = journal_reader_read(&f->reader, apply_line, f);
		if (r == 0)
			r = damage_judge(&check, &f->reader, f->dir_fd, &f->jobs);
		if (r == 0)
			r = check_after(f);
		if (r < 0)
			return journal_reader_explain(&f->reader, r, err);
		if (r == 0)
			return 0;
		jobs_reset(&f->jobs);
		f->reset = true;
		if (resets == (f->reader.limits.foreign ? JOURNAL_MAX_FOREIGN_RESETS : JOURNAL_MOST_RESETS))
			return error_set(
				err, -EAGAIN, "cannot read journal '%s': the file keeps being replaced", f->path);
	}
}

void follow_wait_at_most(struct follow *f, int ms)
{
	struct pollfd p = {f->watch_fd, POLLIN, 0};
	cost_limit_stop();
	if (poll(&p, 1, ms < JOURNAL_LOOK_MS ? ms : JOURNAL_LOOK_MS) > 0)
		journal_watch_drain(f->watch_fd, f->path);
}

void follow_wait(struct follow *f)
{
	follow_wait_at_most(f, JOURNAL_LOOK_MS);
}

void follow_wait_any(struct follow *fs, size_t count)
{
	cleanup_(freep) struct pollfd *p = calloc(count + 1, sizeof(*p));
	if (!p) {
		follow_wait(fs);
		return;
	}
	cost_limit_stop();
	for (size_t i = 0; i < count; i++)
		p[i] = (struct pollfd){fs[i].watch_fd, POLLIN, 0};
	if (poll(p, count, JOURNAL_LOOK_MS) <= 0)
		return;
	for (size_t i = 0; i < count; i++)
		if (p[i].revents)
			journal_watch_drain(fs[i].watch_fd, fs[i].path);
}

/* Looks at the process, not at the keeper's lock, which is gone if the folder of the queue was removed. */
static bool keeper_is_alive(const struct keeper_info *k)
{
	struct process_info info;
	return process_info(k->pid, &info) == 0 && strcmp(info.name, KEEPER_PROCESS) == 0 && !info.is_exiting;
}

static bool keeper_is_gone(const struct follow *f, const struct keeper_info *k)
{
	struct machine here;
	pid_t holder;
	cleanup_(closep) int keepers_fd = -1;
	if (!k || strlen(k->name) > 64 || strchr(k->name, '/') || machine_get(&here) < 0 || !keeper_is_here(k, &here))
		return false;
	/* If it is not known whether the keeper is alive, assume that it is. */
	if (f->dir_fd < 0)
		return f->dir_fd == -ENOENT && !keeper_is_alive(k);
	/* Follow no link: in a queue of another user, a chain of links can take long. gpuq creates a directory. */
	keepers_fd = openat(f->dir_fd, "keepers", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (keepers_fd < 0)
		return errno == ENOENT && !keeper_is_alive(k);
	return lock_holder_at(keepers_fd, k->name, &holder) == 0 && holder == 0 && !keeper_is_alive(k);
}

static bool is_lost(const struct follow *f, const struct job *job)
{
	return job && job->state == JOB_RUNNING && keeper_is_gone(f, job->keeper);
}

bool follow_is_lost(struct follow *f, uint64_t id)
{
	if (!is_lost(f, jobs_find(&f->jobs, id)))
		return false;
	/* The keeper may have written the end just before it exited. */
	int r = follow_update(f, NULL);
	/* The caller checks for a reset after its own update: report this one there. */
	f->reset_early = f->reset;
	return r == 0 && is_lost(f, jobs_find(&f->jobs, id));
}

bool follow_lease_is_left(const struct follow *f, const struct job *job)
{
	return job->lease && (job->state == JOB_PENDING || job->state == JOB_HELD) && keeper_is_gone(f, job->keeper);
}

pid_t follow_runner(const struct follow *f)
{
	pid_t holder;
	if (f->dir_fd < 0 || lock_holder_at(f->dir_fd, "runner.lock", &holder) < 0)
		return 0;
	return holder;
}

bool follow_runner_is_hidden(const struct follow *f)
{
	pid_t holder;
	return f->dir_fd == -EACCES || (f->dir_fd >= 0 && lock_holder_at(f->dir_fd, "runner.lock", &holder) == -EACCES);
}
