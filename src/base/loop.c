/* SPDX-License-Identifier: MIT */
#include "base/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define ROUND_EVENTS 64

struct loop_source {
	struct loop *loop;
	struct loop_source *next, *previous;
	loop_fn *fn; /* NULL: removed, released at the end of the round */
	void *context;
	int fd;
	bool own_fd;
	bool timer;
	bool armed; /* a timer whose deadline was not reported yet */
};

struct loop {
	int epoll_fd;
	struct loop_source *sources;
	struct loop_source *removed;
};

int loop_create(struct loop **ret)
{
	struct loop *l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0) {
		int r = -errno;
		free(l);
		return r;
	}
	*ret = l;
	return 0;
}

static void release_removed(struct loop *l)
{
	while (l->removed) {
		struct loop_source *s = l->removed;
		l->removed = s->next;
		free(s);
	}
}

void loop_destroy(struct loop *l)
{
	if (!l)
		return;
	while (l->sources)
		loop_remove(l->sources);
	release_removed(l);
	close(l->epoll_fd);
	free(l);
}

int loop_add(struct loop *l, int fd, uint32_t events, loop_fn *fn, void *context, struct loop_source **ret)
{
	struct loop_source *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	*s = (struct loop_source){.loop = l, .next = l->sources, .fn = fn, .context = context, .fd = fd};
	struct epoll_event e = {.events = events, .data.ptr = s};
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0) {
		int r = -errno;
		free(s);
		return r;
	}
	if (l->sources)
		l->sources->previous = s;
	l->sources = s;
	if (ret)
		*ret = s;
	return 0;
}

int loop_change(struct loop_source *s, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = s};
	return epoll_ctl(s->loop->epoll_fd, EPOLL_CTL_MOD, s->fd, &e) < 0 ? -errno : 0;
}

/* Adds a descriptor that is closed with its source. It is still the caller's on failure. */
static int add_own_fd(struct loop *l, int fd, loop_fn *fn, void *context, struct loop_source **ret)
{
	struct loop_source *s = NULL;
	int r = loop_add(l, fd, EPOLLIN, fn, context, &s);
	if (r < 0)
		return r;
	s->own_fd = true;
	*ret = s;
	return 0;
}

int loop_add_timer(struct loop *l, loop_fn *fn, void *context, struct loop_source **ret)
{
	cleanup_(closep) int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	struct loop_source *s;
	int r = add_own_fd(l, fd, fn, context, &s);
	if (r < 0)
		return r;
	take_fd(&fd);
	s->timer = true;
	*ret = s;
	return 0;
}

int loop_set_deadline(struct loop_source *timer, uint64_t deadline_ns)
{
	/* Set in every round of busy loops. */
	if (deadline_ns == 0 && !timer->armed)
		return 0;
	struct itimerspec t = {.it_value = {(time_t)(deadline_ns / NS_PER_S), (long)(deadline_ns % NS_PER_S)}};
	if (timerfd_settime(timer->fd, TFD_TIMER_ABSTIME, &t, NULL) < 0)
		return -errno;
	timer->armed = deadline_ns != 0;
	return 0;
}

int loop_add_signals(struct loop *l, const int *signals, loop_fn *fn, void *context, int *ret_fd)
{
	sigset_t set;
	sigemptyset(&set);
	for (; *signals; signals++)
		sigaddset(&set, *signals);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	cleanup_(closep) int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	struct loop_source *s;
	int r = add_own_fd(l, fd, fn, context, &s);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

void loop_remove(struct loop_source *s)
{
	if (!s || !s->fn)
		return;
	struct loop *l = s->loop;
	epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
	if (s->own_fd)
		close(s->fd);
	if (s->previous)
		s->previous->next = s->next;
	else
		l->sources = s->next;
	if (s->next)
		s->next->previous = s->previous;
	s->fn = NULL;
	s->next = l->removed;
	l->removed = s;
}

int loop_round(struct loop *l, int timeout_ms)
{
	struct epoll_event events[ROUND_EVENTS];
	int n = epoll_wait(l->epoll_fd, events, ROUND_EVENTS, timeout_ms);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		struct loop_source *s = events[i].data.ptr;
		if (!s->fn)
			continue;
		uint64_t expired;
		if (s->timer && read(s->fd, &expired, sizeof(expired)) < 0)
			continue; /* set again since it was ready */
		s->armed = false;
		s->fn(s->context, s->timer ? 0 : events[i].events);
	}
	release_removed(l);
	return 0;
}
