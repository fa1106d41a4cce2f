/* SPDX-License-Identifier: MIT */
#include "transcript.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json_put.h"

static int64_t thousandths(double value)
{
	return (int64_t)llround(value * 1000);
}

void transcript_add(struct transcript *t, double start, double end, double confidence, const char *text)
{
	text += strspn(text, " \t\r\n");
	size_t size = strlen(text);
	while (size > 0 && strchr(" \t\r\n", text[size - 1]))
		size--;
	if (size == 0)
		return;
	text_append(&t->text, text, size);
	text_append_char(&t->text, '\n');
	json_open(&t->json, NULL, '{');
	json_put_seconds(&t->json, "start", thousandths(start));
	json_put_seconds(&t->json, "end", thousandths(end));
	json_put_bytes(&t->json, "text", text, size);
	if (confidence >= 0) {
		json_put_decimal(&t->json, "confidence", confidence, 3);
		t->confidence += confidence * (end - start);
		t->confidence_s += end - start;
	}
	json_close(&t->json, '}');
}

void transcript_finish(struct transcript *t)
{
	text_finish(&t->text);
	text_finish(&t->json);
}

static int write_whole(const char *path, const struct text *text)
{
	cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	int r = file_write_all(fd, text_string(text), text->length);
	/* Some file systems report only here that they are full. */
	if (r == 0 && fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
		r = -errno;
	if (r == 0 && close(take_fd(&fd)) < 0)
		r = -errno;
	return r;
}

/*
 * Writes a temporary file next to the target, then renames it. The temporary name is short: the target's name may have
 * the maximum length.
 */
static int write_file(const struct gd_file *file, const char *suffix, const struct text *text, char *words, size_t room)
{
	cleanup_(freep) char *path = NULL;
	cleanup_(freep) char *beside = NULL;
	if (asprintf(&path, "%s/%s%s", file->output_dir, file->stem, suffix) < 0)
		path = NULL;
	if (asprintf(&beside, "%s/.transcript%s.%d", file->output_dir, suffix, (int)getpid()) < 0)
		beside = NULL;
	int r = path && beside ? text_error(text) : -ENOMEM;
	if (r == 0)
		r = write_whole(beside, text);
	if (r == 0 && rename(beside, path) < 0)
		r = -errno;
	if (r < 0 && beside)
		unlink(beside);
	if (r < 0)
		snprintf(words, room, "cannot write '%s%s': %s", file->stem, suffix, strerror(-r));
	return r;
}

static void put_json(const struct transcript *t, struct text *json)
{
	cleanup_(text_finish) struct text line = {0};
	text_append(&line, text_string(&t->text), t->text.length);
	for (size_t i = 0; i < line.length; i++)
		if (line.data[i] == '\n')
			line.data[i] = ' ';
	json_open(json, NULL, '{');
	json_put_bytes(json, "text", text_string(&line), line.length ? line.length - 1 : 0);
	json_open(json, "segments", '[');
	if (t->json.length)
		json_put_raw(json, NULL, t->json.data, t->json.length);
	json_close(json, ']');
	json_put_seconds(json, "duration", thousandths(t->seconds));
	if (t->confidence_s > 0)
		json_put_decimal(json, "confidence", t->confidence / t->confidence_s, 3);
	json_put_string(json, "model", t->model);
	if (t->language)
		json_put_string(json, "language", t->language);
	json_close(json, '}');
	text_append_char(json, '\n');
	if (text_error(&line) || text_error(&t->json))
		json->error = -ENOMEM;
}

int transcript_write(const struct transcript *t, const struct gd_file *file, char *words, size_t room)
{
	cleanup_(text_finish) struct text json = {0};
	put_json(t, &json);
	int r = write_file(file, ".json", &json, words, room);
	return r < 0 ? r : write_file(file, ".txt", &t->text, words, room);
}
