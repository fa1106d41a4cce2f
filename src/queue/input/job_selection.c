/* SPDX-License-Identifier: MIT */
#include "queue/input/job_selection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/display.h"
#include "base/error.h"

/* A larger range of ids is a mistake. */
#define WIDEST_RANGE 10000000
#define NAME_PREFIX  "name:"
#define TAG_PREFIX   "tag:"

void job_selection_finish(struct job_selection *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->terms[i].name);
	free(s->terms);
	*s = (struct job_selection){0};
}

static int parse_id(const char *text, char **ret_end, uint64_t *ret)
{
	errno = 0;
	if (*text < '0' || *text > '9')
		return -EINVAL;
	unsigned long long id = strtoull(text, ret_end, 10);
	if (errno || id == 0 || id > INT64_MAX)
		return -EINVAL;
	*ret = id;
	return 0;
}

/* "12", "12-15" or "g12". */
static bool parse_ids(const char *text, const char *end, struct job_term *ret)
{
	struct job_term t = {.kind = *text == 'g' ? JOB_TERM_GROUP : JOB_TERM_IDS};
	char *at;
	int r = parse_id(text + (t.kind == JOB_TERM_GROUP), &at, &t.from);
	t.to = t.from;
	if (r == 0 && t.kind == JOB_TERM_IDS && *at == '-')
		r = parse_id(at + 1, &at, &t.to);
	if (r < 0 || at != end || t.to < t.from || t.to - t.from > WIDEST_RANGE)
		return false;
	*ret = t;
	return true;
}

/* "@" or "@~3". */
static bool parse_last(const char *text, const char *end, struct job_term *ret)
{
	struct job_term t = {.kind = JOB_TERM_LAST, .name = NULL};
	char *at;
	if (text + 1 != end && (text[1] != '~' || parse_id(text + 2, &at, &t.from) < 0 || at != end))
		return false;
	*ret = t;
	return true;
}

/* Whether the term has this prefix and something after it. */
static bool has_prefix(const char *text, const char *end, const char *prefix)
{
	size_t size = strlen(prefix);
	return (size_t)(end - text) > size && strncmp(text, prefix, size) == 0;
}

static int set_name(struct job_term *t, enum job_term_kind kind, const char *name, const char *end)
{
	size_t size = (size_t)(end - name);
	if (kind == JOB_TERM_TAG && !job_tag_is_valid(name, size))
		return -EINVAL;
	*t = (struct job_term){.kind = kind, .name = strndup(name, size)};
	return t->name ? 0 : -ENOMEM;
}

/* Parses one term, which ends at `end`. -EINVAL if it looks like an id, a range, a tag or @ but is not valid. */
static int parse_term(const char *text, const char *end, struct job_term *ret)
{
	if (has_prefix(text, end, NAME_PREFIX))
		return set_name(ret, JOB_TERM_NAME, text + strlen(NAME_PREFIX), end);
	if (strncmp(text, TAG_PREFIX, strlen(TAG_PREFIX)) == 0)
		return set_name(ret, JOB_TERM_TAG, text + strlen(TAG_PREFIX), end);
	if (parse_ids(text, end, ret))
		return 0;
	if (*text == '@')
		return parse_last(text, end, ret) ? 0 : -EINVAL;
	if (text == end || text + strspn(text, "0123456789-") >= end)
		return -EINVAL;
	return set_name(ret, JOB_TERM_NAME, text, end);
}

int job_selection_add(struct job_selection *s, const char *text, struct gd_error *err)
{
	for (const char *p = text;; p++) {
		char quote[DISPLAY_QUOTE_ROOM];
		const char *end = strchrnul(p, ',');
		struct job_term term;
		int r = array_reserve(s->terms, &s->capacity, s->count + 1);
		if (r == 0)
			r = parse_term(p, end, &term);
		if (r == -EINVAL)
			return error_set(err, r,
				"'%s' is not a job; expected an id (12, 12-15 or 12,14), @ or @~1 (the last jobs), a name, "
				"a group (g12) or tag:NAME",
				display_quote(text, quote));
		if (r < 0)
			return error_set(err, r, "job '%s': out of memory", display_quote(text, quote));
		s->terms[s->count++] = term;
		p = end;
		if (!*p)
			return 0;
	}
}

