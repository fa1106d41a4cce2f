/* SPDX-License-Identifier: MIT */
/* Requests about one job: its facts, log and environment; and actions on it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json_put.h"
#include "base/units.h"
#include "view/web/metrics.h"
#include "view/web/web_private.h"
#include "view/web/web_range.h"

/* The most bytes of a log per request: a log may have gigabytes. */
#define LOG_LIMIT ((uint64_t)1 << 20)
#define LOG_TAIL  ((uint64_t)64 << 10)

static unsigned code_of(int error)
{
	switch (error) {
	case -ENOENT:
		return MHD_HTTP_NOT_FOUND;
	case -EPERM:
	case -EACCES:
	case -EROFS:
		return MHD_HTTP_FORBIDDEN;
	case -EINVAL:
	case -EALREADY:
		return MHD_HTTP_CONFLICT;
	default:
		return MHD_HTTP_INTERNAL_SERVER_ERROR;
	}
}

static enum MHD_Result answer_failure(struct MHD_Connection *c, int error, const struct gd_error *err)
{
	return web_answer_error(c, code_of(error), *err->message ? err->message : "failed");
}

static enum MHD_Result answer_json(struct MHD_Connection *c, const struct text *t)
{
	return web_answer_text(c, MHD_HTTP_OK, "application/json", t);
}

/* ---- Facts ----------------------------------------------------------------------------- */

static enum MHD_Result describe(struct web *w, struct MHD_Connection *c, const struct view_job *job, bool may_act)
{
	cleanup_(text_finish) struct text t = {0};
	cleanup_(text_finish) struct text why = {0};
	struct gd_error err = {0};
	bool waits = job->state == VIEW_JOB_PENDING || job->state == VIEW_JOB_HELD;
	json_open(&t, NULL, '{');
	web_put_job(&t, job);
	json_put_bool(&t, "may_act", may_act);
	if (waits && w->options.actions->why(w->options.actions->context, job->id, &why, &err) < 0)
		json_put_string(&t, "why", err.message);
	else if (waits)
		json_put_string(&t, "why", text_string(&why));
	else
		json_put_null(&t, "why");
	json_close(&t, '}');
	return answer_json(c, &t);
}

static enum MHD_Result environment(struct web *w, struct MHD_Connection *c, uint64_t id)
{
	cleanup_(text_finish) struct text t = {0};
	cleanup_(freep) char *data = NULL;
	struct gd_error err = {0};
	size_t size = 0;
	int r = w->options.actions->environment(w->options.actions->context, id, &data, &size, &err);
	if (r < 0)
		return answer_failure(c, r, &err);
	json_open(&t, NULL, '[');
	for (size_t at = 0; at < size; at += strlen(data + at) + 1)
		json_put_string(&t, NULL, data + at);
	json_close(&t, ']');
	return answer_json(c, &t);
}

/* ---- The log ------------------------------------------------------------------------------ */

static enum MHD_Result answer_range(
	struct MHD_Connection *c, int *fd, uint64_t from, uint64_t to, uint64_t size, unsigned attempt)
{
	char range[96], number[16];
	struct MHD_Response *r = MHD_create_response_from_fd_at_offset64(to - from, *fd, from);
	if (!r)
		return MHD_NO;
	take_fd(fd);
	if (to > from)
		snprintf(range, sizeof(range), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from, to - 1, size);
	else
		snprintf(range, sizeof(range), "bytes */%" PRIu64, size);
	snprintf(number, sizeof(number), "%u", attempt);
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_RANGE, range);
	MHD_add_response_header(r, "X-Log-Attempt", number);
	/* Never text/html and never rendered by the browser: the output of a job is data. */
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_DISPOSITION, "attachment; filename=\"log\"");
	return web_answer(c, MHD_HTTP_PARTIAL_CONTENT, "application/octet-stream", r);
}

static enum MHD_Result answer_behind(struct MHD_Connection *c, uint64_t size)
{
	char range[64];
	struct MHD_Response *r = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	if (!r)
		return MHD_NO;
	snprintf(range, sizeof(range), "bytes */%" PRIu64, size);
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_RANGE, range);
	return web_answer(c, MHD_HTTP_RANGE_NOT_SATISFIABLE, "application/octet-stream", r);
}

