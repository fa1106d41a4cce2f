/* SPDX-License-Identifier: MIT */
#include "cli/run_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/display.h"
#include "base/file.h"
#include "base/lock.h"
#include "cli/run_files.h"
#include "cli/run_history.h"

#define PUT_NS        (500 * NS_PER_MS)
#define LOCK_TRIES    20
#define LOCK_PAUSE_NS (10 * NS_PER_MS)

/*
 * A reader that removes the files of a dead run holds the lock only briefly. A run with the same PID in another
 * container holds it for hours: -EAGAIN.
 */
static int wait_for_lock(int fd)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	int r = lock_try(fd);
	for (int i = 0; r == -EAGAIN && i < LOCK_TRIES; i++) {
		(void)nanosleep(&pause, NULL); /* if interrupted, retry earlier */
		r = lock_try(fd);
	}
	return r;
}

/* The last owner of this PID may have ended, and a reader may be about to remove its file: then create it again. */
static int take_lock(int dir_fd, const char *name, int *ret_fd)
{
	for (;;) {
		struct stat mine, there;
		int opened =
			openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
		/* Duplicate the descriptor before locking: closing any descriptor of the file would release the lock.
		 */
		cleanup_(closep) int fd = file_above_stdio(opened < 0 ? -errno : opened);
		if (fd < 0)
			return fd;
		lock_protect(fd);
		int r = wait_for_lock(fd);
		if (r < 0)
			return r;
		if (fstat(fd, &mine) < 0)
			return -errno;
		if (fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) < 0 || mine.st_ino != there.st_ino)
			continue;
		*ret_fd = take_fd(&fd);
		return 0;
	}
}

void run_file_open(struct run_file *f, const char *kind, const char *name, const char *worker)
{
	char lock[RUN_NAME_ROOM];
	*f = (struct run_file){
		.dir_fd = -1, .lock_fd = -1, .start_ms = date_now_ms(), .kind = kind, .name = name, .worker = worker};
	if (run_files_open(true, &f->dir_fd) < 0) {
		f->dir_fd = -1;
		return;
	}
	run_name(lock, getpid(), "lock");
	if (take_lock(f->dir_fd, lock, &f->lock_fd) < 0)
		run_file_close(f);
}

bool run_file_is_due(const struct run_file *f)
{
	return f->lock_fd >= 0 && clock_now_ns() >= f->next_ns;
}

static const char *safe(struct text *t, const char *bytes)
{
	if (!bytes)
		return NULL;
	text_clear(t);
	display_append(t, bytes, strlen(bytes), DISPLAY_ALL);
	return text_error(t) ? NULL : text_string(t);
}

static int replace(const struct run_file *f, const struct text *t)
{
	char draft[RUN_NAME_ROOM], name[RUN_NAME_ROOM];
	run_name(draft, getpid(), "new");
	run_name(name, getpid(), "json");
	cleanup_(closep) int fd = openat(f->dir_fd, draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	int r = file_write_all(fd, t->data, t->length);
	if (r == 0 && renameat(f->dir_fd, draft, f->dir_fd, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(f->dir_fd, draft, 0);
	return r;
}

void run_file_put(struct run_file *f, const struct view_run *run)
{
	cleanup_(text_finish) struct text name = {0}, worker = {0};
	struct text t = {0};
	if (f->lock_fd < 0)
		return;
	struct view_run r = *run;
	r.pid = getpid();
	r.kind = f->kind;
	r.name = safe(&name, f->name);
	r.worker = safe(&worker, f->worker);
	r.start_ms = f->start_ms;
	run_file_format(&t, &r);
	f->next_ns = clock_now_ns() + PUT_NS;
	bool same = t.length == f->last.length && t.length > 0 && memcmp(t.data, f->last.data, t.length) == 0;
	/* A failed write is retried with the next change. */
	if (!same && !text_error(&t) && replace(f, &t) == 0) {
		struct text before = f->last;
		f->last = t;
		t = before;
	}
	text_finish(&t);
}

static void remember(const struct run_file *f)
{
	struct run_text t;
	if (f->last.length == 0 || run_file_parse(f->last.data, f->last.length, &t) < 0)
		return;
	t.run.end_ms = date_now_ms();
	run_history_add(&t.run);
	run_text_finish(&t);
}

void run_file_close(struct run_file *f)
{
	char name[RUN_NAME_ROOM];
	if (f->lock_fd >= 0) {
		remember(f);
		run_name(name, getpid(), "json");
		(void)unlinkat(f->dir_fd, name, 0);
		run_name(name, getpid(), "lock"); /* removed last: it belongs to us as long as it is locked */
		(void)unlinkat(f->dir_fd, name, 0);
	}
	closep(&f->lock_fd);
	closep(&f->dir_fd);
	f->lock_fd = f->dir_fd = -1;
	text_finish(&f->last);
}
