/* SPDX-License-Identifier: MIT */
/*
 * The event stream of an open page.
 *
 * Nothing is queued for a stream. When its connection is writable, the stream writes all changes since its last write,
 * so a slow stream skips intermediate states. In between it is suspended, and woken by the tick.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json_put.h"
#include "base/units.h"
#include "view/web/web_private.h"

#define TICK_NS (250 * NS_PER_MS)
/* Delay of the first news after a quiet time, to combine it with further news. */
#define SOON_NS (15 * NS_PER_MS)
/* The daemon does not report the end of a suspended connection: only a write detects it. */
#define BEAT_NS (15 * NS_PER_S)
#define BLOCK   16384

struct sent_row {
	uint64_t id, version;
};

struct web_stream {
	struct web *web;
	struct web_stream *next, *previous;
	struct MHD_Connection *connection;
	bool suspended;
	bool ended;
	bool may_act;
	bool beat;
	struct web_query query;
	char *search;
	char key[400];
	int minutes;
	/* What has been sent. */
	uint64_t model_version;
	uint64_t generation; /* at which rows were compared */
	bool has_rows;
	struct sent_row *rows;
	size_t num_rows;
	int64_t total;
	int64_t sample_ms;
	uint64_t timeline_serial;
	/* The job being viewed, and its log. */
	uint64_t job_id, job_version;
	unsigned attempt;
	int log_fd;
	size_t log_attempt; /* the attempt whose log is open */
	int64_t log_size;
	uint64_t log_retry_ns;
	/* Data being sent. */
	struct text out;
	size_t out_taken;
};

/* ---- The job being viewed ------------------------------------------------------------ */

static void open_log(struct web_stream *s, const struct view_job *job)
{
	struct web *w = s->web;
	uint64_t now_ns = clock_now_ns();
	size_t attempt = s->attempt ? s->attempt : job->num_attempts;
	if (attempt == 0 || (s->log_fd >= 0 && s->log_attempt == attempt) ||
		(s->log_fd < 0 && now_ns < s->log_retry_ns))
		return;
	closep(&s->log_fd);
	s->log_fd = -1;
	s->log_size = -1;
	s->log_retry_ns = now_ns + NS_PER_S;
	int fd;
	if (w->options.actions->open_log(w->options.actions->context, job->id, (unsigned)attempt, &fd, NULL) == 0) {
		s->log_fd = fd;
		s->log_attempt = attempt;
	}
}

/* Whether the log has grown since it was last reported. */
static bool log_has_news(struct web_stream *s)
{
	struct stat st;
	const struct view_job *job = s->job_id ? view_find_job(s->web->options.model, s->job_id) : NULL;
	if (!job)
		return false;
	open_log(s, job);
	return s->log_fd >= 0 && fstat(s->log_fd, &st) == 0 && st.st_size != s->log_size;
}

static void put_log(struct web_stream *s)
{
	struct stat st;
	if (!log_has_news(s) || fstat(s->log_fd, &st) < 0)
		return;
	s->log_size = st.st_size;
	text_append_string(&s->out, "event:log\ndata:");
	json_open(&s->out, NULL, '{');
	json_put_int(&s->out, "id", (int64_t)s->job_id);
	json_put_int(&s->out, "attempt", (int64_t)s->log_attempt);
	json_put_int(&s->out, "size", s->log_size);
	json_close(&s->out, '}');
	text_append_string(&s->out, "\n\n");
}

static void put_job(struct web_stream *s)
{
	const struct view_job *job = s->job_id ? view_find_job(s->web->options.model, s->job_id) : NULL;
	uint64_t version = job ? job->version : 0;
	if (!s->job_id || version == s->job_version)
		return;
	s->job_version = version;
	text_appendf(
		&s->out, "event:job\ndata:{\"id\":%" PRIu64 ",\"there\":%s}\n\n", s->job_id, job ? "true" : "false");
}

/* ---- State, rows, timeline -------------------------------------------------------------- */

static void put_state(struct web_stream *s)
{
	struct web *w = s->web;
	const struct view_model *m = w->options.model;
	struct view_facts facts = {0};
	struct web_clock now;
	if (s->model_version == view_version(m))
		return;
	web_now(w, &now);
	w->options.actions->facts(w->options.actions->context, &facts);
	text_append_string(&s->out, "event:state\ndata:");
	web_put_state(&s->out, m, &facts, s->may_act, &now, s->sample_ms);
	text_append_string(&s->out, "\n\n");
	s->model_version = view_version(m);
	for (size_t i = 0; i < view_num_gpus(m); i++) {
		struct view_sample last;
		if (view_history(m, view_gpu(m, i)->id, &last, 1) && last.time_ms > s->sample_ms)
			s->sample_ms = last.time_ms;
	}
}

