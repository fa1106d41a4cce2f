/* SPDX-License-Identifier: MIT */
#include "slurm/file_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "launch/remote_brief.h"
#include "pool/pool_hints.h"
#include "slurm/file_message.h"
#include "slurm/link.h"
#include "slurm/secret.h"

#define FAILURE_NS (300 * NS_PER_MS) /* how long a failure is held back: the signal that caused it may follow */
#define AGAIN_NS   (500 * NS_PER_MS) /* between two attempts to connect */
/* How long to retry, at most a lease, if nothing listens: the launcher is gone, or a proxy is being replaced. */
#define REFUSED_NS (60 * NS_PER_S)

#define MOST_RESULT (TUNNEL_FRAME_MAX / 2)

enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_TERMINATED = 128 + SIGTERM,
};

struct file_worker {
	int dir_fd;
	size_t number;
	uint64_t job;
	struct remote_brief brief;
	uint8_t secret[MAC_KEY_SIZE];
	struct file_message hello; /* with the last file */
	struct loop *loop;
	struct loop_source *timer, *failure_timer, *pool_source;
	struct gd_pool *pool;
	struct link *link;
	bool open;           /* the link has proven the secret */
	bool ready;          /* the model is loaded */
	bool refused;        /* the last connection was refused */
	uint64_t heard_ns;   /* the last message of this link; 0: none yet */
	uint64_t reached_ns; /* the last message of any link, or the start */
	uint64_t task_id;    /* of the running file, in the pool */
	struct text answer;  /* the last one, encoded; empty: none */
	uint32_t answered;   /* its outcome, which the hello gets when the answer is sent */
	struct text out;
	bool signaled; /* a signal that ends this job has arrived */
	bool stuck;    /* the worker cannot be killed */
	bool ending;
	int exit_code;
};

void file_address_name(size_t worker, char ret[FILE_ADDRESS_ROOM])
{
	snprintf(ret, FILE_ADDRESS_ROOM, "worker-%zu.address", worker);
}

/* ---- Messages to the proxy ---------------------------------------------------------------- */

static void drop_link(struct file_worker *w)
{
	link_destroy(w->link);
	w->link = NULL;
	w->open = false;
}

/* Sends nothing without a connection or memory: FILE_READY and the answer are repeated after the next hello. */
static void send_text(struct file_worker *w, const struct text *t)
{
	if (w->open && t->length && link_send_bytes(w->link, t->data, t->length) < 0)
		drop_link(w);
}

static void send_message(struct file_worker *w, const struct file_message *m)
{
	file_message_encode(&w->out, m);
	if (text_error(&w->out) == 0)
		send_text(w, &w->out);
}

static void send_kind(struct file_worker *w, enum file_message_kind kind)
{
	send_message(w, &(struct file_message){.kind = kind});
}

/* Makes the worker exit. The reason of the first call is printed to the job's log. */
static void leave(struct file_worker *w, int code, const char *format, ...) GD_PRINTF(3, 4);
static void leave(struct file_worker *w, int code, const char *format, ...)
{
	va_list args;
	if (w->ending)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	w->ending = true;
	w->exit_code = code;
}

/* ---- Callbacks of the pool -------------------------------------------------------------------- */

/* Whether a signal has arrived that ends this job, even if the loop has not seen it yet. */
static bool must_end(const struct file_worker *w)
{
	sigset_t pending;
	return w->signaled || (sigpending(&pending) == 0 &&
				      (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1 ||
					      sigismember(&pending, SIGHUP) == 1));
}

/* Reports that the file has ended. */
static void send_answer(struct file_worker *w)
{
	struct file_message m;
	if (w->answered == FILE_FAILED && must_end(w) &&
		file_message_decode(w->answer.data, w->answer.length, &m) == 0) {
		m.outcome = w->answered = FILE_UNPROCESSED;
		m.size = 0; /* the reason of the failure does not matter */
		file_message_encode(&w->out, &m);
		text_clear(&w->answer);
		text_append(&w->answer, w->out.data, w->out.length);
	}
	w->hello.outcome = w->answered;
	send_text(w, &w->answer);
}

