/* SPDX-License-Identifier: MIT */
/*
 * A server on a Unix socket with a pool in its event loop.
 *
 *     poll_server SOCKET [GPUS [LIMIT_MS]]
 *
 * A request is a line with a number; the answer is the line "NUMBER SQUARE" or "NUMBER
 * error: REASON". "NUMBER MILLISECONDS" makes the worker compute for that long; a
 * request that takes longer than LIMIT_MS (5000) fails. A client may send many requests
 * at once and gets each answer when it is ready. A client that shuts down its sending
 * side still gets its answers; the requests of a client that disconnects are cancelled.
 *
 *     printf '7\n8\n' | nc -UN SOCKET
 *
 * One thread waits with epoll for the listening socket, the clients, signals and
 * gd_pool_fd(). While the queue is full, or a client has not read 64 KiB of answers, its
 * further requests stay in its socket. After SIGINT or SIGTERM, the server accepts no
 * more requests, answers the accepted ones and exits with 0; a second signal cancels them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <gpu_dispatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_LINE     256
#define MAX_UNSENT   65536
#define MAX_CLIENTS  500
#define LIMIT_MS     5000
#define GOODBYE_MS   2000 /* how long to wait at the end for clients that do not read their answers */
#define EVENTS_AHEAD 64

/* A task, from its submission to its callback. */
struct request {
	struct client *client;
	struct request *next, **link; /* the client's list; *link points to this request */
	uint64_t id;
};

/* A connection. It outlives its socket while the pool still has its requests. */
struct client {
	struct client *next;
	struct request *requests;
	int fd;       /* -1 once it is closed */
	bool ended;   /* no more requests will come */
	bool waiting; /* has a line that could not be submitted because the queue is full */
	uint32_t watched;
	char in[MAX_LINE];
	size_t in_length;
	char *out;
	size_t out_length;
	size_t out_room;
};

struct server {
	int epoll;
	int listener;
	int signals;
	bool stopping;
	struct gd_pool *pool;
	int64_t limit_ms;
	struct client *clients;
	size_t num_clients;
	unsigned long answered;
};

/* ---- In each worker ----------------------------------------------------- */

/* Simulates real work. Ends early when the request is out of time or cancelled, so the worker is not killed. */
static void work(struct gd_worker *w, long ms)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	for (; ms > 0 && !gd_worker_cancelled(w, 0); ms--)
		nanosleep(&moment, NULL);
}

static int square(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	char text[MAX_LINE + 1];
	char *end;
	(void)state;

	memcpy(text, task->data, task->size);
	text[task->size] = '\0';
	errno = 0;
	long n = strtol(text, &end, 10);
	if (end == text || (*end && *end != ' '))
		return gd_worker_fail(w, -EINVAL, "not a number");
	long result;
	if (errno || __builtin_mul_overflow(n, n, &result))
		return gd_worker_fail(w, -ERANGE, "too large");
	if (*end == ' ')
		work(w, strtol(end, NULL, 10));
	int length = snprintf(text, sizeof(text), "%ld", result);
	return gd_worker_result(w, text, (size_t)length);
}

/* ---- Clients ------------------------------------------------------------ */

/* Cancels the requests of a client that no longer reads its answers. */
static void client_hang_up(struct server *s, struct client *c)
{
	if (c->fd >= 0) {
		close(c->fd);
		s->num_clients--;
		for (struct request *r = c->requests; r; r = r->next)
			gd_pool_cancel(s->pool, r->id); /* -ENOENT: it has just ended */
	}
	c->fd = -1;
	c->ended = true;
	c->waiting = false;
	c->out_length = 0;
	c->in_length = 0;
}

/* Registers with epoll for the events that can be handled now. */
static void client_watch(struct server *s, struct client *c)
{
	if (c->fd < 0)
		return;
	struct epoll_event e = {.data.ptr = c};
	if (!c->ended && !c->waiting && !s->stopping && c->out_length < MAX_UNSENT)
		e.events |= EPOLLIN;
	if (c->out_length > 0)
		e.events |= EPOLLOUT;
	if (e.events != c->watched && epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &e) < 0)
		client_hang_up(s, c);
	c->watched = e.events;
}

static void client_send(struct server *s, struct client *c)
{
	while (c->fd >= 0 && c->out_length > 0) {
		ssize_t n = send(c->fd, c->out, c->out_length, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			client_hang_up(s, c);
			return;
		}
		c->out_length -= (size_t)n;
		memmove(c->out, c->out + n, c->out_length);
	}
}

