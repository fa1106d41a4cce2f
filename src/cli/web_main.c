/* SPDX-License-Identifier: MIT */
/* gpuq-web, which `gpuq web` executes: a queue as a web page and as metrics. */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/loop.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/queue_choice.h"
#include "cli/queue_view.h"
#include "cli/say.h"
#include "cli/subprogram.h"
#include "cli/web_opener.h"
#include "cli/web_options.h"
#include "view/web/web.h"
#include "view/web/web_gate.h"
#include "view/web/web_listen.h"

#define MAX_HOSTS 32

struct server {
	struct queue_choice queue;
	bool all;
	const char *listen;
	bool open_read;
	const char *hosts[MAX_HOSTS];
	size_t num_hosts;
	char made[WEB_TOKEN_ROOM];
	char *given;        /* token from the environment */
	bool given_is_full; /* it gives the same access as the generated token */
	struct queue_view *view;
	struct loop *loop;
	struct web *web;
	struct web_opener opener;
	bool stop;
	char last_error[sizeof(((struct gd_error *)0)->message)];
	struct gd_error err;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct server *s = state->input;
	int r = 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &s->queue;
		return 0;
	case WEB_OPTION_ALL:
		s->all = true;
		return 0;
	case ARGP_KEY_END:
		if (s->all && s->queue.jobs_file)
			argp_error(state, "--all cannot be used with --jobs-file");
		return 0;
	case WEB_OPTION_LISTEN:
		s->listen = arg;
		return 0;
	case WEB_OPTION_HOST:
		if (s->num_hosts == MAX_HOSTS)
			argp_error(state, "--host: more than %d names", MAX_HOSTS);
		s->hosts[s->num_hosts++] = arg;
		return 0;
	case WEB_OPTION_OPEN_READ:
		s->open_read = s->queue.for_everybody = true;
		return 0;
	case WEB_OPTION_GPUS:
		r = config_set(&s->queue.command_line, CONFIG_GPUS, "--gpus", arg, &s->err);
		break;
	case WEB_OPTION_LOG_DIR:
		r = config_set(&s->queue.command_line, CONFIG_LOG_DIR, "--log-dir", arg, &s->err);
		break;
	case ARGP_KEY_ARG:
		arguments_error(state, "unexpected argument '%s'", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (r < 0)
		arguments_error(state, "%s", s->err.message);
	return 0;
}

/*
 * On a TCP port, a permanent token gives access only to the metrics: after the server has ended, a page that is
 * still open would send it to any other process that listens on the port next. On a socket in a directory of the
 * user that cannot happen.
 *
 * The token is removed from the environment: a runner that is started from here must not pass it on to hooks.
 */
static int find_token(struct server *s)
{
	const char *given = getenv("GPUQ_WEB_TOKEN");
	int r = web_token_make(s->made);
	if (r < 0)
		return error_set(&s->err, r, "cannot create a token: %s", error_words(r));
	if (!given || !*given)
		return 0;
	if (!web_token_usable(given))
		return error_set(&s->err, -EINVAL,
			"$GPUQ_WEB_TOKEN: not a valid token; expected 16 to 256 letters, digits and -._~; "
			"'openssl rand -hex 16' creates one");
	s->given = strdup(given);
	s->given_is_full = s->listen && strncmp(s->listen, WEB_LISTEN_UNIX, sizeof(WEB_LISTEN_UNIX) - 1) == 0;
	unsetenv("GPUQ_WEB_TOKEN");
	return s->given ? 0 : error_set(&s->err, -ENOMEM, "cannot read the token: out of memory");
}

static void on_signal(void *context, uint32_t events)
{
	struct server *s = context;
	(void)events;
	s->stop = true;
}

/* An unreadable journal is reported once; the page keeps the data read before. */
static void on_news(void *context, uint32_t events)
{
	struct server *s = context;
	struct gd_error err = {0};
	(void)events;
	if (queue_view_update(s->view, &err) < 0) {
		if (strcmp(s->last_error, err.message) != 0)
			say_error(&err);
		memcpy(s->last_error, err.message, sizeof(s->last_error));
	} else {
		s->last_error[0] = '\0';
	}
	web_changed(s->web);
}

static int open_server(struct server *s)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, 0};
	int fd, r = queue_choice_resolve(&s->queue, &s->err);
	if (r == 0)
		r = find_token(s);
	if (r == 0)
		r = queue_view_open(&s->queue, &(struct queue_view_options){.may_be_empty = true, .all = s->all},
			&s->view, &s->err);
	if (r < 0)
		return r;
	r = loop_create(&s->loop);
	if (r == 0)
		r = loop_add_signals(s->loop, ends, on_signal, s, &fd);
	if (r == 0)
		r = loop_add(s->loop, queue_view_fd(s->view), EPOLLIN, on_news, s, NULL);
	if (r < 0)
		return error_set(&s->err, r, "cannot start the server: %s", error_words(r));
	return web_open(&(struct web_options){.listen = s->listen,
				.token = s->given_is_full ? s->given : s->made,
				.metrics_token = s->given,
				.open_read = s->open_read,
				.hosts = s->hosts,
				.num_hosts = s->num_hosts,
				.model = queue_view_model(s->view),
				.actions = queue_view_actions(s->view)},
		s->loop, &s->web, &s->err);
}

