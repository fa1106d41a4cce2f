/* SPDX-License-Identifier: MIT */
#include "launch/message.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json_put.h"
#include "base/utf8.h"

/* ---- Writing ------------------------------------------------------------ */

/* Whether the key occurs again after this one. */
static bool is_replaced(const struct gd_setting *settings, size_t num_settings, size_t i)
{
	for (size_t k = i + 1; k < num_settings; k++)
		if (strcmp(settings[k].key, settings[i].key) == 0)
			return true;
	return false;
}

static bool is_utf8(const char *string)
{
	return utf8_is_valid(string, strlen(string));
}

/*
 * Bytes that are not UTF-8 are only sent in base64. With replacement characters, they could be the path of another
 * file, which other users have created and nobody has checked.
 */
static void put_exactly(struct text *t, const char *key, const char *value)
{
	if (is_utf8(value)) {
		json_put_string(t, key, value);
		return;
	}
	cleanup_(text_finish) struct text coded_key = {0}, coded = {0};
	text_appendf(&coded_key, "%s_b64", key);
	base64_append(&coded, value, strlen(value));
	if (text_error(&coded_key) || text_error(&coded))
		t->error = -ENOMEM;
	else
		json_put_string(t, text_string(&coded_key), text_string(&coded));
}

/* Keys are arbitrary text and must be escaped. A setting that was given is never missing. */
static void put_setting(struct text *t, const struct gd_setting *setting)
{
	cleanup_(text_finish) struct text key = {0};
	json_put_string(&key, NULL, setting->key);
	if (key.length < 2) {
		t->error = -ENOMEM;
		return;
	}
	key.data[key.length - 1] = '\0'; /* without its quotes */
	if (!is_utf8(setting->value))
		json_put_null(t, key.data + 1);
	put_exactly(t, key.data + 1, setting->value);
}

void message_put_setup(
	struct text *t, int gpu, int device, int64_t seed, const struct gd_setting *settings, size_t num_settings)
{
	json_open(t, NULL, '{');
	json_put_string(t, "type", "setup");
	json_put_int(t, "gpu", gpu);
	json_put_int(t, "seed", seed);
	json_open(t, "settings", '{');
	for (size_t i = 0; i < num_settings; i++)
		if (!is_replaced(settings, num_settings, i))
			put_setting(t, &settings[i]);
	json_close(t, '}');
	json_put_int(t, "device", device);
	json_close(t, '}');
	text_append_char(t, '\n');
}

void message_put_task(struct text *t, uint64_t id, const struct gd_file *file)
{
	json_open(t, NULL, '{');
	json_put_string(t, "type", "task");
	json_put_int(t, "id", (int64_t)id);
	put_exactly(t, "file", file->path);
	put_exactly(t, "output_dir", file->output_dir);
	json_close(t, '}');
	text_append_char(t, '\n');
}

const char *message_explain_task(const struct gd_file *file)
{
	if (!is_utf8(file->path))
		return " (the path is not UTF-8, so the worker gets only file_b64 instead of file)";
	return is_utf8(file->output_dir)
		       ? ""
		       : " (the output folder's path is not UTF-8, so the worker gets only output_dir_b64)";
}

void message_put_items(struct text *t, uint64_t id, const char *values, size_t size)
{
	text_append_string(t, "{\"type\":\"items\"");
	json_put_int(t, "id", (int64_t)id);
	json_put_raw(t, "items", values, size);
	text_append(t, "}\n", 2);
}

/* ---- Reading ------------------------------------------------------------ */

/* The known members. */
struct members {
	struct json_value type, id, ok, duration, error, results, errors, oom;
};

static int read_members(const char *line, size_t size, struct members *ret)
{
	struct json_cursor c;
	struct json_value key, value;
	int r = json_begin(&c, line, size);
	while (r >= 0 && (r = json_next_member(&c, &key, &value)) > 0) {
		if (json_is(&key, "type"))
			ret->type = value;
		else if (json_is(&key, "id"))
			ret->id = value;
		else if (json_is(&key, "ok"))
			ret->ok = value;
		else if (json_is(&key, "duration"))
			ret->duration = value;
		else if (json_is(&key, "error"))
			ret->error = value;
		else if (json_is(&key, "results"))
			ret->results = value;
		else if (json_is(&key, "errors"))
			ret->errors = value;
		else if (json_is(&key, "oom"))
			ret->oom = value;
	}
	return r < 0 ? r : json_end(&c);
}

int message_copy_error(const struct json_value *v, char *to, size_t room)
{
	if (v->type != JSON_STRING) {
		/* Some libraries send an object or null: show it as it is. */
		utf8_copy_line(to, room, v->type ? v->data : "", v->type ? v->size : 0);
		return 0;
	}
	cleanup_(freep) char *bytes = malloc(v->size + 1);
	if (!bytes)
		return -ENOMEM;
	size_t size = json_unescape(v, bytes);
	while (size > 0 && (bytes[size - 1] == '\n' || bytes[size - 1] == '\r'))
		size--;
	/* Keep a trace of several lines readable on one line. */
	for (size_t i = 0; i < size; i++)
		if (bytes[i] == '\n' || bytes[i] == '\r' || bytes[i] == '\t')
			bytes[i] = ' ';
	utf8_copy_line(to, room, bytes, size);
	return 0;
}

static int read_answer(const struct members *in, struct message *m, const char **ret_why)
{
	m->kind = MESSAGE_ANSWER;
	if (json_to_int64(&in->id, &m->id) < 0) {
		*ret_why = "its \"id\" is not a whole number";
		return -EBADMSG;
	}
	if (in->ok.type != JSON_TRUE && in->ok.type != JSON_FALSE) {
		*ret_why = "its \"ok\" is neither true nor false";
		return -EBADMSG;
	}
	m->ok = in->ok.type == JSON_TRUE;
	m->seconds = -1;
	if (in->duration.type && in->duration.type != JSON_NULL &&
		(json_to_double(&in->duration, &m->seconds) < 0 || !isfinite(m->seconds) || m->seconds < 0)) {
		*ret_why = "its \"duration\" is not a number of seconds";
		return -EBADMSG;
	}
	m->results = in->results;
	m->errors = in->errors;
	int r = message_copy_error(&in->error, m->error, sizeof(m->error));
	m->out_of_memory = !m->ok && (in->oom.type == JSON_TRUE || strcasestr(m->error, "out of memory"));
	return r;
}

int message_read(const char *line, size_t size, struct message *ret, const char **ret_why)
{
	struct members in = {0};
	struct message m = {.seconds = -1};
	*ret_why = "it is not a JSON object";
	int r = read_members(line, size, &in);
	if (r < 0)
		return r;
	if (in.id.type) {
		r = read_answer(&in, &m, ret_why);
	} else if (in.type.type != JSON_STRING) {
		*ret_why = "it has neither \"id\" nor \"type\"";
		r = -EBADMSG;
	} else if (json_is(&in.type, "ready")) {
		m.kind = MESSAGE_READY;
	} else if (json_is(&in.type, "error")) {
		m.kind = MESSAGE_ERROR;
		r = message_copy_error(&in.error, m.error, sizeof(m.error));
	} else {
		m.kind = MESSAGE_OTHER;
	}
	if (r == -ENOMEM)
		*ret_why = "out of memory";
	if (r < 0)
		return r;
	*ret = m;
	return 0;
}
