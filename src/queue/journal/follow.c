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
#include "base/error.h"
#include "base/lock.h"
#include "base/trust.h"

/* Prunes are rare: somebody who replaces the journal all the time wants its readers to hang. */
#define MOST_RESETS 100

/* Reads all there is, if the reader could be made (r). */
static int begin(struct follow *f, int r, const char *path, struct follow *ret, struct gd_error *err)
{
	r = r < 0 ? error_set(err, r, "reading journal '%s': %s", path, error_words(r)) : follow_update(f, err);
	if (r == 0 && f->reader.fd < 0)
		r = error_set(err, -ENOENT,
			"reading journal '%s': there is none; add jobs with 'gpuq add' or 'gpuq run'", path);
	if (r < 0)
		follow_close(f);
	else
		*ret = *f;
	return r;
}

int follow_open(const char *path, bool watch, struct follow *ret, struct gd_error *err)
{
	struct follow f = {.watch_fd = -1, .dir_fd = -1};
	cleanup_(freep) char *dir = NULL;
	jobs_init(&f.jobs);
	int r = journal_resolve(path, &f.path, NULL, err);
	if (r < 0)
		return r;
	r = journal_reader_init(&f.reader, f.path);
	if (r == 0 && watch)
		f.watch_fd = journal_watch(f.path);
	if (r == 0 && asprintf(&dir, "%s.d", f.path) >= 0)
		f.dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return begin(&f, r, path, ret, err);
}

int follow_open_journal(const struct journal *j, struct follow *ret, struct gd_error *err)
{
	struct follow f = {.watch_fd = -1, .path = strdup(j->path)};
	jobs_init(&f.jobs);
	f.dir_fd = fcntl(j->dir_fd, F_DUPFD_CLOEXEC, 3);
	int r = journal_reader_init_at(&f.reader, j);
	return begin(&f, f.path ? r : -ENOMEM, j->path, ret, err);
}

void follow_insist_on_trust(struct follow *f)
{
	f->reader.checked = !trust_objection(f->reader.fd);
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

int follow_update(struct follow *f, struct gd_error *err)
{
	int r;
	f->reset = false;
	for (int resets = 0; (r = journal_reader_read(&f->reader, jobs_apply, &f->jobs)) == 1; resets++) {
		jobs_reset(&f->jobs);
		f->reset = true;
		if (resets == MOST_RESETS)
			return error_set(err, -EAGAIN,
				"reading journal '%s': another file takes its place again and again", f->path);
	}
	return r < 0 ? journal_reader_explain(&f->reader, r, err) : 0;
}

void follow_wait(struct follow *f)
{
	struct pollfd p = {f->watch_fd, POLLIN, 0};
	if (poll(&p, 1, JOURNAL_LOOK_MS) > 0)
		journal_watch_drain(f->watch_fd, f->path);
}

static bool keeper_is_gone(const struct follow *f, const struct job *job)
{
	struct machine here;
	char name[96];
	pid_t holder;
	if (!job || job->state != JOB_RUNNING || !job->keeper || strlen(job->keeper->name) > 64 ||
		strchr(job->keeper->name, '/') || machine_get(&here) < 0 ||
		(*job->keeper->machine.host && strcmp(job->keeper->machine.host, here.host) != 0))
		return false;
	snprintf(name, sizeof(name), "keepers/%s", job->keeper->name);
	return f->dir_fd < 0 || (lock_holder_at(f->dir_fd, name, &holder) == 0 && holder == 0);
}

bool follow_is_lost(struct follow *f, uint64_t id)
{
	if (!keeper_is_gone(f, jobs_find(&f->jobs, id)))
		return false;
	/* It may have written the end just before it left. */
	return follow_update(f, NULL) == 0 && keeper_is_gone(f, jobs_find(&f->jobs, id));
}

pid_t follow_runner(const struct follow *f)
{
	pid_t holder;
	if (f->dir_fd < 0 || lock_holder_at(f->dir_fd, "runner.lock", &holder) < 0)
		return 0;
	return holder;
}
