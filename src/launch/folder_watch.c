/* SPDX-License-Identifier: MIT */
#include "launch/folder_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"

#define NAMES       (IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE)
#define FOLDERS     (IN_MOVED_FROM | IN_MOVE_SELF | IN_DELETE_SELF)
#define READ_MOST   16 /* buffers per turn, so that other work gets its turn */
#define READ_BUFFER 16384
#define LIMIT_FILE  "/proc/sys/user/max_inotify_watches" /* of all programs of this user together */

struct watched_folder {
	char *prefix; /* NULL: not watched */
	uint64_t search;
};

struct folder_watch {
	int fd;
	struct watched_folder *folders; /* by watch descriptor: small numbers that are never reused */
	size_t count, capacity;
	size_t most;     /* folders per search */
	uint64_t search; /* number of the last search */
	size_t added;    /* in the last search */
	int error;       /* of the last search */
	bool stale;
	bool recursive;
};

/*
 * Half of the limit, minus one: other users can make any number of folders, other programs of this user need watches,
 * too, and a search can add folders before it removes others.
 */
static size_t find_most(void)
{
	char text[32];
	int r = file_read_small(AT_FDCWD, LIMIT_FILE, text, sizeof(text));
	unsigned long long limit = r > 0 ? strtoull(text, NULL, 10) : 0;
	return limit < 4 || limit > INT_MAX ? INT_MAX : (size_t)limit / 2 - 1;
}

int folder_watch_open(bool recursive, struct folder_watch **ret)
{
	cleanup_(closep) int fd = file_above_stdio(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
	if (fd < 0)
		return fd;
	struct folder_watch *w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->fd = take_fd(&fd);
	w->recursive = recursive;
	w->most = find_most();
	w->stale = true;
	*ret = w;
	return 0;
}

void folder_watch_close(struct folder_watch *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->count; i++)
		free(w->folders[i].prefix);
	free(w->folders);
	close(w->fd);
	free(w);
}

int folder_watch_fd(const struct folder_watch *w)
{
	return w->fd;
}

bool folder_watch_is_stale(const struct folder_watch *w)
{
	return w->stale;
}

void folder_watch_set_stale(struct folder_watch *w)
{
	w->stale = true;
}

/* ---- Folders ------------------------------------------------------------ */

void folder_watch_begin_search(struct folder_watch *w)
{
	w->search++;
	w->added = 0;
	w->error = 0;
	w->stale = false; /* events from here on count again */
}

static int keep_prefix(struct folder_watch *w, size_t number, const char *prefix)
{
	size_t before = w->count;
	if (array_reserve(w->folders, &w->capacity, number + 1) < 0)
		return -ENOMEM;
	if (number >= before) {
		memset(w->folders + before, 0, (number + 1 - before) * sizeof(*w->folders));
		w->count = number + 1;
	}
	struct watched_folder *f = &w->folders[number];
	f->search = w->search;
	if (f->prefix && strcmp(f->prefix, prefix) == 0)
		return 0;
	free(f->prefix);
	f->prefix = strdup(prefix);
	return f->prefix ? 0 : -ENOMEM;
}

int folder_watch_add(struct folder_watch *w, int fd, const char *prefix)
{
	char path[32];
	if (w->added == w->most) {
		w->error = -ENOSPC;
		return 0;
	}
	w->added++;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int number = inotify_add_watch(w->fd, path, NAMES | FOLDERS | IN_ONLYDIR);
	if (number < 0) {
		w->error = -errno;
		return 0;
	}
	return keep_prefix(w, (size_t)number, prefix);
}

void folder_watch_end_search(struct folder_watch *w, bool complete)
{
	for (size_t i = 0; complete && i < w->count; i++) {
		struct watched_folder *f = &w->folders[i];
		if (!f->prefix || f->search == w->search)
			continue;
		inotify_rm_watch(w->fd, (int)i); /* fails if the folder is gone */
		free(f->prefix);
		f->prefix = NULL;
	}
	w->stale = w->stale || !complete;
}

int folder_watch_error(const struct folder_watch *w)
{
	return w->error;
}

/* ---- Events ------------------------------------------------------------- */

static int take_event(struct folder_watch *w, const struct inotify_event *e,
	int (*found)(void *context, const char *path, bool created), void *context)
{
	if (e->mask & (IN_Q_OVERFLOW | IN_UNMOUNT)) {
		w->stale = true;
		return 0;
	}
	struct watched_folder *f = e->wd >= 0 && (size_t)e->wd < w->count ? &w->folders[e->wd] : NULL;
	if (!f || !f->prefix)
		return 0;
	if (e->mask & IN_IGNORED) {
		free(f->prefix);
		f->prefix = NULL;
	}
	if (e->mask & (IN_IGNORED | IN_MOVE_SELF | IN_DELETE_SELF) || (w->recursive && e->mask & IN_ISDIR)) {
		w->stale = true;
		return 0;
	}
	if (!(e->mask & NAMES) || e->mask & IN_ISDIR || e->len == 0)
		return 0;
	cleanup_(text_finish) struct text path = {0};
	text_append_string(&path, f->prefix);
	text_append_string(&path, e->name);
	return text_error(&path) ? -ENOMEM : found(context, text_string(&path), !(e->mask & ~(uint32_t)IN_CREATE));
}

int folder_watch_read(
	struct folder_watch *w, int (*found)(void *context, const char *path, bool created), void *context)
{
	char buffer[READ_BUFFER] __attribute__((aligned(__alignof__(struct inotify_event))));
	for (int i = 0; i < READ_MOST; i++) {
		ssize_t n = read(w->fd, buffer, sizeof(buffer));
		if (n <= 0)
			return 0; /* EAGAIN */
		for (char *at = buffer; at < buffer + n;) {
			const struct inotify_event *e = (const struct inotify_event *)(void *)at;
			int r = take_event(w, e, found, context);
			if (r < 0)
				return r;
			at += sizeof(*e) + e->len;
		}
	}
	return 0;
}
