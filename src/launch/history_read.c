/* SPDX-License-Identifier: MIT */
/* Reading launch.jsonl. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json_read.h"
#include "launch/history.h"

#define VERSION 1

/* The members of a line that matter; what is not there has type 0. */
struct line {
	struct json_value event, version, input, input_b64, file, file_b64, output, output_b64, fingerprint;
	struct json_value size, mtime, audio, processing;
};

static struct json_value *member(struct line *line, const struct json_value *key)
{
	const struct {
		const char *name;
		struct json_value *value;
	} members[] = {
		{"event", &line->event},
		{"version", &line->version},
		{"input", &line->input},
		{"input_b64", &line->input_b64},
		{"file", &line->file},
		{"file_b64", &line->file_b64},
		{"output", &line->output},
		{"output_b64", &line->output_b64},
		{"fingerprint", &line->fingerprint},
		{"size", &line->size},
		{"mtime", &line->mtime},
		{"audio_seconds", &line->audio},
		{"processing_seconds", &line->processing},
	};
	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
		if (json_is(key, members[i].name))
			return members[i].value;
	return NULL;
}

static int parse(const char *text, size_t size, struct line *ret)
{
	*ret = (struct line){0};
	struct json_cursor c;
	struct json_value key, value;
	int r = json_begin(&c, text, size);
	if (r < 0)
		return r;
	while ((r = json_next_member(&c, &key, &value)) > 0) {
		struct json_value *to = member(ret, &key);
		if (to)
			*to = value;
	}
	return r < 0 ? r : json_end(&c);
}

/* A path, any bytes but NUL, NUL-terminated in `out`. Returns its length. */
static int get_path(const struct json_value *plain, const struct json_value *coded, char out[PATH_MAX])
{
	ssize_t n;
	if (coded->type == JSON_STRING) {
		if (coded->size / 4 * 3 >= PATH_MAX)
			return -EBADMSG;
		n = base64_decode(coded->data, coded->size, out);
	} else {
		if (plain->type != JSON_STRING || plain->size >= PATH_MAX)
			return -EBADMSG;
		n = (ssize_t)json_unescape(plain, out);
	}
	if (n <= 0 || memchr(out, '\0', (size_t)n))
		return -EBADMSG;
	out[n] = '\0';
	return (int)n;
}

static int take_run(struct history *h, const struct line *line, const char **ret_input, struct gd_error *err)
{
	int64_t version = 0;
	if (json_to_int64(&line->version, &version) == 0 && version > VERSION)
		return error_set(err, -EINVAL, "it was written by a newer gpuq (version %lld)", (long long)version);
	char input[PATH_MAX];
	int n = get_path(&line->input, &line->input_b64, input);
	if (n < 0)
		return n;
	const char *copy = intern(&h->inputs, input, (size_t)n);
	if (!copy)
		return -ENOMEM;
	*ret_input = copy;
	return 0;
}

/* A copy of the path, or the one that it is equal to. */
static const char *keep_path(struct history *h, const char *path, size_t length, const char *other)
{
	if (other && strcmp(other, path) == 0)
		return other;
	return arena_copy(&h->arena, path, length);
}

static struct history_entry *entry_for(struct history *h, const char *file, size_t length)
{
	const size_t *known = path_map_get(&h->by_file, file);
	if (known)
		return &h->entries[*known];
	if (h->count == h->room) {
		size_t room = h->room ? 2 * h->room : 64;
		struct history_entry *list = reallocarray(h->entries, room, sizeof(*list));
		if (!list)
			return NULL;
		h->entries = list;
		h->room = room;
	}
	const char *copy = arena_copy(&h->arena, file, length);
	if (!copy || !path_map_put(&h->by_file, copy, h->count))
		return NULL;
	h->entries[h->count] = (struct history_entry){.file = copy};
	return &h->entries[h->count++];
}

static int take_file(struct history *h, const struct line *line, const char *input, bool done)
{
	char file[PATH_MAX], output[PATH_MAX];
	int64_t size, mtime;
	int length = get_path(&line->file, &line->file_b64, file);
	int output_length = get_path(&line->output, &line->output_b64, output);
	if (length < 0 || output_length < 0 || line->fingerprint.type != JSON_STRING ||
		line->fingerprint.size != HASH_TEXT - 1 || json_to_int64(&line->size, &size) < 0 || size < 0 ||
		json_to_int64(&line->mtime, &mtime) < 0)
		return -EBADMSG;
	struct history_entry *e = entry_for(h, file, (size_t)length);
	const char *kept = e ? keep_path(h, output, (size_t)output_length, e->output) : NULL;
	if (!kept)
		return -ENOMEM;
	e->output = kept;
	e->input = input;
	e->size_bytes = (uint64_t)size;
	e->mtime_ns = mtime;
	memcpy(e->fingerprint, line->fingerprint.data, HASH_TEXT - 1);
	e->audio_seconds = -1;
	e->processing_seconds = 0;
	if (json_to_double(&line->audio, &e->audio_seconds) < 0 || !(e->audio_seconds >= 0))
		e->audio_seconds = -1;
	if (json_to_double(&line->processing, &e->processing_seconds) < 0 || !(e->processing_seconds >= 0))
		e->processing_seconds = 0;
	e->done = done;
	return 0;
}

static int take_line(struct history *h, const char *text, size_t size, const char **input, struct gd_error *err)
{
	struct line line;
	int r = parse(text, size, &line);
	if (r < 0)
		return r;
	if (json_is(&line.event, "run"))
		return take_run(h, &line, input, err);
	if (json_is(&line.event, "done") || json_is(&line.event, "failed"))
		return take_file(h, &line, *input, json_is(&line.event, "done"));
	return line.event.type == JSON_STRING ? 0 : -EBADMSG;
}

int history_read(struct history *h, const char *path, struct gd_error *err)
{
	cleanup_(fclosep) FILE *f = fopen(path, "re");
	if (!f && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (!f)
		return error_set(err, -errno, "reading '%s': %s", path, error_words(-errno));
	cleanup_(freep) char *text = NULL;
	size_t room = 0;
	ssize_t n;
	const char *input = NULL;
	for (uint64_t number = 1; (n = getline(&text, &room, f)) > 0; number++) {
		struct gd_error why = {0};
		h->size_read += (uint64_t)n;
		bool blank = text[0] == '\n';
		int r = blank ? 0 : take_line(h, text, (size_t)n, &input, &why);
		if (r == -ENOMEM || why.code)
			return error_set(err, r, "reading '%s': %s", path, why.code ? why.message : "out of memory");
		if (r < 0 && h->bad_lines++ == 0)
			h->first_bad_line = number;
	}
	if (ferror(f))
		return error_set(err, -errno, "reading '%s': %s", path, error_words(-errno));
	return 0;
}