/*
 * The signal that ends a job goes to all of its processes: the worker can fail, or report a file that it has given up
 * as done, because it was told to end. Such a file was not processed.
 */
static void answer(
	struct file_worker *w, const struct gd_event *e, enum file_outcome outcome, const void *bytes, size_t size)
{
	if (must_end(w))
		outcome = FILE_UNPROCESSED;
	/* The launcher uses only short results; a message that is too long would never arrive. */
	if (size > MOST_RESULT)
		size = 0;
	const struct file_message m = {.kind = FILE_ANSWER,
		.outcome = outcome,
		.proxy = w->hello.proxy,
		.number = w->hello.number,
		.tries = (uint32_t)e->attempt,
		.processing_ns = e->started_ns && e->ended_ns > e->started_ns ? e->ended_ns - e->started_ns : 0,
		.bytes = bytes,
		.size = size};
	file_message_encode(&w->answer, &m);
	if (text_error(&w->answer))
		leave(w, EXIT_FAILED, "cannot send a result to the launcher: out of memory");
	w->answered = outcome;
	/* Hold a failure back: the signal can reach the worker before it reaches this process. */
	if (outcome == FILE_FAILED && loop_set_deadline(w->failure_timer, clock_now_ns() + FAILURE_NS) == 0)
		return;
	send_answer(w);
}

static void on_failure_timer(void *context, uint32_t events)
{
	(void)events;
	send_answer(context);
}

static int on_success(void *context, const struct gd_event *e)
{
	answer(context, e, FILE_DONE, e->result.data, e->result.size);
	return 0;
}

static int on_failure(void *context, const struct gd_event *e)
{
	struct file_worker *w = context;
	bool unprocessed = e->failure == GD_FAILURE_CANCELLED || e->failure == GD_FAILURE_NO_WORKER;
	const char *words = e->message[0] ? e->message : gd_failure_name(e->failure);
	/* The process may still work on the file: only the end of this job proves that it does not. */
	w->stuck = e->failure == GD_FAILURE_STUCK;
	if (w->stuck)
		leave(w, EXIT_FAILED, "the worker cannot be killed: %s", words);
	else
		answer(w, e, unprocessed ? FILE_UNPROCESSED : FILE_FAILED, words, strlen(words));
	return 0;
}

static int on_message(void *context, const struct gd_event *e)
{
	send_message(
		context, &(struct file_message){.kind = FILE_NOTE, .bytes = e->result.data, .size = e->result.size});
	return 0;
}

static int on_setup_fail(void *context, const struct gd_event *e)
{
	struct file_worker *w = context;
	send_message(
		w, &(struct file_message){.kind = FILE_SETUP_FAILED, .bytes = e->message, .size = strlen(e->message)});
	leave(w, EXIT_FAILED, "the worker is lost: %s", e->message);
	return 0;
}

static void look_at_setup(struct file_worker *w)
{
	struct gd_worker_stats s;
	if (w->ready || gd_pool_worker_stats(w->pool, 0, &s, sizeof(s)) < 0)
		return;
	w->ready = s.state == GD_WORKER_STATE_IDLE || s.state == GD_WORKER_STATE_BUSY;
	if (w->ready)
		send_kind(w, FILE_READY);
}

static void on_pool(void *context, uint32_t events)
{
	struct file_worker *w = context;
	(void)events;
	int r = gd_pool_poll(w->pool, 0, 0);
	if (r < 0)
		leave(w, EXIT_FAILED, "the worker is lost: %s", error_words(r));
	look_at_setup(w);
}

/* ---- Messages of the proxy ---------------------------------------------------------------------- */

static void begin_file(struct file_worker *w, const struct file_message *m)
{
	if (w->hello.outcome == FILE_RUNNING || w->ending)
		return;
	text_clear(&w->answer);
	w->hello.proxy = m->proxy;
	w->hello.number = m->number;
	w->hello.outcome = w->answered = FILE_RUNNING;
	int r = gd_pool_submit(w->pool, m->bytes, m->size, NULL, NULL, &w->task_id);
	if (r < 0) {
		const char *words = error_words(r);
		answer(w, &(struct gd_event){.size = sizeof(struct gd_event)}, FILE_UNPROCESSED, words, strlen(words));
		leave(w, EXIT_FAILED, "cannot submit a file to the worker: %s", words);
	}
}

