/* SPDX-License-Identifier: MIT */
#include "launch/history_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/trust.h"
#include "launch/history_checksum.h"

void history_writer_close(struct history_writer *w)
{
	text_finish(&w->pending);
	closep(&w->fd);
	history_lock_release(&w->lock);
	*w = HISTORY_WRITER_CLOSED;
}

int history_writer_open(struct history_writer *w, const char *path, bool checked, struct gd_error *err)
{
	struct stat st;
	int r = history_lock_take(&w->lock, path, err);
	if (r < 0)
		return r;
	/* Not writable by the group, whatever the umask: only the owner records what is done. */
	cleanup_(closep) int fd =
		open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0644);
	if (fd < 0)
		return error_set(err, -errno, "cannot open '%s': %s", path, error_words(-errno));
	if (fstat(fd, &st) < 0)
		return error_set(err, -errno, "cannot open '%s': %s", path, error_words(-errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EINVAL, "cannot open '%s': it is not a regular file", path);
	const char *objection = checked ? trust_objection(fd) : NULL;
	if (objection)
		return history_refuse(path, objection, err);
	/* Ends a torn line with a newline. If only the newline was missing, the line is valid again. */
	char last = '\n';
	if (st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) < 0)
		return error_set(err, -errno, "cannot read '%s': %s", path, error_words(-errno));
	if (last != '\n')
		text_append_char(&w->pending, '\n');
	w->fd = take_fd(&fd);
	return 0;
}

static int copy_file(int from, int to)
{
	char buffer[65536];
	for (off_t at = 0;;) {
		ssize_t n = pread(from, buffer, sizeof(buffer), at);
		if (n < 0 && errno == EINTR)
			continue;
		int r = n > 0 ? file_write_all(to, buffer, (size_t)n) : n < 0 ? -errno : 0;
		if (r < 0 || n == 0)
			return r;
		at += n;
	}
}

int history_writer_make_private(struct history_writer *w, const char *path)
{
	cleanup_(freep) char *draft = NULL;
	if (asprintf(&draft, "%s.XXXXXX", path) < 0) {
		draft = NULL;
		return -ENOMEM;
	}
	cleanup_(closep) int fd = mkostemp(draft, O_APPEND | O_CLOEXEC); /* 0600 */
	if (fd < 0)
		return -errno;
	int r = copy_file(w->fd, fd);
	if (r == 0 && (fdatasync(fd) < 0 || rename(draft, path) < 0))
		r = -errno;
	if (r < 0) {
		unlink(draft);
		return r;
	}
	close_fd(&w->fd);
	w->fd = take_fd(&fd);
	return 0;
}

int64_t history_writer_size(const struct history_writer *w)
{
	struct stat st;
	return fstat(w->fd, &st) < 0 ? -errno : (int64_t)st.st_size;
}

static void put_time(struct text *t)
{
	char time[DATE_TEXT];
	date_format(date_now_ms(), time);
	json_put_string(t, "time", time);
}

static void end_line(struct history_writer *w, size_t from)
{
	json_close(&w->pending, '}');
	history_checksum_put(&w->pending, from);
	text_append_char(&w->pending, '\n');
}

/* Values of settings may be secret, and others may be allowed to read the record. */
static bool is_public(const char *key)
{
	return strcmp(key, "model_size") == 0 || strcmp(key, "language") == 0;
}

void history_writer_add_run(struct history_writer *w, const struct history_run *run)
{
	struct text *t = &w->pending;
	size_t from = t->length;
	json_open(t, NULL, '{');
	json_put_string(t, "event", "run");
	json_put_int(t, "version", HISTORY_VERSION);
	put_time(t);
	json_put_any(t, "input", run->input, strlen(run->input));
	json_put_string(t, "worker", run->worker);
	json_open(t, "settings", '[');
	for (size_t i = 0; i < run->num_settings; i++) {
		cleanup_(text_finish) struct text both = {0};
		text_append_string(&both, run->settings[i].key);
		if (is_public(run->settings[i].key))
			text_appendf(&both, "=%s", (const char *)run->settings[i].value);
		json_put_bytes(t, NULL, text_string(&both), both.length);
	}
	json_close(t, ']');
	json_put_string(t, "fingerprint", run->fingerprint);
	if (run->mark)
		json_put_bytes(t, "mark", run->mark, strlen(run->mark));
	end_line(w, from);
}

static void begin_file(struct text *t, const char *event, const struct history_entry *e)
{
	json_open(t, NULL, '{');
	json_put_string(t, "event", event);
	json_put_any(t, "file", e->file, strlen(e->file));
	json_put_int(t, "size", (int64_t)e->size_bytes);
	json_put_int(t, "mtime", e->mtime_ns);
	json_put_any(t, "output", e->output, strlen(e->output));
	if (e->owner)
		json_put_int(t, "owner", e->owner);
	json_put_string(t, "fingerprint", e->fingerprint);
}

void history_writer_add_start(struct history_writer *w, const struct history_entry *e)
{
	size_t from = w->pending.length;
	begin_file(&w->pending, "started", e);
	put_time(&w->pending);
	end_line(w, from);
}

void history_writer_add(
	struct history_writer *w, const struct history_entry *e, const struct history_place *place, const char *error)
{
	struct text *t = &w->pending;
	size_t from = t->length;
	begin_file(t, e->done ? "done" : "failed", e);
	if (place->node)
		json_put_string(t, "node", place->node);
	if (place->gpu >= 0) {
		json_put_int(t, "gpu", place->gpu);
		json_put_int(t, "attempt", place->attempt);
	}
	if (e->audio_seconds >= 0)
		json_put_decimal(t, "audio_seconds", e->audio_seconds, 3);
	json_put_decimal(t, "processing_seconds", e->processing_seconds, 6);
	if (error)
		json_put_string(t, "error", error);
	put_time(t);
	end_line(w, from);
}

int history_writer_flush(struct history_writer *w)
{
	if (text_error(&w->pending))
		return -ENOMEM;
	while (w->pending_sent < w->pending.length) {
		ssize_t n = write(w->fd, w->pending.data + w->pending_sent, w->pending.length - w->pending_sent);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		/* The rest of a cut line will follow it, because there is no other writer. */
		w->pending_sent += (size_t)n;
	}
	text_clear(&w->pending);
	w->pending_sent = 0;
	return 0;
}

uint64_t history_writer_unwritten(const struct history_writer *w)
{
	uint64_t lines = 0;
	for (size_t i = w->pending_sent; i < w->pending.length; i++)
		lines += w->pending.data[i] == '\n';
	return lines;
}

int history_writer_sync(struct history_writer *w)
{
	return fdatasync(w->fd) < 0 && errno != EINVAL && errno != EROFS ? -errno : 0;
}