static bool was_sent(const struct web_stream *s, size_t i, const struct view_job *job)
{
	/* The row is usually at the same place. */
	if (i < s->num_rows && s->rows[i].id == job->id)
		return s->rows[i].version == job->version;
	for (size_t k = 0; k < s->num_rows; k++)
		if (s->rows[k].id == job->id)
			return s->rows[k].version == job->version;
	return false;
}

static bool rows_are_sent(const struct web_stream *s, const struct web_rows *rows)
{
	if (!s->has_rows || s->total != rows->total || s->num_rows != rows->count)
		return false;
	for (size_t i = 0; i < rows->count; i++)
		if (s->rows[i].id != rows->jobs[i]->id || s->rows[i].version != rows->jobs[i]->version)
			return false;
	return true;
}

static void put_rows(struct web_stream *s)
{
	struct web *w = s->web;
	if (s->has_rows && s->generation == w->generation)
		return;
	struct web_clock now;
	web_now(w, &now);
	s->query.selection.now_ms = now.now_ms;
	const struct web_rows *rows = web_cache_rows(w, &s->query, s->key);
	struct sent_row *sent = rows ? calloc(rows->count + 1, sizeof(*sent)) : NULL;
	if (!sent) {
		s->ended = true;
		return;
	}
	s->generation = w->generation;
	if (rows_are_sent(s, rows)) {
		free(sent);
		return;
	}
	text_append_string(&s->out, "event:rows\ndata:");
	json_open(&s->out, NULL, '{');
	json_put_int(&s->out, "total", rows->total);
	json_put_int(&s->out, "offset", (int64_t)s->query.offset);
	json_open(&s->out, "ids", '[');
	for (size_t i = 0; i < rows->count; i++)
		json_put_int(&s->out, NULL, (int64_t)rows->jobs[i]->id);
	json_close(&s->out, ']');
	json_open(&s->out, "rows", '[');
	for (size_t i = 0; i < rows->count; i++) {
		sent[i] = (struct sent_row){rows->jobs[i]->id, rows->jobs[i]->version};
		if (!was_sent(s, i, rows->jobs[i]))
			web_put_row(&s->out, rows->jobs[i]);
	}
	json_close(&s->out, ']');
	json_close(&s->out, '}');
	text_append_string(&s->out, "\n\n");
	free(s->rows);
	s->rows = sent;
	s->num_rows = rows->count;
	s->total = rows->total;
	s->has_rows = true;
}

static void put_timeline(struct web_stream *s)
{
	const struct web_timeline *timeline = s->minutes ? web_cache_timeline(s->web, s->minutes) : NULL;
	if (!timeline || timeline->serial == s->timeline_serial)
		return;
	s->timeline_serial = timeline->serial;
	text_append_string(&s->out, "event:timeline\ndata:");
	text_append(&s->out, timeline->json.data, timeline->json.length);
	text_append_string(&s->out, "\n\n");
}

/* Whether the page shows an old timeline and may get a new one now. */
static bool timeline_is_due(const struct web_stream *s)
{
	const struct web *w = s->web;
	for (size_t i = 0; s->minutes && i < WEB_CACHE; i++)
		if (w->timelines[i].minutes == s->minutes)
			return w->timelines[i].serial != s->timeline_serial ||
			       (w->timelines[i].generation != w->generation &&
				       clock_now_ns() >= w->timelines[i].next_ns);
	return false;
}

static void put_news(struct web_stream *s)
{
	put_state(s);
	put_rows(s);
	put_job(s);
	put_log(s);
	put_timeline(s);
	if (s->beat && s->out.length == 0)
		text_append_string(&s->out, ":\n\n");
	s->beat = false;
}

/* ---- The connection ------------------------------------------------------------------------ */

static ssize_t read_stream(void *context, uint64_t position, char *buf, size_t max)
{
	struct web_stream *s = context;
	(void)position;
	if (s->out_taken == s->out.length) {
		text_clear(&s->out);
		s->out_taken = 0;
		if (!s->ended)
			put_news(s);
		if (s->ended || text_error(&s->out))
			return MHD_CONTENT_READER_END_OF_STREAM;
	}
	size_t n = s->out.length - s->out_taken;
	if (n == 0) {
		s->suspended = true;
		MHD_suspend_connection(s->connection);
		return 0;
	}
	if (n > max)
		n = max;
	memcpy(buf, s->out.data + s->out_taken, n);
	s->out_taken += n;
	return (ssize_t)n;
}

static void free_stream(void *context)
{
	struct web_stream *s = context;
	struct web *w = s->web;
	if (s->previous)
		s->previous->next = s->next;
	else
		w->streams = s->next;
	if (s->next)
		s->next->previous = s->previous;
	closep(&s->log_fd);
	text_finish(&s->out);
	free(s->rows);
	free(s->search);
	free(s);
}

static const char *argument(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, name);
}

