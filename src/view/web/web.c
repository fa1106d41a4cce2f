/* SPDX-License-Identifier: MIT */
#include "view/web/web.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/json_put.h"
#include "view/model/palette.h"
#include "view/web/web_gate.h"
#include "view/web/web_page.h"
#include "view/web/web_private.h"

#define CONNECTION_ROOM 32768 /* including the headers of a request: longer ones are refused */
#define IDLE_S          30    /* without a byte sent or received: a page that does not read its stream */
#define MAX_BODY        4096
#define MAX_URL         2048

void web_now(const struct web *w, struct web_clock *ret)
{
	*ret = (struct web_clock){.now_ms = date_now_ms(), .now_ns = clock_now_ns(), .offset_ns = w->offset_ns};
}

/* ---- Answers ------------------------------------------------------------------------- */

/* Allow only content from this server, only scripts that are our files, and no frames. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
			     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

enum MHD_Result web_answer(struct MHD_Connection *c, unsigned code, const char *type, struct MHD_Response *response)
{
	static const struct {
		const char *name, *value;
	} headers[] = {
		{"Content-Security-Policy", policy},
		{"X-Content-Type-Options", "nosniff"},
		{"X-Frame-Options", "DENY"},
		{"Referrer-Policy", "no-referrer"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{"Cross-Origin-Opener-Policy", "same-origin"},
		{"Cache-Control", "no-store"},
	};
	if (!response)
		return MHD_NO;
	for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++)
		MHD_add_response_header(response, headers[i].name, headers[i].value);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (code == MHD_HTTP_UNAUTHORIZED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	enum MHD_Result r = MHD_queue_response(c, code, response);
	MHD_destroy_response(response);
	return r;
}

enum MHD_Result web_answer_text(struct MHD_Connection *c, unsigned code, const char *type, const struct text *t)
{
	if (text_error(t))
		return MHD_NO;
	return web_answer(c, code, type,
		MHD_create_response_from_buffer(t->length, (void *)(uintptr_t)text_string(t), MHD_RESPMEM_MUST_COPY));
}

enum MHD_Result web_answer_error(struct MHD_Connection *c, unsigned code, const char *words)
{
	cleanup_(text_finish) struct text t = {0};
	json_open(&t, NULL, '{');
	json_put_string(&t, "error", words);
	json_close(&t, '}');
	return web_answer_text(c, code, "application/json", &t);
}

/* ---- The gate ---------------------------------------------------------------------------- */

struct request {
	size_t body; /* bytes received */
};

static const char *header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* Whether the Host header is the numeric local address of the connection: DNS rebinding needs a name. */
static bool is_own_address(struct MHD_Connection *c, const char *host)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	char name[64];
	const char *names[] = {name};
	return info && web_local_name(info->connect_fd, name, sizeof(name)) == 0 && web_host_allowed(host, names, 1);
}

static bool host_is_ours(const struct web *w, struct MHD_Connection *c, const char *host)
{
	const char *listening[] = {w->place.host};
	return web_host_allowed(host, listening, 1) || (w->place.site[0] && web_host_is_site(host)) ||
	       web_host_allowed(host, w->options.hosts, w->options.num_hosts) || is_own_address(c, host);
}

static bool is_page(const char *url)
{
	return strncmp(url, "/api/", 5) != 0 && strcmp(url, "/metrics") != 0;
}

/*
 * Whether the page may be shown under this name. If this start of the server has its own name (see struct web_place),
 * plain names of loopback are refused, unless the page needs no token, the user allowed the name with --host, or the
 * server listens on a Unix socket: then the port belongs to the user's own ssh.
 */
static bool shows_page(const struct web *w, const char *host)
{
	return !w->place.site[0] || w->place.path[0] || w->options.open_read || !web_host_is_plain(host) ||
	       web_host_is_named(host, w->options.hosts, w->options.num_hosts);
}

static enum MHD_Result refuse(struct web *w, struct MHD_Connection *c, unsigned code, const char *words)
{
	w->num_refused++;
	return web_answer_error(c, code, words);
}

