/* SPDX-License-Identifier: MIT */
#include "launch/history.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/error.h"
#include "base/json_put.h"
#include "base/trust.h"

void history_init(struct history *h)
{
	*h = (struct history){.lock = {.fd = -1}, .fd = -1};
}

void history_finish(struct history *h)
{
	free(h->entries);
	path_map_finish(&h->by_file);
	arena_finish(&h->arena);
	intern_finish(&h->inputs);
	text_finish(&h->pending);
	closep(&h->fd);
	history_lock_release(&h->lock);
	history_init(h);
}

const struct history_entry *history_find(const struct history *h, const char *file)
{
	const size_t *i = path_map_get(&h->by_file, file);
	return i ? &h->entries[*i] : NULL;
}

/* ---- Writing --------------------------------------------------------------- */

int history_refuse(const char *path, const char *objection, struct gd_error *err)
{
	return error_set(err, -EPERM,
		"refusing to use '%s': it %s, who could change what is said to be done; make it yours alone to write or remove it, or use --trust if you accept that",
		path, objection);
}

int history_open(struct history *h, const char *path, struct gd_error *err)
{
	struct stat st;
	int r = history_lock_take(&h->lock, path, err);
	if (r < 0)
		return r;
	/* Not for the group to write, whatever the umask is: nobody else says what is done. */
	cleanup_(closep) int fd =
		open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0644);
	if (fd < 0)
		return error_set(err, -errno, "opening '%s': %s", path, error_words(-errno));
	if (fstat(fd, &st) < 0)
		return error_set(err, -errno, "opening '%s': %s", path, error_words(-errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EINVAL, "opening '%s': it is no regular file", path);
	const char *objection = h->checked ? trust_objection(fd) : NULL;
	if (objection)
		return history_refuse(path, objection, err);
	/* A torn line becomes one of its own; one that lacks nothing but its end is saved by it. */
	char last = '\n';
	if (st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) < 0)
		return error_set(err, -errno, "reading '%s': %s", path, error_words(-errno));
	if (last != '\n')
		text_append_char(&h->pending, '\n');
	h->fd = take_fd(&fd);
	return 0;
}

static void put_time(struct text *t)
{
	char time[DATE_TEXT];
	date_format(date_now_ms(), time);
	json_put_string(t, "time", time);
}

static void end_line(struct history *h)
{
	json_close(&h->pending, '}');
	text_append_char(&h->pending, '\n');
}

void history_add_run(struct history *h, const struct history_run *run)
{
	struct text *t = &h->pending;
	json_open(t, NULL, '{');
	json_put_string(t, "event", "run");
	json_put_int(t, "version", HISTORY_VERSION);
	put_time(t);
	json_put_any(t, "input", run->input, strlen(run->input));
	json_put_string(t, "worker", run->worker);
	json_open(t, "settings", '[');
	for (size_t i = 0; i < run->num_settings; i++) {
		cleanup_(text_finish) struct text both = {0};
		text_appendf(&both, "%s=%s", run->settings[i].key, (const char *)run->settings[i].value);
		json_put_bytes(t, NULL, text_string(&both), both.length);
	}
	json_close(t, ']');
	json_put_string(t, "fingerprint", run->fingerprint);
	end_line(h);
}

void history_add(struct history *h, const struct history_entry *e, int gpu, int attempt, const char *error)
{
	struct text *t = &h->pending;
	json_open(t, NULL, '{');
	json_put_string(t, "event", e->done ? "done" : "failed");
	json_put_any(t, "file", e->file, strlen(e->file));
	json_put_int(t, "size", (int64_t)e->size_bytes);
	json_put_int(t, "mtime", e->mtime_ns);
	json_put_any(t, "output", e->output, strlen(e->output));
	json_put_string(t, "fingerprint", e->fingerprint);
	if (gpu >= 0) {
		json_put_int(t, "gpu", gpu);
		json_put_int(t, "attempt", attempt);
	}
	if (e->audio_seconds >= 0)
		json_put_decimal(t, "audio_seconds", e->audio_seconds, 3);
	json_put_decimal(t, "processing_seconds", e->processing_seconds, 6);
	if (error)
		json_put_string(t, "error", error);
	put_time(t);
	end_line(h);
}

int history_flush(struct history *h)
{
	if (text_error(&h->pending))
		return -ENOMEM;
	while (h->pending_sent < h->pending.length) {
		ssize_t n = write(h->fd, h->pending.data + h->pending_sent, h->pending.length - h->pending_sent);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		/* The rest of a line that was cut will follow it: nobody else writes. */
		h->pending_sent += (size_t)n;
	}
	text_clear(&h->pending);
	h->pending_sent = 0;
	return 0;
}

uint64_t history_unwritten(const struct history *h)
{
	uint64_t lines = 0;
	for (size_t i = h->pending_sent; i < h->pending.length; i++)
		lines += h->pending.data[i] == '\n';
	return lines;
}

int history_sync(struct history *h)
{
	return fdatasync(h->fd) < 0 && errno != EINVAL && errno != EROFS ? -errno : 0;
}
