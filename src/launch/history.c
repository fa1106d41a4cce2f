/* SPDX-License-Identifier: MIT */
#include "launch/history.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/trust.h"
#include "launch/history_checksum.h"
#include "launch/history_reader.h"

void history_finish(struct history *h)
{
	free(h->entries);
	path_map_finish(&h->by_file);
	arena_finish(&h->arena);
	intern_finish(&h->inputs);
	*h = (struct history){0};
}

#define KEY_ROOM (PATH_MAX + 16)

/* No path of a file begins with a slash. */
static const char *key_of(const char *file, uid_t owner, char room[KEY_ROOM])
{
	if (!owner)
		return file;
	snprintf(room, KEY_ROOM, "/%llu/%s", (unsigned long long)owner, file);
	return room;
}

const struct history_entry *history_find(const struct history *h, const char *file, uid_t owner)
{
	char room[KEY_ROOM];
	const size_t *i = path_map_get(&h->by_file, key_of(file, owner, room));
	return i ? &h->entries[*i] : NULL;
}

int history_refuse(const char *path, const char *objection, struct gd_error *err)
{
	return trust_refuse_path(path, false, "choose another output_dir, or set trust_output_dir if you accept that",
		err, "refusing to use '%s': it %s, so other users could change the record of finished files", path,
		objection);
}

/* ---- Loading ------------------------------------------------------------ */

struct history_loading {
	struct history *history;
	const char *input;   /* the input folder of the run that is being read */
	struct gd_error why; /* of a failure other than a bad line */
};

/* Decodes a path (any bytes but NUL) into `out`, NUL-terminated. Returns its length. */
static int get_path(const struct history_bytes *path, char out[PATH_MAX])
{
	if (history_bytes_room(path) >= PATH_MAX)
		return -EBADMSG;
	ssize_t n = history_bytes_decode(path, out);
	if (n <= 0 || memchr(out, '\0', (size_t)n))
		return -EBADMSG;
	out[n] = '\0';
	return (int)n;
}

static int take_run(struct history_loading *r, const struct history_line *line)
{
	int64_t version = 0;
	if (json_to_int64(&line->version, &version) == 0 && version > HISTORY_VERSION)
		return error_set(&r->why, -EINVAL, "it was written by a newer version of gpuq (version %lld)",
			(long long)version);
	char input[PATH_MAX];
	int n = get_path(&line->input, input);
	if (n < 0)
		return n;
	const char *copy = intern(&r->history->inputs, input, (size_t)n);
	if (!copy)
		return -ENOMEM;
	r->input = copy;
	return 0;
}

/* A copy of the path, or `other` if they are equal. */
static const char *keep_path(struct history *h, const char *path, size_t length, const char *other)
{
	if (other && strcmp(other, path) == 0)
		return other;
	return arena_copy(&h->arena, path, length);
}

static struct history_entry *entry_for(struct history *h, const char *file, size_t length, uid_t owner)
{
	char room[KEY_ROOM];
	const char *key = key_of(file, owner, room);
	const size_t *known = path_map_get(&h->by_file, key);
	if (known)
		return &h->entries[*known];
	if (array_reserve(h->entries, &h->capacity, h->count + 1) < 0)
		return NULL;
	size_t before = strlen(key) - length;
	const char *copy = arena_copy(&h->arena, key, before + length);
	if (!copy || !path_map_put(&h->by_file, copy, h->count))
		return NULL;
	h->entries[h->count] = (struct history_entry){.file = copy + before, .owner = owner};
	return &h->entries[h->count++];
}

/* Only digits that hash_format() writes: with any other character, the entry would change when it is written again. */
static int get_fingerprint(const struct json_value *value, char out[HASH_TEXT])
{
	if (value->type != JSON_STRING || value->size != HASH_TEXT - 1)
		return -EBADMSG;
	memcpy(out, value->data, HASH_TEXT - 1);
	out[HASH_TEXT - 1] = '\0';
	return strspn(out, "0123456789abcdef") == HASH_TEXT - 1 ? 0 : -EBADMSG;
}

