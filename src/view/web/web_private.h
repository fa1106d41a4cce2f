/* SPDX-License-Identifier: MIT */
/* Shared by the parts of the page's server. */
#ifndef VIEW_WEB_WEB_PRIVATE_H
#define VIEW_WEB_WEB_PRIVATE_H

#include <microhttpd.h>

#include "base/text.h"
#include "view/web/timeline.h"
#include "view/web/web.h"
#include "view/web/web_callers.h"
#include "view/web/web_json.h"
#include "view/web/web_listen.h"

#define WEB_CACHE 8

/* The cached rows of one query, as of the last change of jobs: ten pages with the same query select once. */
struct web_rows {
	char *key; /* NULL: not used yet */
	uint64_t generation;
	int64_t total;
	const struct view_job **jobs; /* valid while the generation is the current one */
	size_t count;
};

/* The timeline of the last `minutes` as JSON: pages that show the same span share it. */
struct web_timeline {
	int minutes; /* 0: not used yet */
	uint64_t generation;
	uint64_t next_ns; /* not rebuilt before this time */
	struct text json;
	uint64_t serial; /* incremented with every build */
};

struct web_stream;

struct web {
	struct web_options options;
	struct web_place place;
	struct loop *loop;
	struct MHD_Daemon *daemon;
	struct loop_source *source; /* the daemon's epoll descriptor */
	struct loop_source *door;   /* the listening socket */
	struct loop_source *timer;  /* the daemon's own timeouts */
	struct loop_source *patrol; /* for deadlines of callers */
	struct web_callers callers;
	struct web_caller *arriving; /* while the daemon takes over a connection */
	struct loop_source *tick;    /* for the streams */
	int64_t offset_ns;
	uint64_t jobs_version; /* of the model, when jobs were last checked */
	uint64_t generation;   /* grows with every change of any job */
	uint64_t tick_ns;      /* when the next tick is due; 0: none */
	uint64_t told_ns;      /* when streams were last woken */
	uint64_t beat_ns;
	struct web_stream *streams;
	struct web_rows rows[WEB_CACHE];
	size_t next_rows;
	struct web_timeline timelines[WEB_CACHE];
	size_t next_timeline;
	uint64_t num_requests, num_refused; /* for the metrics */
};

void web_now(const struct web *w, struct web_clock *ret);

/* A loop_fn: runs the daemon, and sets the timer to its next timeout. */
void web_run(void *web, uint32_t events);

/* ---- Connections (web_door.c) ---------------------------------------------------- */

/* Accepts on w->place from here on. */
int web_door_open(struct web *w);
void web_door_close(struct web *w);
/* An MHD_NotifyConnectionCallback: the daemon has taken over a connection, or closed it. */
void web_door_notify(
	void *web, struct MHD_Connection *c, void **socket_context, enum MHD_ConnectionNotificationCode code);
/* Never NULL for a connection that has a request. */
struct web_caller *web_caller_of(struct MHD_Connection *c);

/* ---- Answers (web.c) ------------------------------------------------------------ */

/* Queues a response with the common headers; takes ownership of the response. */
enum MHD_Result web_answer(struct MHD_Connection *c, unsigned code, const char *type, struct MHD_Response *response);
/* Answers with text, which is copied. */
enum MHD_Result web_answer_text(struct MHD_Connection *c, unsigned code, const char *type, const struct text *t);
/* {"error": "…"} */
enum MHD_Result web_answer_error(struct MHD_Connection *c, unsigned code, const char *words);

/* ---- Requests (web_api.c) --------------------------------------------------------- */

/* "12" or "12/log" after /api/jobs/. may_act: the token was given. */
enum MHD_Result web_api_job(struct web *w, struct MHD_Connection *c, const char *rest, bool post, bool may_act);
enum MHD_Result web_api_metrics(struct web *w, struct MHD_Connection *c);

/* ---- Streams (web_stream.c) --------------------------------------------------------- */

enum MHD_Result web_stream_open(struct web *w, struct MHD_Connection *c, bool may_act);
/* Something has changed: wakes waiting streams soon. */
void web_stream_wake(struct web *w);
/* A loop_fn: wakes the streams that have news. */
void web_stream_tick(void *web, uint32_t events);
/* Before the daemon is stopped: no connection may be left suspended. */
void web_stream_end_all(struct web *w);

/* ---- Caches shared by streams (web_cache.c) -------------------------------------------- */

/* NULL: out of memory. */
const struct web_rows *web_cache_rows(struct web *w, const struct web_query *q, const char *key);
const struct web_timeline *web_cache_timeline(struct web *w, int minutes);
void web_cache_finish(struct web *w);

#endif
