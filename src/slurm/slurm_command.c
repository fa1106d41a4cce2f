/* SPDX-License-Identifier: MIT */
#include "slurm/slurm_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/text.h"

extern char **environ;

/* A command that has closed its output is about to exit: poll at this interval. */
#define REAP_AGAIN_MS 5
/* Standard error is only shown to users, so keep little of it. */
#define MOST_COMPLAINTS ((size_t)4096)

struct slurm_command {
	struct loop *loop;
	slurm_command_fn *fn; /* NULL: it has ended or was cancelled, and waits to be reaped */
	void *context;
	pid_t pid;
	int fds[2]; /* standard output and standard error; -1: at its end */
	struct loop_source *sources[2], *timer;
	struct text out, err;
	uint64_t deadline_ns;
};

static bool is_setting(const char *entry)
{
	return strncmp(entry, "SQUEUE_", 7) == 0 || strncmp(entry, "SINFO_", 6) == 0 ||
	       strncmp(entry, "SLURM_TIME_FORMAT=", 18) == 0 || strncmp(entry, "TZ=", 3) == 0 ||
	       strncmp(entry, "LC_", 3) == 0 || strncmp(entry, "LANG=", 5) == 0;
}

static char **make_environment(void)
{
	static char zone[] = "TZ=UTC", language[] = "LC_ALL=C";
	size_t n = 0, kept = 0;
	while (environ[n])
		n++;
	char **made = calloc(n + 3, sizeof(*made));
	for (size_t i = 0; made && i < n; i++)
		if (!is_setting(environ[i]))
			made[kept++] = environ[i];
	if (made) {
		made[kept++] = zone;
		made[kept] = language;
	}
	return made;
}

static void close_output(struct slurm_command *c, int which)
{
	loop_remove(c->sources[which]);
	c->sources[which] = NULL;
	close_fd(&c->fds[which]);
}

static void destroy(struct slurm_command *c)
{
	for (int i = 0; i < 2; i++)
		close_output(c, i);
	loop_remove(c->timer);
	text_finish(&c->out);
	text_finish(&c->err);
	free(c);
}

static void report(struct slurm_command *c, int result)
{
	slurm_command_fn *fn = c->fn;
	c->fn = NULL;
	if (fn)
		fn(c->context, result, text_string(&c->out), c->out.length, text_string(&c->err));
}

/* Reaps the process, or tries again later. */
static void reap(struct slurm_command *c)
{
	int status;
	pid_t pid = waitpid(c->pid, &status, WNOHANG);
	if (pid == 0) {
		loop_set_deadline(c->timer, clock_now_ns() + REAP_AGAIN_MS * NS_PER_MS);
		return;
	}
	bool fine = pid == c->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	report(c, fine ? 0 : -ECHILD);
	destroy(c);
}

/* The command has its own process group. */
static void give_up(struct slurm_command *c, int result)
{
	kill(-c->pid, SIGKILL);
	kill(c->pid, SIGKILL);
	for (int i = 0; i < 2; i++)
		close_output(c, i);
	report(c, result);
	reap(c);
}

static void on_timer(void *context, uint32_t events)
{
	struct slurm_command *c = context;
	(void)events;
	if (c->fn && clock_now_ns() >= c->deadline_ns)
		give_up(c, -ETIMEDOUT);
	else if (c->fds[0] < 0 && c->fds[1] < 0)
		reap(c);
	else
		loop_set_deadline(c->timer, c->deadline_ns);
}

static void on_output(struct slurm_command *c, int which)
{
	char buf[65536];
	struct text *t = which == 0 ? &c->out : &c->err;
	ssize_t n = read(c->fds[which], buf, sizeof(buf));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		if (which == 0 || t->length + (size_t)n <= MOST_COMPLAINTS)
			text_append(t, buf, (size_t)n);
		if (t->length > SLURM_COMMAND_OUTPUT_MAX || text_error(t))
			give_up(c, text_error(t) ? -ENOMEM : -EFBIG);
		return;
	}
	close_output(c, which);
	if (c->fds[0] < 0 && c->fds[1] < 0)
		reap(c);
}

static void on_out(void *context, uint32_t events)
{
	(void)events;
	on_output(context, 0);
}

static void on_err(void *context, uint32_t events)
{
	(void)events;
	on_output(context, 1);
}

static int spawn(struct slurm_command *c, const char *const *argv, int out, int err)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	cleanup_(freep) char **environment = make_environment();
	if (!environment)
		return -ENOMEM;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_adddup2(&actions, err, 2);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	int r = posix_spawnp(&c->pid, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return -r;
}

int slurm_command_start(struct loop *l, const char *const *argv, int64_t timeout_ms, slurm_command_fn *fn,
	void *context, struct slurm_command **ret)
{
	int out[2], err[2];
	struct slurm_command *c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	*c = (struct slurm_command){.loop = l, .fn = fn, .context = context, .fds = {-1, -1}};
	c->deadline_ns = clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	int r = pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0 ? -errno : 0;
	if (r == 0) {
		c->fds[0] = out[0];
		r = pipe2(err, O_CLOEXEC | O_NONBLOCK) < 0 ? -errno : 0;
		if (r < 0)
			close(out[1]);
	}
	if (r == 0) {
		c->fds[1] = err[0];
		/* Commands expect blocking writes. */
		fcntl(out[1], F_SETFL, 0);
		fcntl(err[1], F_SETFL, 0);
		r = loop_add(l, out[0], EPOLLIN, on_out, c, &c->sources[0]);
		if (r == 0)
			r = loop_add(l, err[0], EPOLLIN, on_err, c, &c->sources[1]);
		if (r == 0)
			r = loop_add_timer(l, on_timer, c, &c->timer);
		if (r == 0)
			r = spawn(c, argv, out[1], err[1]);
		close(out[1]);
		close(err[1]);
	}
	if (r < 0) {
		destroy(c);
		return r;
	}
	loop_set_deadline(c->timer, c->deadline_ns);
	*ret = c;
	return 0;
}

void slurm_command_cancel(struct slurm_command *c)
{
	if (!c)
		return;
	c->fn = NULL;
	give_up(c, -ECANCELED);
}
