/* SPDX-License-Identifier: MIT */
/* A run as JSON text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/json_put.h"
#include "base/json_read.h"
#include "cli/run_file.h"

#define VERSION 1
#define MOST    9e18 /* json_put_decimal() writes larger ones as null */

static void put_known(struct text *t, const char *key, double value, unsigned digits)
{
	if (value >= 0)
		json_put_decimal(t, key, value, digits);
}

static void put_gpu(struct text *t, const struct view_run_gpu *g)
{
	json_open(t, NULL, '{');
	json_put_int(t, "gpu", g->id);
	json_put_int(t, "done", (int64_t)g->done);
	json_put_int(t, "failed", (int64_t)g->failed);
	put_known(t, "rtf", g->rtf, 9);
	if (g->task) {
		cleanup_(text_finish) struct text task = {0};
		display_append(&task, g->task, strlen(g->task), DISPLAY_ALL);
		json_put_string(t, "task", text_string(&task));
	}
	json_close(t, '}');
}

void run_file_format(struct text *t, const struct view_run *r)
{
	json_open(t, NULL, '{');
	json_put_int(t, "version", VERSION);
	json_put_string(t, "kind", r->kind);
	json_put_string(t, "name", r->name ? r->name : "");
	if (r->worker)
		json_put_string(t, "worker", r->worker);
	json_put_int(t, "start", r->start_ms);
	if (r->end_ms > 0)
		json_put_int(t, "end", r->end_ms);
	if (r->killed)
		json_put_bool(t, "killed", true);
	if (r->total >= 0)
		json_put_int(t, "total", r->total);
	json_put_int(t, "done", (int64_t)r->done);
	json_put_int(t, "failed", (int64_t)r->failed);
	json_put_int(t, "skipped", (int64_t)r->skipped);
	json_put_int(t, "running", (int64_t)r->running);
	put_known(t, "fraction", r->fraction, 6);
	put_known(t, "rate", r->rate, 6);
	put_known(t, "rtf", r->rtf, 9);
	if (r->eta_ms >= 0)
		json_put_int(t, "eta", r->eta_ms);
	json_put_bool(t, "watching", r->watching);
	json_put_bool(t, "ending", r->ending);
	json_open(t, "gpus", '[');
	for (size_t i = 0; i < r->num_gpus; i++)
		put_gpu(t, &r->gpus[i]);
	json_close(t, ']');
	json_close(t, '}');
	text_append_char(t, '\n');
}

/* ---- Reading ------------------------------------------------------------------ */

/* Where to store a member of the object: one of the pointers is set. */
struct run_field {
	const char *key;
	int64_t *integer;
	uint64_t *count;
	double *decimal;
	bool *flag;
	const char **string;
};

static int take_number(const struct run_field *f, const struct json_value *v)
{
	int64_t n;
	double d;
	if (f->decimal) {
		if (json_to_double(v, &d) < 0 || !(d >= 0 && d <= MOST))
			return -EBADMSG;
		*f->decimal = d;
		return 0;
	}
	if (json_to_int64(v, &n) < 0 || n < 0)
		return -EBADMSG;
	if (f->integer)
		*f->integer = n;
	else
		*f->count = (uint64_t)n;
	return 0;
}

static int take_field(const struct run_field *f, const struct json_value *v, char **strings)
{
	if (f->flag) {
		*f->flag = v->type == JSON_TRUE;
		return v->type == JSON_TRUE || v->type == JSON_FALSE ? 0 : -EBADMSG;
	}
	if (!f->string)
		return take_number(f, v);
	if (v->type != JSON_STRING)
		return -EBADMSG;
	size_t n = json_unescape(v, *strings);
	if (memchr(*strings, '\0', n))
		return -EBADMSG;
	(*strings)[n] = '\0';
	*f->string = *strings;
	*strings += n + 1;
	return 0;
}

