/* SPDX-License-Identifier: MIT */
/* gpuq-top: connects a queue, a terminal and view/top/top.h, which contains the logic. */
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/file.h"
#include "base/loop.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/queue_choice.h"
#include "cli/queue_view.h"
#include "cli/subprogram.h"
#include "cli/top_options.h"
#include "cli/top_terminal.h"
#include "view/top/top.h"

#define REDRAW_MS 200 /* minimum time between redraws; keys redraw at once */
#define SECOND_MS 1000
#define HISTORY   1024

struct top_program {
	struct queue_choice queue;
	bool all;
	struct queue_view *view;
	struct top top;
	struct screen screen;
	struct loop *loop;
	struct loop_source *timer;
	int signal_fd;
	int log_fd;
	unsigned log_attempt; /* attempt of that log */
	int rows, columns;
	uint64_t drawn_ns;
	bool over;
	int signal; /* the signal that ended it */
	struct gd_error err;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct top_program *p = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &p->queue;
		return 0;
	case TOP_OPTION_ALL:
		p->all = true;
		return 0;
	case ARGP_KEY_END:
		if (p->all && p->queue.jobs_file)
			argp_error(state, "--all cannot be used with --jobs-file");
		return 0;
	case TOP_OPTION_GPUS:
		if (config_set(&p->queue.command_line, CONFIG_GPUS, "--gpus", arg, &p->err) < 0)
			arguments_error(state, "%s", p->err.message);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- The log -------------------------------------------------------------------------------- */

static void close_log(struct top_program *p)
{
	closep(&p->log_fd);
	p->log_fd = -1;
}

static off_t size_of(int fd)
{
	struct stat st;
	return fstat(fd, &st) < 0 ? -1 : st.st_size;
}

/*
 * Only the end of a large log is read, and not what is written meanwhile: another user can make the log grow faster
 * than it can be read.
 */
static void read_log(struct top_program *p)
{
	char buf[65536];
	off_t at = p->log_fd >= 0 ? lseek(p->log_fd, 0, SEEK_CUR) : -1;
	off_t size = at < 0 ? -1 : size_of(p->log_fd);
	if (size < 0)
		return;
	if (size - at > (off_t)LOG_TAIL_BYTES) {
		log_tail_finish(&p->top.log);
		p->top.log.cut = true;
		at = lseek(p->log_fd, size - (off_t)LOG_TAIL_BYTES / 2, SEEK_SET);
	}
	for (ssize_t n; at < size; at += n) {
		size_t left = (size_t)(size - at);
		n = read(p->log_fd, buf, left < sizeof(buf) ? left : sizeof(buf));
		if (n <= 0)
			break;
		if (log_tail_append(&p->top.log, buf, (size_t)n) < 0)
			top_say(&p->top, true, "cannot read the log: out of memory");
	}
}

static unsigned attempts_of(const struct top_program *p, uint64_t id)
{
	const struct view_job *job = view_find_job(p->top.model, id);
	return job ? (unsigned)job->num_attempts : 0;
}

static void open_log(struct top_program *p, uint64_t id)
{
	const struct view_actions *a = queue_view_actions(p->view);
	struct gd_error err = {0};
	int fd;
	if (a->open_log(a->context, id, 0, &fd, &err) < 0) {
		top_say(&p->top, true, "%s", err.message);
		return;
	}
	close_log(p);
	p->log_fd = fd;
	p->log_attempt = attempts_of(p, id);
	top_show_log(&p->top, id);
	read_log(p);
}

/* A retried job writes another log. */
static void follow_log(struct top_program *p)
{
	if (p->top.mode != TOP_LOG)
		return;
	read_log(p);
	if (attempts_of(p, p->top.log_job) > p->log_attempt)
		open_log(p, p->top.log_job);
}

/* ---- Requests --------------------------------------------------------------------------------- */

static void act(struct top_program *p)
{
	static const char *const done_words[VIEW_ACTIONS] = {
		[VIEW_CANCEL] = "cancelled",
		[VIEW_RETRY] = "queued again",
		[VIEW_HOLD] = "held",
		[VIEW_RELEASE] = "released",
		[VIEW_URGENT] = "moved to the front",
	};
	const struct view_actions *a = queue_view_actions(p->view);
	struct gd_error err = {0};
	size_t count, done = 0;
	const uint64_t *ids = top_chosen(&p->top, &count);
	int r = a->act(a->context, p->top.action, ids, count, &done, &err);
	if (r < 0)
		top_say(&p->top, true, "%s", err.message);
	else if (count == 1)
		top_say(&p->top, false, "job %" PRIu64 ": %s", view_id_number(ids[0]), done_words[p->top.action]);
	else
		top_say(&p->top, done < count, "%zu of %zu jobs %s", done, count, done_words[p->top.action]);
	if (r == 0)
		p->top.num_tagged = 0;
	if (queue_view_update(p->view, &err) < 0)
		top_say(&p->top, true, "%s", err.message);
}

/* For a waiting job, also shows the reason. */
static void show_details(struct top_program *p)
{
	const struct view_actions *a = queue_view_actions(p->view);
	const struct view_job *job = view_find_job(p->top.model, p->top.job);
	cleanup_(text_finish) struct text t = {0};
	struct gd_error err = {0};
	char title[64];
	if (!job)
		return;
	top_put_details(&t, job, date_now_ms());
	bool waits = job->state == VIEW_JOB_PENDING || job->state == VIEW_JOB_HELD || job->state == VIEW_JOB_UNKNOWN;
	text_append_string(&t, waits ? "\n" : "");
	if (waits && a->why(a->context, p->top.job, &t, &err) < 0) {
		top_say(&p->top, true, "%s", err.message);
		return;
	}
	snprintf(title, sizeof(title), "job %" PRIu64, view_id_number(p->top.job));
	top_show_page(&p->top, title, text_string(&t));
}

static void answer(struct top_program *p)
{
	switch (p->top.request) {
	case TOP_QUIT:
		p->over = true;
		break;
	case TOP_ACT:
		act(p);
		break;
	case TOP_DETAILS:
		show_details(p);
		break;
	case TOP_OPEN_LOG:
		open_log(p, p->top.job);
		break;
	case TOP_CLOSE_LOG:
		close_log(p);
		break;
	case TOP_NOTHING:
		break;
	}
}

/* ---- Events -------------------------------------------------------------------------------------- */

static void draw(struct top_program *p)
{
	const struct view_actions *a = queue_view_actions(p->view);
	a->facts(a->context, &p->top.facts);
	p->drawn_ns = clock_now_ns();
	if (top_draw(&p->top, &p->screen, p->rows, p->columns, date_now_ms(), p->drawn_ns) == 0)
		top_terminal_show(&p->screen);
	/* Redraw every second for the clock and running times. */
	loop_set_deadline(p->timer, p->drawn_ns + SECOND_MS * NS_PER_MS);
}

static void on_timer(void *context, uint32_t events)
{
	struct top_program *p = context;
	(void)events;
	follow_log(p);
	draw(p);
}

static void on_key(void *context, uint32_t events)
{
	struct top_program *p = context;
	int key;
	while (!p->over && (key = top_terminal_key()) >= 0) {
		top_key(&p->top, key);
		answer(p);
	}
	/* The terminal was closed. */
	if (events & (EPOLLHUP | EPOLLERR))
		p->over = true;
	if (!p->over)
		draw(p);
}

static void on_news(void *context, uint32_t events)
{
	struct top_program *p = context;
	struct gd_error err = {0};
	(void)events;
	if (queue_view_update(p->view, &err) < 0)
		top_say(&p->top, true, "%s", err.message);
	follow_log(p);
	uint64_t next = p->drawn_ns + REDRAW_MS * NS_PER_MS;
	if (clock_now_ns() >= next)
		draw(p);
	else
		loop_set_deadline(p->timer, next);
}

static void on_signal(void *context, uint32_t events)
{
	struct top_program *p = context;
	struct signalfd_siginfo info;
	(void)events;
	while (read(p->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGWINCH) {
			p->signal = (int)info.ssi_signo;
			p->over = true;
			continue;
		}
		top_terminal_size(true, &p->rows, &p->columns);
		draw(p);
	}
}

static int start(struct top_program *p)
{
	const struct queue_view_options view_options = {.history = HISTORY, .all = p->all};
	static const int signals[] = {SIGWINCH, SIGTERM, SIGINT, SIGHUP, SIGQUIT, 0};
	struct loop_source *ignored;
	p->queue.shows = true;
	int r = queue_choice_resolve(&p->queue, &p->err);
	if (r == 0)
		r = queue_view_open(&p->queue, &view_options, &p->view, &p->err);
	if (r < 0)
		return r;
	top_init(&p->top, queue_view_model(p->view));
	r = loop_create(&p->loop);
	if (r == 0)
		r = loop_add_signals(p->loop, signals, on_signal, p, &p->signal_fd);
	if (r == 0)
		r = loop_add_timer(p->loop, on_timer, p, &p->timer);
	if (r == 0)
		r = loop_add(p->loop, STDIN_FILENO, EPOLLIN, on_key, p, &ignored);
	if (r == 0)
		r = loop_add(p->loop, queue_view_fd(p->view), EPOLLIN, on_news, p, &ignored);
	return r < 0 ? error_set(&p->err, r, "cannot start: %s", error_words(r)) : 0;
}

static int run(struct top_program *p)
{
	int r = top_terminal_check(&p->err);
	if (r == 0)
		r = start(p);
	if (r == 0)
		r = top_terminal_open(&p->err);
	if (r < 0)
		return r;
	top_terminal_size(false, &p->rows, &p->columns);
	draw(p);
	while (r == 0 && !p->over)
		r = loop_round(p->loop, -1);
	top_terminal_close();
	return r < 0 ? error_set(&p->err, r, "cannot wait: %s", error_words(r)) : 0;
}

/* Dies of the same signal, so that the parent process sees it. */
static void die_of(int number)
{
	sigset_t one;
	sigemptyset(&one);
	sigaddset(&one, number);
	signal(number, SIG_DFL);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
}

int main(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {
		top_options, parse, NULL, "Show GPUs and jobs, full screen; '?' lists the keys.", children, NULL, NULL};
	struct top_program p = {.log_fd = -1, .signal_fd = -1};
	file_fill_stdio(true);
	setlocale(LC_ALL, "");
	argp_program_version = "gpuq " GD_VERSION;
	argp_err_exit_status = EXIT_USAGE;
	int code = subprogram_enter("gpuq top");
	if (code != 0)
		return code;
	command_parse(&argp, argc, argv, &p);
	int r = run(&p);
	code = r < 0 ? command_fail(&p.err, r) : EXIT_DONE;
	close_log(&p);
	loop_destroy(p.loop);
	top_finish(&p.top);
	screen_finish(&p.screen);
	queue_view_close(p.view);
	queue_choice_finish(&p.queue);
	if (p.signal == SIGINT)
		return EXIT_INTERRUPTED;
	if (p.signal)
		die_of(p.signal);
	return code;
}