static enum MHD_Result show_log(struct web *w, struct MHD_Connection *c, const struct view_job *job)
{
	const char *header = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_RANGE);
	const char *which = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "attempt");
	int64_t attempt = 0;
	cleanup_(closep) int fd = -1;
	struct gd_error err = {0};
	struct stat st;
	if (which && units_parse_integer(which, 0, UINT32_MAX, &attempt, NULL) < 0)
		return web_answer_error(c, MHD_HTTP_BAD_REQUEST, "attempt: not a number, or too large");
	if (attempt > (int64_t)job->num_attempts)
		return web_answer_error(c, MHD_HTTP_NOT_FOUND, "no such attempt");
	if (attempt == 0)
		attempt = job->num_attempts;
	int r = w->options.actions->open_log(w->options.actions->context, job->id, (unsigned)attempt, &fd, &err);
	if (r == 0 && fstat(fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return answer_failure(c, r, &err);
	uint64_t from, to, size = (uint64_t)st.st_size;
	r = web_range_parse(header, size, header ? LOG_LIMIT : LOG_TAIL, &from, &to);
	if (r == -ERANGE)
		return answer_behind(c, size);
	if (r < 0)
		return web_answer_error(
			c, MHD_HTTP_BAD_REQUEST, "Range: expected a form like bytes=5-9, bytes=5- or bytes=-100");
	return answer_range(c, &fd, from, to, size, (unsigned)attempt);
}

/* ---- Acting ---------------------------------------------------------------------------------- */

static enum MHD_Result act(struct web *w, struct MHD_Connection *c, uint64_t id, const char *word)
{
	cleanup_(text_finish) struct text t = {0};
	struct gd_error err = {0};
	size_t done = 0;
	int action = view_action_parse(word);
	if (action < 0)
		return web_answer_error(c, MHD_HTTP_NOT_FOUND, "no such action");
	int r = w->options.actions->act(w->options.actions->context, (enum view_action)action, &id, 1, &done, &err);
	if (r < 0)
		return answer_failure(c, r, &err);
	json_open(&t, NULL, '{');
	json_put_int(&t, "done", (int64_t)done);
	json_close(&t, '}');
	return answer_json(c, &t);
}

enum MHD_Result web_api_job(struct web *w, struct MHD_Connection *c, const char *rest, bool post, bool may_act)
{
	char number[24];
	int64_t parsed;
	size_t n = strcspn(rest, "/");
	snprintf(number, sizeof(number), "%.*s", n < sizeof(number) ? (int)n : 0, rest);
	if (units_parse_integer(number, 1, INT64_MAX, &parsed, NULL) < 0)
		return web_answer_error(c, MHD_HTTP_NOT_FOUND, "no such page");
	uint64_t id = (uint64_t)parsed;
	const char *what = rest[n] ? rest + n + 1 : "";
	if (post || strcmp(what, "environment") == 0) {
		if (!may_act)
			return web_answer_error(c, MHD_HTTP_UNAUTHORIZED,
				"a token is required; open the address that 'gpuq web' printed");
		return post ? act(w, c, id, what) : environment(w, c, id);
	}
	const struct view_job *job = view_find_job(w->options.model, id);
	if (!job)
		return web_answer_error(c, MHD_HTTP_NOT_FOUND, "no such job");
	if (!*what)
		return describe(w, c, job, may_act);
	if (strcmp(what, "log") == 0)
		return show_log(w, c, job);
	return web_answer_error(c, MHD_HTTP_NOT_FOUND, "no such page");
}

enum MHD_Result web_api_metrics(struct web *w, struct MHD_Connection *c)
{
	cleanup_(text_finish) struct text t = {0};
	struct view_facts facts = {0};
	struct web_clock now;
	web_now(w, &now);
	w->options.actions->facts(w->options.actions->context, &facts);
	metrics_put(&t, w->options.model, &facts, now.now_ms);
	return web_answer_text(c, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", &t);
}