static void client_answer(struct server *s, struct client *c, const char *line, size_t length)
{
	if (c->fd < 0)
		return;
	if (c->out_length + length > c->out_room) {
		size_t room = 2 * (c->out_length + length);
		char *grown = realloc(c->out, room);
		if (!grown) {
			client_hang_up(s, c);
			return;
		}
		c->out = grown;
		c->out_room = room;
	}
	memcpy(c->out + c->out_length, line, length);
	c->out_length += length;
}

/* Submits one line. False: the queue is full, try again after the next answer. */
static bool client_submit(struct server *s, struct client *c, size_t length)
{
	const struct gd_task_options options = {.size = sizeof(options), .nowait = 1, .timeout_ms = s->limit_ms};
	struct request *request = calloc(1, sizeof(*request));
	int r = request ? gd_pool_submit(s->pool, c->in, length, request, &options, &request->id) : -ENOMEM;
	if (r < 0) {
		free(request);
		if (r != -EAGAIN)
			client_hang_up(s, c);
		return r != -EAGAIN;
	}
	request->client = c;
	request->next = c->requests;
	request->link = &c->requests;
	if (request->next)
		request->next->link = &request->next;
	c->requests = request;
	return true;
}

/* Submits the available lines while there is space for them and their answers. */
static void client_take_lines(struct server *s, struct client *c)
{
	c->waiting = false;
	while (c->in_length > 0 && !s->stopping && c->out_length < MAX_UNSENT) {
		char *newline = memchr(c->in, '\n', c->in_length);
		if (!newline && !c->ended)
			break;
		size_t length = newline ? (size_t)(newline - c->in) : c->in_length;
		if (!client_submit(s, c, length)) {
			c->waiting = true;
			break;
		}
		if (c->fd < 0)
			return;
		size_t used = newline ? length + 1 : length;
		c->in_length -= used;
		memmove(c->in, c->in + used, c->in_length);
	}
	if (c->in_length == MAX_LINE && !memchr(c->in, '\n', MAX_LINE))
		client_hang_up(s, c);
}

static void client_read(struct server *s, struct client *c)
{
	if (c->in_length == MAX_LINE)
		return;
	ssize_t n = recv(c->fd, c->in + c->in_length, MAX_LINE - c->in_length, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		client_hang_up(s, c);
		return;
	}
	if (n == 0)
		c->ended = true;
	c->in_length += (size_t)n;
	client_take_lines(s, c);
}

/* Removes and releases a request whose callback was called. */
static void request_finish(struct request *request)
{
	*request->link = request->next;
	if (request->next)
		request->next->link = request->link;
	free(request);
}

/* Closes connections whose requests were all answered; releases clients that are no longer referenced. */
static void clients_sweep(struct server *s)
{
	for (struct client **link = &s->clients; *link;) {
		struct client *c = *link;
		bool no_more = s->stopping || (c->ended && c->in_length == 0);
		if (no_more && !c->requests && c->out_length == 0)
			client_hang_up(s, c);
		if (c->fd >= 0 || c->requests) {
			link = &c->next;
			continue;
		}
		*link = c->next;
		free(c->out);
		free(c);
	}
}

/* ---- Answers ------------------------------------------------------------ */

static int on_answer(void *context, const struct gd_event *e)
{
	struct server *s = context;
	struct request *request = e->tag;
	struct client *c = request->client;
	char line[MAX_LINE + sizeof(((struct gd_error *)0)->message) + 16];
	int length;

	if (e->failure == GD_FAILURE_NONE)
		length = snprintf(line, sizeof(line), "%.*s %.*s\n", (int)e->task.size, (const char *)e->task.data,
			(int)e->result.size, (const char *)e->result.data);
	else
		length = snprintf(line, sizeof(line), "%.*s error: %s\n", (int)e->task.size, (const char *)e->task.data,
			e->message);
	if (length >= (int)sizeof(line))
		length = (int)sizeof(line) - 1;
	if (c->fd >= 0)
		s->answered++;
	client_answer(s, c, line, (size_t)length);
	request_finish(request);
	return 0;
}

/* ---- The loop ----------------------------------------------------------- */

static void accept_client(struct server *s)
{
	int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	struct client *c = s->num_clients < MAX_CLIENTS ? calloc(1, sizeof(*c)) : NULL;
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
	if (!c || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
		close(fd);
		free(c);
		return;
	}
	c->fd = fd;
	c->watched = e.events;
	c->next = s->clients;
	s->clients = c;
	s->num_clients++;
}