/* The answer follows when the worker has stopped or was killed. */
static void cancel_file(struct file_worker *w)
{
	if (w->hello.outcome == FILE_RUNNING)
		(void)gd_pool_cancel(w->pool, w->task_id);
}

static int on_bytes(void *context, struct link *l, const void *data, size_t size)
{
	struct file_worker *w = context;
	struct file_message m;
	(void)l;
	int r = file_message_decode(data, size, &m);
	if (r < 0)
		return r;
	w->heard_ns = w->reached_ns = clock_now_ns();
	if (m.kind == FILE_TASK)
		begin_file(w, &m);
	else if (m.kind == FILE_CANCEL)
		cancel_file(w);
	else if (m.kind == FILE_END)
		leave(w, EXIT_DONE, "done");
	return 0;
}

/* ---- The connection ------------------------------------------------------------------------------- */

static void on_opened(void *context, struct link *l)
{
	struct file_worker *w = context;
	(void)l;
	w->open = true;
	w->refused = false;
	w->heard_ns = w->reached_ns = clock_now_ns();
	w->hello.session++;
	send_message(w, &w->hello);
	if (w->ready)
		send_kind(w, FILE_READY);
	if (w->hello.outcome != FILE_RUNNING)
		send_text(w, &w->answer);
}

static void on_closed(void *context, struct link *l, int reason)
{
	struct file_worker *w = context;
	(void)l;
	w->refused = reason == -ECONNREFUSED;
	drop_link(w);
}

static void connect_now(struct file_worker *w)
{
	static const struct link_ops ops = {.opened = on_opened, .bytes = on_bytes, .closed = on_closed};
	char name[FILE_ADDRESS_ROOM];
	file_address_name(w->number, name);
	/* If this fails, the next timer tries again. */
	(void)link_connect_to(w->loop, w->dir_fd, name, w->secret, w->job, &ops, w, &w->link);
}

static uint64_t ms_to_ns(int64_t ms)
{
	return (uint64_t)ms * NS_PER_MS;
}

static void on_timer(void *context, uint32_t events)
{
	struct file_worker *w = context;
	uint64_t now = clock_now_ns(), lease = ms_to_ns(w->brief.lease_ms);
	(void)events;
	if (w->open && now > w->heard_ns + ms_to_ns(w->brief.silence_ms))
		drop_link(w);
	if (w->open)
		send_kind(w, FILE_PING);
	else if (!w->link)
		connect_now(w);
	uint64_t patience = w->refused && lease > REFUSED_NS ? REFUSED_NS : lease;
	if (!w->open && now > w->reached_ns + patience)
		leave(w, EXIT_FAILED, "the launcher is gone, or cannot be reached");
	uint64_t next = w->open ? ms_to_ns(w->brief.silence_ms) / 5 : AGAIN_NS;
	if (loop_set_deadline(w->timer, now + next) < 0)
		leave(w, EXIT_FAILED, "cannot set a timer");
}

/* ---- Beginning and end ------------------------------------------------------------------------------- */

static void on_signal(void *context, uint32_t events)
{
	struct file_worker *w = context;
	(void)events;
	w->signaled = true;
	leave(w, EXIT_TERMINATED, "ended by a signal");
}

static int number_of(const char *name, long otherwise)
{
	const char *text = getenv(name);
	return (int)(text && *text ? strtol(text, NULL, 10) : otherwise);
}