/* Whether the request may continue; otherwise it has been answered with *ret. Does not check the token. */
static bool pass_gate(struct web *w, struct MHD_Connection *c, const char *url, bool post, enum MHD_Result *ret)
{
	const char *host = header(c, MHD_HTTP_HEADER_HOST);
	if (!host_is_ours(w, c, host)) {
		*ret = refuse(
			w, c, MHD_HTTP_MISDIRECTED_REQUEST, "unknown host name; allow it with 'gpuq web --host NAME'");
		return false;
	}
	if (is_page(url) && !shows_page(w, host)) {
		*ret = refuse(w, c, MHD_HTTP_MISDIRECTED_REQUEST,
			"this host name cannot be used; open the address that 'gpuq web' printed");
		return false;
	}
	/* A link on another site may open the page itself: the page contains no data and cannot be framed. */
	bool navigates = is_page(url) && !post;
	if ((!navigates && !web_site_allowed(header(c, "Sec-Fetch-Site"))) ||
		!web_origin_allowed(header(c, MHD_HTTP_HEADER_ORIGIN), host)) {
		*ret = refuse(w, c, MHD_HTTP_FORBIDDEN, "requests from other sites are refused");
		return false;
	}
	return true;
}

/* ---- Routing -------------------------------------------------------------------------------- */

static enum MHD_Result answer_palette(struct MHD_Connection *c)
{
	cleanup_(text_finish) struct text t = {0};
	palette_put_css(&t);
	return web_answer_text(c, MHD_HTTP_OK, "text/css; charset=utf-8", &t);
}

static enum MHD_Result answer_page(struct MHD_Connection *c, const char *url)
{
	if (strcmp(url, "/palette.css") == 0)
		return answer_palette(c);
	for (size_t i = 0; web_page[i].path; i++)
		if (strcmp(url, web_page[i].path) == 0)
			return web_answer(c, MHD_HTTP_OK, web_page[i].type,
				MHD_create_response_from_buffer(
					web_page[i].size, (void *)(uintptr_t)web_page[i].data, MHD_RESPMEM_PERSISTENT));
	return web_answer_error(c, MHD_HTTP_NOT_FOUND, "no such page");
}

static enum MHD_Result route(struct web *w, struct MHD_Connection *c, const char *url, bool post)
{
	static const char jobs[] = "/api/jobs/";
	const char *given = header(c, MHD_HTTP_HEADER_AUTHORIZATION);
	bool may_act = web_token_given(given, w->options.token);
	bool may_measure = w->options.metrics_token && web_token_given(given, w->options.metrics_token);
	if (may_act)
		web_callers_promote(&w->callers, web_caller_of(c));
	if (is_page(url))
		return post ? web_answer_error(c, MHD_HTTP_METHOD_NOT_ALLOWED, "this page is read-only")
			    : answer_page(c, url);
	if (!post && strcmp(url, "/metrics") == 0 && may_measure)
		return web_api_metrics(w, c);
	if (!may_act && !w->options.open_read)
		return refuse(
			w, c, MHD_HTTP_UNAUTHORIZED, "a token is required; open the address that 'gpuq web' printed");
	if (strncmp(url, jobs, sizeof(jobs) - 1) == 0)
		return web_api_job(w, c, url + sizeof(jobs) - 1, post, may_act);
	if (post)
		return web_answer_error(c, MHD_HTTP_METHOD_NOT_ALLOWED, "this page is read-only");
	if (strcmp(url, "/api/stream") == 0)
		return web_stream_open(w, c, may_act);
	if (strcmp(url, "/metrics") == 0)
		return web_api_metrics(w, c);
	return web_answer_error(c, MHD_HTTP_NOT_FOUND, "no such page");
}