static void on_signal(struct server *s)
{
	struct signalfd_siginfo info;
	if (read(s->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (s->stopping) {
		gd_pool_stop(s->pool);
		gd_pool_stop(s->pool);
		return;
	}
	s->stopping = true;
	close(s->listener);
	s->listener = -1;
}

static void on_event(struct server *s, const struct epoll_event *e)
{
	struct client *c = e->data.ptr;
	if (c->fd >= 0 && (e->events & (EPOLLERR | EPOLLHUP)) && !(e->events & EPOLLIN))
		client_hang_up(s, c);
	if (c->fd >= 0 && (e->events & EPOLLIN))
		client_read(s, c);
}

/* One iteration of the loop: waits, reads, submits, answers. 0 or a negative errno value. */
static int turn(struct server *s, int timeout_ms)
{
	struct epoll_event events[EVENTS_AHEAD];
	int n = epoll_wait(s->epoll, events, EVENTS_AHEAD, timeout_ms);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ETIMEDOUT;

	for (int i = 0; i < n; i++) {
		void *who = events[i].data.ptr;
		if (who == &s->listener && !s->stopping)
			accept_client(s);
		else if (who == &s->signals)
			on_signal(s);
		else if (who != &s->listener && who != &s->pool)
			on_event(s, &events[i]);
	}
	int r = gd_pool_poll(s->pool, 0, 0);
	for (struct client *c = s->clients; c; c = c->next) {
		client_send(s, c);
		client_take_lines(s, c);
		client_watch(s, c);
	}
	clients_sweep(s);
	return r < 0 ? r : 0;
}

static int serve(struct server *s)
{
	while (!s->stopping || s->clients) {
		bool goodbye = s->stopping && gd_pool_outstanding(s->pool) == 0;
		int r = turn(s, goodbye ? GOODBYE_MS : -1);
		if (r == -ETIMEDOUT)
			return 0;
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- Start and end ------------------------------------------------------ */

static int watch(struct server *s, int fd, void *who)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = who};
	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

static int listen_at(struct server *s, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);

	s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->listener < 0)
		return -errno;
	if (bind(s->listener, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (listen(s->listener, SOMAXCONN) < 0)
		return -errno;
	return 0;
}

static int open_signals(struct server *s)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? -errno : 0;
}

static int start(struct server *s, const char *path)
{
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0)
		return -errno;
	int r = open_signals(s);
	if (r == 0)
		r = listen_at(s, path);
	if (r == 0)
		r = watch(s, s->listener, &s->listener);
	if (r == 0)
		r = watch(s, s->signals, &s->signals);
	if (r == 0)
		r = watch(s, gd_pool_fd(s->pool), &s->pool);
	return r;
}

int main(int argc, char **argv)
{
	struct server s = {.epoll = -1, .listener = -1, .signals = -1, .limit_ms = LIMIT_MS};
	struct gd_worker_ops worker = {.size = sizeof(worker), .process = square};
	struct gd_options options = {
		.size = sizeof(options),
		.worker = &worker,
		.gpus = argc > 2 ? argv[2] : NULL,
	};
	struct gd_callbacks callbacks = {
		.size = sizeof(callbacks),
		.context = &s,
		.on_success = on_answer,
		.on_error = on_answer,
		.on_timeout = on_answer,
		.on_cancelled = on_answer,
	};
	struct gd_error err;

	if (argc > 3)
		s.limit_ms = atoi(argv[3]);
	if (argc < 2 || argc > 4 || s.limit_ms <= 0) {
		fprintf(stderr, "usage: poll_server SOCKET [GPUS [LIMIT_MS]]\n");
		return 2;
	}
	if (!options.gpus && gd_gpu_count(NULL, NULL) == 0)
		options.gpus = "sim:4";

	/* Open the pool first: the workers then inherit no socket and no blocked signals. */
	if (gd_pool_open(&options, &callbacks, &s.pool, &err) < 0) {
		fprintf(stderr, "poll_server: %s\n", err.message);
		return 1;
	}
	int r = start(&s, argv[1]);
	if (r < 0) {
		fprintf(stderr, "poll_server: cannot listen on '%s': %s\n", argv[1], strerror(-r));
		gd_pool_close(s.pool, NULL, 0, NULL);
		return 1;
	}
	printf("poll_server: listening on '%s'\n", argv[1]);
	fflush(stdout);

	r = serve(&s);
	unlink(argv[1]);
	if (r < 0)
		fprintf(stderr, "poll_server: the event loop failed: %s\n", strerror(-r));
	gd_pool_close(s.pool, NULL, 0, NULL);
	for (struct client *c = s.clients; c; c = c->next)
		client_hang_up(&s, c);
	clients_sweep(&s);
	printf("poll_server: %lu requests answered\n", s.answered);
	return r < 0;
}