/* A missing owner is this user. */
static int get_owner(const struct json_value *value, uid_t *ret)
{
	int64_t owner = 0;
	if (value->type && (json_to_int64(value, &owner) < 0 || owner < 0 || owner > UINT32_MAX))
		return -EBADMSG;
	*ret = (uid_t)owner;
	return 0;
}

/* Whether the file failed only because its folder has the result of a file from another input folder. */
static bool is_refused(const struct history_entry *e, const struct history_line *line, const char *input)
{
	return e->done && line->event == HISTORY_FAILED && !line->gpu.type && e->input && input &&
	       strcmp(e->input, input) != 0;
}

static int take_file(struct history *h, const struct history_line *line, const char *input)
{
	char file[PATH_MAX], output[PATH_MAX], fingerprint[HASH_TEXT];
	int64_t size, mtime;
	uid_t owner;
	int length = get_path(&line->file, file);
	int output_length = get_path(&line->output, output);
	if (length < 0 || output_length < 0 || get_fingerprint(&line->fingerprint, fingerprint) < 0 ||
		json_to_int64(&line->size, &size) < 0 || size < 0 || json_to_int64(&line->mtime, &mtime) < 0 ||
		get_owner(&line->owner, &owner) < 0)
		return -EBADMSG;
	struct history_entry *e = entry_for(h, file, (size_t)length, owner);
	if (e && is_refused(e, line, input))
		return 0;
	const char *kept = e ? keep_path(h, output, (size_t)output_length, e->output) : NULL;
	if (!kept)
		return -ENOMEM;
	/* A file that reached no worker may have failed before its folder was checked. */
	e->has_folder = line->event != HISTORY_FAILED || line->gpu.type || (e->has_folder && kept == e->output);
	e->output = kept;
	e->input = input;
	e->size_bytes = (uint64_t)size;
	e->mtime_ns = mtime;
	memcpy(e->fingerprint, fingerprint, HASH_TEXT);
	e->audio_seconds = -1;
	e->processing_seconds = 0;
	if (json_to_double(&line->audio, &e->audio_seconds) < 0 || !(e->audio_seconds >= 0))
		e->audio_seconds = -1;
	if (json_to_double(&line->processing, &e->processing_seconds) < 0 || !(e->processing_seconds >= 0))
		e->processing_seconds = 0;
	e->done = line->event == HISTORY_DONE;
	return 0;
}

static int take_line(void *context, const struct history_line *line)
{
	struct history_loading *r = context;
	int e = line->event == HISTORY_RUN ? take_run(r, line) : take_file(r->history, line, r->input);
	return e == -ENOMEM ? error_set(&r->why, e, "out of memory") : e;
}

static int refuse_to_read(const char *path, int code, const char *why, struct gd_error *err)
{
	return error_set(err, code, "cannot read '%s': %s", path, why);
}

int history_read(struct history *h, int fd, const char *path, bool checked, struct gd_error *err)
{
	struct history_loading loading = {.history = h};
	struct history_reader reader = {.take = take_line, .context = &loading, .checked = checked};
	int r = history_reader_run(&reader, fd);
	h->size_read = reader.size_read;
	h->bad_lines = reader.bad_lines;
	h->first_bad_line = reader.first_bad_line;
	if (r == -EPERM && reader.objection)
		return history_refuse(path, reader.objection, err);
	if (r < 0)
		return refuse_to_read(path, r, loading.why.code ? loading.why.message : history_reader_words(r), err);
	return 0;
}

int history_load(struct history *h, int dir_fd, const char *path, bool checked, struct gd_error *err)
{
	cleanup_(closep) int fd = file_open_regular(dir_fd, HISTORY_NAME, O_NOFOLLOW);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return refuse_to_read(path, fd, fd == -ELOOP ? "it is a symbolic link" : error_words(fd), err);
	return history_read(h, fd, path, checked, err);
}