/* Unknown members belong to a later version and are ignored. */
static int take_member(
	const struct run_field *fields, const struct json_value *key, const struct json_value *value, char **strings)
{
	for (const struct run_field *f = fields; f->key; f++)
		if (json_is(key, f->key))
			return take_field(f, value, strings);
	return 0;
}

static int read_gpu(const struct json_value *from, struct view_run_gpu *g, char **strings)
{
	int64_t id = -1;
	struct json_cursor c;
	struct json_value key, value;
	*g = (struct view_run_gpu){.rtf = -1};
	const struct run_field fields[] = {
		{.key = "gpu", .integer = &id},
		{.key = "done", .count = &g->done},
		{.key = "failed", .count = &g->failed},
		{.key = "rtf", .decimal = &g->rtf},
		{.key = "task", .string = &g->task},
		{0},
	};
	if (from->type != JSON_OBJECT)
		return -EBADMSG;
	json_enter(&c, from);
	int r;
	while ((r = json_next_member(&c, &key, &value)) > 0)
		if ((r = take_member(fields, &key, &value, strings)) < 0)
			return r;
	g->id = (int)id;
	return r < 0 || id < 0 || id > INT32_MAX ? -EBADMSG : 0;
}

static int read_gpus(const struct json_value *from, struct run_text *ret, char **strings)
{
	struct json_cursor c;
	struct json_value item;
	int r;
	if (from->type != JSON_ARRAY)
		return -EBADMSG;
	json_enter(&c, from);
	while ((r = json_next_item(&c, &item)) > 0 && ret->run.num_gpus < RUN_FILE_GPUS) {
		r = read_gpu(&item, &ret->gpus[ret->run.num_gpus], strings);
		if (r < 0)
			return r;
		ret->run.num_gpus++;
	}
	return r < 0 ? r : 0;
}

static int read_run(const char *data, size_t size, struct run_text *t, char *strings)
{
	struct view_run *r = &t->run;
	int64_t version = 0;
	const struct run_field fields[] = {
		{.key = "version", .integer = &version},
		{.key = "kind", .string = &r->kind},
		{.key = "name", .string = &r->name},
		{.key = "worker", .string = &r->worker},
		{.key = "start", .integer = &r->start_ms},
		{.key = "end", .integer = &r->end_ms},
		{.key = "killed", .flag = &r->killed},
		{.key = "total", .integer = &r->total},
		{.key = "done", .count = &r->done},
		{.key = "failed", .count = &r->failed},
		{.key = "skipped", .count = &r->skipped},
		{.key = "running", .count = &r->running},
		{.key = "fraction", .decimal = &r->fraction},
		{.key = "rate", .decimal = &r->rate},
		{.key = "rtf", .decimal = &r->rtf},
		{.key = "eta", .integer = &r->eta_ms},
		{.key = "watching", .flag = &r->watching},
		{.key = "ending", .flag = &r->ending},
		{0},
	};
	struct json_cursor c;
	struct json_value key, value;
	int e = json_begin(&c, data, size);
	while (e == 0 && (e = json_next_member(&c, &key, &value)) > 0)
		e = json_is(&key, "gpus") ? read_gpus(&value, t, &strings)
					  : take_member(fields, &key, &value, &strings);
	if (e == 0)
		e = json_end(&c);
	return e < 0 ? e : version == VERSION && r->kind && r->name ? 0 : -EBADMSG;
}

int run_file_parse(const char *data, size_t size, struct run_text *ret)
{
	/* The quotes of a string leave space for its NUL. */
	*ret = (struct run_text){
		.run = {.total = -1, .fraction = -1, .rtf = -1, .eta_ms = -1}, .strings = malloc(size + 1)};
	if (!ret->strings)
		return -ENOMEM;
	int r = read_run(data, size, ret, ret->strings);
	ret->run.gpus = ret->gpus;
	if (r < 0)
		run_text_finish(ret);
	return r;
}

void run_text_finish(struct run_text *r)
{
	free(r->strings);
	r->strings = NULL;
}