static int open_pool(struct file_worker *w, struct gd_error *err)
{
	cleanup_(text_finish) struct text logs = {0};
	int gpu = number_of("GPUQ_GPU", 0);
	const char *node = getenv("GPUQ_NODE");
	snprintf(w->hello.node, sizeof(w->hello.node), "%s", node ? node : "");
	w->hello.kind = FILE_HELLO;
	w->hello.gpu = gpu;
	w->hello.attempt = (uint32_t)number_of("GPUQ_ATTEMPT", 0);
	w->job = (uint64_t)number_of("GPUQ_JOB_ID", 0);
	if (w->brief.log_dir)
		text_appendf(&logs, "%s/%s-gpu%d", w->brief.log_dir, w->hello.node, gpu);
	const struct gd_options options = {.size = sizeof(options),
		.worker_argv = (const char *const *)w->brief.argv,
		.gpu_ids = &gpu,
		.num_gpu_ids = 1,
		.bind = GD_BIND_NONE, /* the queue has bound this job to its GPU */
		.settings = w->brief.settings,
		.num_settings = w->brief.num_settings,
		.retries = (int)w->brief.retries,
		.task_timeout_ms = w->brief.task_timeout_ms,
		.setup_timeout_ms = w->brief.setup_timeout_ms,
		.output = w->brief.log_dir ? GD_OUTPUT_FILES : GD_OUTPUT_INHERIT,
		.output_dir = w->brief.log_dir ? text_string(&logs) : NULL};
	const struct gd_callbacks callbacks = {.size = sizeof(callbacks),
		.context = w,
		.on_success = on_success,
		.on_error = on_failure,
		.on_timeout = on_failure,
		.on_message = on_message,
		.on_setup_fail = on_setup_fail};
	return pool_open_trusted(&options, &callbacks, &w->pool, err);
}

static int begin(struct file_worker *w, const char *dir, struct gd_error *err)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, 0};
	int signal_fd;
	w->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = w->dir_fd < 0 ? -errno : remote_brief_read(w->dir_fd, FILE_BRIEF_NAME, &w->brief);
	if (r < 0)
		return error_set(err, r, "cannot read '%s/" FILE_BRIEF_NAME "': %s", dir, error_words(r));
	r = secret_load(w->dir_fd, w->secret, err);
	if (r < 0)
		return r;
	r = loop_create(&w->loop);
	if (r == 0)
		r = loop_add_signals(w->loop, signals, on_signal, w, &signal_fd);
	if (r == 0)
		r = loop_add_timer(w->loop, on_timer, w, &w->timer);
	if (r == 0)
		r = loop_add_timer(w->loop, on_failure_timer, w, &w->failure_timer);
	if (r < 0)
		return error_set(err, r, "cannot create an event loop: %s", error_words(r));
	r = open_pool(w, err);
	if (r < 0)
		return r;
	r = loop_add(w->loop, gd_pool_fd(w->pool), EPOLLIN, on_pool, w, &w->pool_source);
	return r < 0 ? error_set(err, r, "cannot watch the worker: %s", error_words(r)) : 0;
}

/* Ends the file first, so that its answer can be sent: the launcher then gives it to another worker at once. */
static void end(struct file_worker *w)
{
	cancel_file(w);
	while (w->hello.outcome == FILE_RUNNING && w->answered == FILE_RUNNING && !w->stuck &&
		gd_pool_poll(w->pool, -1, 0) >= 0)
		;
	if (w->hello.outcome == FILE_RUNNING && w->answered != FILE_RUNNING)
		send_answer(w); /* a failure that was held back */
	link_destroy(w->link);
	struct gd_error err = {0};
	if (gd_pool_close(w->pool, NULL, 0, &err) < 0)
		printf("%s\n", err.message);
}

int file_worker_main(const char *dir, size_t worker)
{
	struct file_worker w = {.number = worker, .dir_fd = -1, .reached_ns = clock_now_ns()};
	struct gd_error err = {0};
	setvbuf(stdout, NULL, _IOLBF, 0);
	int r = begin(&w, dir, &err);
	if (r < 0) {
		printf("%s\n", err.message);
		leave(&w, EXIT_FAILED, "the worker was not started");
	} else {
		on_timer(&w, 0);
	}
	while (!w.ending && (r = loop_round(w.loop, -1)) >= 0)
		;
	if (w.pool)
		end(&w);
	loop_destroy(w.loop);
	remote_brief_finish(&w.brief);
	text_finish(&w.answer);
	text_finish(&w.out);
	closep(&w.dir_fd);
	explicit_bzero(w.secret, sizeof(w.secret));
	return w.ending ? w.exit_code : EXIT_FAILED;
}