/* -1: not a number, or too large. */
static int64_t number(struct MHD_Connection *c, const char *name, int64_t otherwise, int64_t max)
{
	const char *text = argument(c, name);
	int64_t n;
	if (!text || !*text)
		return otherwise;
	return units_parse_integer(text, 0, max, &n, NULL) < 0 ? -1 : n;
}

/* The error message for an invalid query, or NULL. */
static const char *parse_query(struct web_stream *s, struct MHD_Connection *c)
{
	const char *search = argument(c, "search"), *reverse = argument(c, "reverse");
	int states = web_parse_states(argument(c, "states"));
	int64_t offset = number(c, "offset", 0, 100000000), limit = number(c, "limit", 100, WEB_MAX_ROWS);
	int64_t minutes = number(c, "minutes", 60, 60 * 24 * 366), since = number(c, "since", 0, INT64_MAX);
	int64_t job = number(c, "job", 0, INT64_MAX), attempt = number(c, "attempt", 0, 1000000);
	if (states < 0)
		return "states: not a list of states";
	if (web_parse_order(argument(c, "order"), &s->query) < 0)
		return "order: unknown";
	if (offset < 0 || limit < 0 || minutes < 0 || since < 0 || job < 0 || attempt < 0)
		return "offset, limit, minutes, since, job, attempt: not a number, or too large";
	if (search && strlen(search) > 200)
		return "search: too long";
	s->search = strdup(search ? search : "");
	if (!s->search)
		return "out of memory";
	s->query.selection.states = (unsigned)states;
	s->query.selection.text = s->search;
	s->query.selection.reverse = reverse && strcmp(reverse, "1") == 0;
	s->query.offset = (size_t)offset;
	s->query.limit = (size_t)limit;
	s->minutes = (int)minutes;
	s->sample_ms = since;
	s->job_id = (uint64_t)job;
	s->attempt = (unsigned)attempt;
	snprintf(s->key, sizeof(s->key), "%d %d %d %d %zu %zu %s", states, s->query.usual,
		(int)s->query.selection.order, s->query.selection.reverse, s->query.offset, s->query.limit, s->search);
	return NULL;
}

enum MHD_Result web_stream_open(struct web *w, struct MHD_Connection *c, bool may_act)
{
	struct web_stream *s = calloc(1, sizeof(*s));
	if (!s)
		return MHD_NO;
	*s = (struct web_stream){.web = w, .connection = c, .may_act = may_act, .log_fd = -1, .log_size = -1};
	const char *wrong = parse_query(s, c);
	bool full = !wrong && !web_callers_begin_stream(&w->callers, web_caller_of(c));
	struct MHD_Response *r =
		wrong || full ? NULL
			      : MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, s, free_stream);
	if (!r) {
		free(s->search);
		free(s);
		if (full)
			return web_answer_error(c, MHD_HTTP_SERVICE_UNAVAILABLE, "too many pages are open; close some");
		return wrong ? web_answer_error(c, MHD_HTTP_BAD_REQUEST, wrong) : MHD_NO;
	}
	s->next = w->streams;
	if (s->next)
		s->next->previous = s;
	w->streams = s;
	web_stream_wake(w);
	return web_answer(c, MHD_HTTP_OK, "text/event-stream; charset=utf-8", r);
}

/* ---- The tick --------------------------------------------------------------------------------- */

static bool has_news(struct web_stream *s)
{
	return s->beat || s->model_version != view_version(s->web->options.model) || timeline_is_due(s) ||
	       log_has_news(s);
}

static void wake(struct web_stream *s)
{
	if (!s->suspended)
		return;
	s->suspended = false;
	MHD_resume_connection(s->connection);
}

static void tick_at(struct web *w, uint64_t deadline_ns)
{
	if (!w->streams || (w->tick_ns && w->tick_ns <= deadline_ns))
		return;
	w->tick_ns = deadline_ns;
	loop_set_deadline(w->tick, deadline_ns);
}

void web_stream_wake(struct web *w)
{
	uint64_t soon_ns = clock_now_ns() + SOON_NS, next_ns = w->told_ns + TICK_NS;
	tick_at(w, next_ns > soon_ns ? next_ns : soon_ns);
}

void web_stream_tick(void *context, uint32_t events)
{
	struct web *w = context;
	uint64_t now_ns = clock_now_ns();
	(void)events;
	bool beat = now_ns >= w->beat_ns;
	if (beat)
		w->beat_ns = now_ns + BEAT_NS;
	for (struct web_stream *s = w->streams; s; s = s->next) {
		s->beat = s->beat || beat;
		if (!s->suspended || !has_news(s))
			continue;
		wake(s);
		w->told_ns = now_ns;
	}
	/* Keep ticking while pages are open: growing logs, the timeline and dead connections cause no other event. */
	w->tick_ns = 0;
	tick_at(w, now_ns + TICK_NS);
	web_run(w, 0);
}

void web_stream_end_all(struct web *w)
{
	for (struct web_stream *s = w->streams; s; s = s->next) {
		s->ended = true;
		wake(s);
	}
}
