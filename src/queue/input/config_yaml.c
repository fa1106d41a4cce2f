/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/error.h"
#include "base/suggest.h"
#include "base/text.h"
#include "queue/input/config_keys.h"

/* The list form of gpus, as in the configuration files of other tools. */
#define GPU_IDS "gpu_ids"

struct reader {
	const char *name;
	yaml_parser_t parser;
	yaml_event_t event; /* the current event; YAML_NO_EVENT: none */
	struct config config;
	size_t lines[CONFIG_KEYS]; /* line of each key */
	struct gd_error *err;
};

static int complain(struct reader *r, size_t line, const char *format, ...) GD_PRINTF(3, 4);

static int complain(struct reader *r, size_t line, const char *format, ...)
{
	struct gd_error words;
	va_list args;
	va_start(args, format);
	error_vset(&words, -EINVAL, format, args);
	va_end(args);
	return error_set(r->err, -EINVAL, "%s:%zu: %s", r->name, line, words.message);
}

static size_t event_line(const struct reader *r)
{
	return r->event.start_mark.line + 1;
}

static int next_event(struct reader *r)
{
	yaml_event_delete(&r->event);
	if (yaml_parser_parse(&r->parser, &r->event)) {
		if (r->event.type == YAML_ALIAS_EVENT)
			return complain(r, event_line(r), "aliases (*name) are not supported; write the value");
		return 0;
	}
	r->event.type = YAML_NO_EVENT;
	if (r->parser.error == YAML_MEMORY_ERROR)
		return error_set(r->err, -ENOMEM, "%s: out of memory", r->name);
	const char *problem = r->parser.problem ? r->parser.problem : "not valid YAML";
	if (r->parser.error == YAML_READER_ERROR) {
		/* This error has an offset, not a line. */
		return error_set(r->err, -EINVAL, "%s: at byte %zu: %s; expected UTF-8 text", r->name,
			r->parser.problem_offset, problem);
	}
	return complain(r, r->parser.problem_mark.line + 1, "%s%s%s; expected lines of the form 'name: value'", problem,
		r->parser.context ? " " : "", r->parser.context ? r->parser.context : "");
}

static const char *kind_words(enum config_kind kind)
{
	switch (kind) {
	case CONFIG_KIND_TEXT:
		return "text";
	case CONFIG_KIND_PATH:
		return "the name of a file or folder";
	case CONFIG_KIND_SIZE:
		return "a size like 12G";
	case CONFIG_KIND_MB:
		return "a number of MB, or a size like 12G";
	case CONFIG_KIND_DURATION:
		return "a number of seconds, or a duration like 2h";
	case CONFIG_KIND_INTEGER:
		return "a whole number, 0 or more";
	case CONFIG_KIND_FLAG:
		return "true or false";
	case CONFIG_KIND_ACCESS:
		return "owner, group or all";
	case CONFIG_KIND_AFFINITY:
		return "gpu or none";
	}
	return "a value";
}

/* Text of the current scalar; NULL if the event is not a scalar, if it is null, or if it contains a NUL byte. */
static const char *scalar_text(const struct reader *r)
{
	if (r->event.type != YAML_SCALAR_EVENT)
		return NULL;
	const char *text = (const char *)r->event.data.scalar.value;
	if (strlen(text) != r->event.data.scalar.length)
		return NULL;
	bool plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	if (plain && (!*text || !strcmp(text, "~") || !strcasecmp(text, "null")))
		return NULL;
	return text;
}

/* On a command line the shell expands "~"; in a file we do. */
static char *expand_home(const char *path)
{
	const char *home = getenv("HOME");
	if (strncmp(path, "~/", 2) != 0 || !home || !*home)
		return strdup(path);
	struct text t = {0};
	text_appendf(&t, "%s%s", home, path + 1);
	return text_take(&t);
}

static int read_value(struct reader *r, enum config_key key)
{
	const struct config_row *row = &config_rows[key];
	const char *text = scalar_text(r);
	size_t line = event_line(r);
	if (!text)
		return complain(r, line, "%s: expected %s", row->name, kind_words(row->kind));
	bool quoted = r->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	if (quoted && (row->kind == CONFIG_KIND_INTEGER || row->kind == CONFIG_KIND_FLAG)) {
		char quote[DISPLAY_QUOTE_ROOM];
		return complain(r, line, "%s: \"%s\" is text; expected %s, without quotes", row->name,
			display_quote(text, quote), kind_words(row->kind));
	}
	cleanup_(freep) char *value = row->kind == CONFIG_KIND_PATH ? expand_home(text) : strdup(text);
	if (!value)
		return error_set(r->err, -ENOMEM, "%s: out of memory", r->name);
	struct gd_error why;
	if (config_set_value(&r->config, key, value, &why) < 0)
		return complain(r, line, "%s: %s", row->name, why.message);
	return 0;
}

static bool is_gpu_id(const char *text)
{
	return strspn(text, "0123456789") == strlen(text) || !strncmp(text, "GPU-", 4) || !strncmp(text, "MIG-", 4);
}