/* Called after the headers, for each piece of a body, and at its end. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *c, const char *url, const char *method,
	const char *version, const char *data, size_t *size, void **state)
{
	struct web *w = context;
	struct request *request = *state;
	bool post = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
	enum MHD_Result result;
	(void)version;
	(void)data;
	if (!request) {
		w->num_requests++;
		web_caller_begin(web_caller_of(c), clock_now_ns());
		if (!post && strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
			return refuse(w, c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and POST are supported");
		if (strlen(url) > MAX_URL)
			return refuse(w, c, MHD_HTTP_URI_TOO_LONG, "the address is too long");
		if (!pass_gate(w, c, url, post, &result))
			return result;
		/* Answer at the end of the request, so that the connection can be reused. */
		*state = calloc(1, sizeof(*request));
		return *state ? MHD_YES : MHD_NO;
	}
	if (*size > 0) {
		/* Read and discard the body: no request needs one. */
		request->body += *size;
		*size = 0;
		return request->body <= MAX_BODY ? MHD_YES : MHD_NO;
	}
	return route(w, c, url, post);
}

static void on_completed(void *context, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode why)
{
	struct web *w = context;
	struct web_caller *caller = web_caller_of(c);
	(void)why;
	web_callers_end_stream(&w->callers, caller);
	web_caller_end(caller, clock_now_ns());
	free(*state);
	*state = NULL;
}

/* ---- On the loop ------------------------------------------------------------------------------ */

void web_run(void *context, uint32_t events)
{
	struct web *w = context;
	MHD_UNSIGNED_LONG_LONG timeout_ms;
	(void)events;
	MHD_run(w->daemon);
	bool waits = MHD_get_timeout(w->daemon, &timeout_ms) == MHD_YES;
	loop_set_deadline(w->timer, waits ? clock_now_ns() + timeout_ms * NS_PER_MS + 1 : 0);
}

static int add_sources(struct web *w)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(w->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info || info->epoll_fd < 0)
		return -ENOTSUP;
	int r = loop_add(w->loop, info->epoll_fd, EPOLLIN, web_run, w, &w->source);
	if (r == 0)
		r = web_door_open(w);
	if (r == 0)
		r = loop_add_timer(w->loop, web_run, w, &w->timer);
	return r < 0 ? r : loop_add_timer(w->loop, web_stream_tick, w, &w->tick);
}

static int start(struct web *w)
{
	w->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL,
		on_request, w, MHD_OPTION_NOTIFY_COMPLETED, on_completed, w, MHD_OPTION_NOTIFY_CONNECTION,
		web_door_notify, w, MHD_OPTION_CONNECTION_LIMIT, (unsigned)(WEB_CALLERS_MAX + WEB_CALLERS_CUT),
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_ROOM, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)IDLE_S, MHD_OPTION_END);
	if (!w->daemon)
		return -EIO;
	return add_sources(w);
}

int web_open(const struct web_options *o, struct loop *loop, struct web **ret, struct gd_error *err)
{
	struct web *w = calloc(1, sizeof(*w));
	if (!w)
		return error_set(err, -ENOMEM, "cannot start the server: out of memory");
	w->options = *o;
	w->loop = loop;
	w->place.fd = w->place.guard_fd = -1;
	w->generation = 1;
	w->offset_ns = date_now_ms() * (int64_t)NS_PER_MS - (int64_t)clock_now_ns();
	int r = web_listen(o->listen ? o->listen : WEB_LISTEN, &w->place, err);
	if (r == 0) {
		r = start(w);
		if (r < 0)
			error_set(err, r, "cannot start the server: %s", error_words(r));
	}
	if (r < 0)
		web_close(w);
	else
		*ret = w;
	return r;
}

void web_close(struct web *w)
{
	if (!w)
		return;
	if (w->daemon) {
		/* MHD_run() handles resumed connections; the daemon must not stop while connections are suspended. */
		web_stream_end_all(w);
		MHD_run(w->daemon);
		web_door_close(w);
		loop_remove(w->source);
		loop_remove(w->timer);
		loop_remove(w->tick);
		MHD_stop_daemon(w->daemon);
	}
	web_place_close(&w->place);
	web_cache_finish(w);
	free(w);
}

const char *web_address(const struct web *w)
{
	return w->place.address;
}

const char *web_socket_path(const struct web *w)
{
	return w->place.path[0] ? w->place.path : NULL;
}

bool web_is_public(const struct web *w)
{
	return !w->place.loopback;
}

void web_changed(struct web *w)
{
	uint64_t version = view_jobs_version(w->options.model);
	if (version > w->jobs_version)
		w->generation++;
	w->jobs_version = version;
	web_stream_wake(w);
}