bool job_selection_is_name(const char *text)
{
	struct job_term t;
	if (strchr(text, ',') || strncmp(text, NAME_PREFIX, strlen(NAME_PREFIX)) == 0)
		return false;
	int r = parse_term(text, text + strlen(text), &t);
	bool is_name = r == 0 && t.kind == JOB_TERM_NAME;
	if (r == 0)
		free(t.name);
	return is_name || r == -ENOMEM;
}

bool job_selection_is_plain(const struct job_selection *s)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->terms[i].kind != JOB_TERM_IDS)
			return false;
	return true;
}

static bool is_in_set(const struct job_term *t, const struct job *job)
{
	if (t->kind == JOB_TERM_GROUP)
		return job->group == t->from;
	if (t->kind == JOB_TERM_TAG)
		return job_has_tag(job, t->name, strlen(t->name));
	return job->name && strcmp(job->name, t->name) == 0;
}

static size_t count_set(const struct job_term *t, const struct jobs *js)
{
	size_t n = 0;
	for (size_t i = 0; i < js->count; i++)
		n += is_in_set(t, js->by_id[i]);
	return n;
}

static int add_set(const struct job_term *t, const struct jobs *js, struct id_list *ret)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < js->count; i++)
		if (is_in_set(t, js->by_id[i]))
			r = id_list_add(ret, js->by_id[i]->id);
	return r;
}

/* Whether a term names jobs individually. A name does if only one job has it. */
static bool names_each(const struct job_term *t, const struct jobs *js)
{
	return t->kind == JOB_TERM_IDS || t->kind == JOB_TERM_LAST ||
	       (t->kind == JOB_TERM_NAME && count_set(t, js) == 1);
}

static int add_each(const struct job_term *t, const struct jobs *js, struct id_list *ret)
{
	int r = 0;
	if (t->kind == JOB_TERM_NAME)
		return add_set(t, js, ret);
	if (t->kind == JOB_TERM_LAST)
		return js->count > t->from ? id_list_add(ret, js->by_id[js->count - 1 - t->from]->id) : -ENOENT;
	for (uint64_t id = t->from; r == 0 && id <= t->to; id++)
		r = id_list_add(ret, id);
	return r;
}

static int explain(const struct job_term *t, const struct jobs *js, int r, struct gd_error *err)
{
	char quote[DISPLAY_QUOTE_ROOM];
	if (r != -ENOENT)
		return error_set(err, r, "cannot select the jobs: out of memory");
	switch (t->kind) {
	case JOB_TERM_GROUP:
		return error_set(err, r, "group g%" PRIu64 ": no such group", t->from);
	case JOB_TERM_TAG:
		return error_set(err, r, TAG_PREFIX "%s: no job has this tag", t->name);
	case JOB_TERM_LAST:
		return js->count == 0 ? error_set(err, r, "there is no last job: the queue is empty")
				      : error_set(err, r, "job '@~%" PRIu64 "': the queue has %zu job%s", t->from,
						js->count, js->count == 1 ? "" : "s");
	case JOB_TERM_IDS:
	case JOB_TERM_NAME:
		break;
	}
	return error_set(err, r, "job '%s': no job has this id or name; 'gpuq status' lists all jobs",
		display_quote(t->name, quote));
}

int job_selection_resolve(const struct job_selection *s, const struct jobs *js, struct id_list *ret,
	size_t *ret_num_named, struct gd_error *err)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct job_term *t = &s->terms[i];
		int r = names_each(t, js) ? add_each(t, js, ret) : 0;
		if (r < 0)
			return explain(t, js, r, err);
	}
	if (ret_num_named)
		*ret_num_named = ret->count;
	for (size_t i = 0; i < s->count; i++) {
		const struct job_term *t = &s->terms[i];
		if (names_each(t, js))
			continue;
		int r = count_set(t, js) == 0 ? -ENOENT : add_set(t, js, ret);
		if (r < 0)
			return explain(t, js, r, err);
	}
	return 0;
}