/* [0, 1] becomes "0,1"; a single 0 is accepted as a list of one. */
static int read_gpu_ids(struct reader *r)
{
	size_t line = event_line(r);
	cleanup_(text_finish) struct text spec = {0};
	bool list = r->event.type == YAML_SEQUENCE_START_EVENT;
	if (!list && !scalar_text(r))
		return complain(r, line, GPU_IDS ": expected a list of GPU numbers, like [0, 1]");
	for (;;) {
		int e = list ? next_event(r) : 0;
		if (e < 0)
			return e;
		if (list && r->event.type == YAML_SEQUENCE_END_EVENT)
			break;
		const char *text = scalar_text(r);
		char quote[DISPLAY_QUOTE_ROOM];
		if (!text || !*text || strchr(text, ',') || !is_gpu_id(text))
			return complain(r, event_line(r),
				GPU_IDS ": '%s' is not a GPU number; expected a list like [0, 1]%s",
				display_quote(text ? text : "", quote),
				list ? "" : "; for 'all' and the like use gpus");
		text_appendf(&spec, "%s%s", spec.length ? "," : "", text);
		if (!list)
			break;
	}
	if (text_error(&spec))
		return error_set(r->err, -ENOMEM, "%s: out of memory", r->name);
	struct gd_error why;
	if (!spec.length || config_set_value(&r->config, CONFIG_GPUS, text_string(&spec), &why) < 0)
		return complain(r, line, GPU_IDS ": empty list; omit the setting for all GPUs");
	return 0;
}

static int unknown_key(struct reader *r, const char *name)
{
	const char *names[CONFIG_KEYS + 1];
	for (enum config_key key = 0; key < CONFIG_KEYS; key++)
		names[key] = config_rows[key].name;
	names[CONFIG_KEYS] = GPU_IDS;
	const char *near = suggest(name, names, CONFIG_KEYS + 1);
	char quote[DISPLAY_QUOTE_ROOM];
	display_quote(name, quote);
	if (near)
		return complain(r, event_line(r), "unknown setting '%s'; did you mean '%s'?", quote, near);

	cleanup_(text_finish) struct text all = {0};
	for (size_t i = 0; i <= CONFIG_KEYS; i++)
		text_appendf(&all, "%s%s", i ? ", " : "", names[i]);
	return complain(r, event_line(r), "unknown setting '%s'; known settings: %s", quote, text_string(&all));
}

static int read_pair(struct reader *r)
{
	const char *name = scalar_text(r);
	if (!name)
		return complain(r, event_line(r), "expected the name of a setting, like 'log_dir: ./logs'");
	bool ids = !strcmp(name, GPU_IDS);
	enum config_key key = ids ? CONFIG_GPUS : 0;
	while (!ids && key < CONFIG_KEYS && strcmp(name, config_rows[key].name) != 0)
		key++;
	if (key == CONFIG_KEYS)
		return unknown_key(r, name);
	if (r->lines[key])
		return complain(r, event_line(r), "%s: already given in line %zu%s", name, r->lines[key],
			key == CONFIG_GPUS ? " (gpus and " GPU_IDS " are the same setting)" : "");
	r->lines[key] = event_line(r);
	int e = next_event(r);
	if (e < 0)
		return e;
	return ids ? read_gpu_ids(r) : read_value(r, key);
}

static int read_mapping(struct reader *r)
{
	for (;;) {
		int e = next_event(r);
		if (e < 0)
			return e;
		if (r->event.type == YAML_MAPPING_END_EVENT)
			return 0;
		e = read_pair(r);
		if (e < 0)
			return e;
	}
}

/* One document, which is a mapping, or an empty file. */
static int read_stream(struct reader *r)
{
	bool any = false;
	for (;;) {
		int e = next_event(r);
		if (e < 0)
			return e;
		switch (r->event.type) {
		case YAML_STREAM_START_EVENT:
		case YAML_DOCUMENT_END_EVENT:
			break;
		case YAML_STREAM_END_EVENT:
			return 0;
		case YAML_DOCUMENT_START_EVENT:
			if (any)
				return complain(r, event_line(r), "a second document begins here; expected only one");
			any = true;
			break;
		case YAML_MAPPING_START_EVENT:
			e = read_mapping(r);
			if (e < 0)
				return e;
			break;
		default:
			/* "---" with nothing after it is an empty scalar. */
			if (r->event.type == YAML_SCALAR_EVENT && !r->event.data.scalar.length)
				break;
			return complain(r, event_line(r), "expected lines of the form 'name: value'");
		}
	}
}

int config_parse(const char *name, const void *data, size_t size, struct config *ret, struct gd_error *err)
{
	struct reader r = {.name = name, .err = err};
	if (!yaml_parser_initialize(&r.parser))
		return error_set(err, -ENOMEM, "%s: out of memory", name);
	yaml_parser_set_input_string(&r.parser, data, size);
	int e = read_stream(&r);
	yaml_event_delete(&r.event);
	yaml_parser_delete(&r.parser);
	if (e < 0) {
		config_finish(&r.config);
		return e;
	}
	*ret = r.config;
	return 0;
}