/* Before the address with the token: how to open it without showing the token to other users. */
static void advise(struct server *s)
{
	if (!web_socket_path(s->web) && web_opener_create(web_address(s->web), s->made, &s->opener) == 0) {
		say("to open the page on this machine: %s", s->opener.url);
		say("on another machine, paste the address below; a click on it shows the token to all users of that machine");
	} else {
		say("paste the address below; a click on it shows the token to all users of the machine with the browser");
	}
}

/* With the usual umask, everybody can read the file of `gpuq web > FILE`. */
static void protect_output(void)
{
	struct stat st;
	if (fstat(STDOUT_FILENO, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if (st.st_uid != geteuid())
		say("warning: standard output is a file of another user, who can read the token in it");
	else if ((st.st_mode & 077) != 0 && fchmod(STDOUT_FILENO, st.st_mode & 0700) < 0)
		say("warning: standard output is a file, and other users may be able to read the token in it");
	else if ((st.st_mode & 077) != 0)
		say("standard output is a file; removed the permissions of other users, because it contains the token");
}

/* The address is the only standard output: `gpuq web | head -1` prints it. A given token is not printed again. */
static int announce(struct server *s)
{
	if (web_is_public(s->web))
		say("warning: other machines can connect, and the connection is not encrypted; "
		    "use a loopback address with 'ssh -L' instead");
	const char *path = web_socket_path(s->web);
	if (path)
		say("listening on '%s'; on your own machine: ssh -o ExitOnForwardFailure=yes -L '[::1]:8765:%s' -L 127.0.0.1:8765:%s HOST",
			path, path, path);
	if (s->given_is_full) {
		printf("%s\n", WEB_UNIX_ADDRESS);
	} else {
		protect_output();
		advise(s);
		printf("%s#token=%s\n", web_address(s->web), s->made);
	}
	return fflush(stdout) != 0 ? error_set(&s->err, -errno, "cannot print the address: %s", error_words(errno)) : 0;
}

static int serve(struct server *s)
{
	int r = open_server(s);
	if (r == 0)
		r = announce(s);
	if (r < 0)
		return r;
	web_changed(s->web);
	while (r == 0 && !s->stop)
		r = loop_round(s->loop, -1);
	return r < 0 ? error_set(&s->err, r, "cannot serve requests: %s", error_words(r)) : 0;
}

int main(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {web_options, parse, "",
		"Show a queue as a live page in a browser; /metrics serves metrics for Prometheus.\v"
		"Prints the address to open. Anyone with the token in it can read all logs and environments, and change jobs. $GPUQ_WEB_TOKEN sets your own token: for /metrics, and for everything on a Unix socket.",
		children, NULL, NULL};
	struct server s = {.opener = WEB_OPENER_INIT};
	file_fill_stdio(true);
	setlocale(LC_ALL, "");
	argp_err_exit_status = EXIT_USAGE;
	argp_program_version = "gpuq " GD_VERSION;
	int code = subprogram_enter("gpuq web");
	if (code != 0)
		return code;
	command_parse(&argp, argc, argv, &s);
	signal(SIGPIPE, SIG_IGN);
	int r = serve(&s);
	code = r < 0 ? command_fail(&s.err, r) : EXIT_DONE;
	web_opener_remove(&s.opener);
	web_close(s.web);
	loop_destroy(s.loop);
	queue_view_close(s.view);
	queue_choice_finish(&s.queue);
	free(s.given);
	return code;
}
