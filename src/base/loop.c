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
	struct loop_source *next_deferred;
	bool deferred;
	loop_fn *fn; /* NULL: removed, released at the end of the round */
	void *context;
	int fd;
	bool own_fd;
	bool timer;
	uint32_t events;      /* of a descriptor of the caller */
	uint64_t deadline_ns; /* of a timer; 0: none */
	uint64_t armed_ns;    /* when the kernel's timer expires, at or before the deadline; 0: not armed */
};

struct loop {
	int epoll_fd;
	struct loop_source *sources;
	struct loop_source *removed;
	struct loop_source *deferred, **last_deferred;
};

int loop_create(struct loop **ret)
{
	struct loop *l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->last_deferred = &l->deferred;
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
	*s = (struct loop_source){
		.loop = l, .next = l->sources, .fn = fn, .context = context, .fd = fd, .events = events};
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
	if (s->events == events)
		return 0;
	if (epoll_ctl(s->loop->epoll_fd, EPOLL_CTL_MOD, s->fd, &e) < 0)
		return -errno;
	s->events = events;
	return 0;
}

void loop_defer(struct loop_source *s)
{
	if (s->deferred)
		return;
	s->deferred = true;
	s->next_deferred = NULL;
	*s->loop->last_deferred = s;
	s->loop->last_deferred = &s->next_deferred;
}

static struct loop_source *first_deferred(struct loop *l)
{
	struct loop_source *s = l->deferred;
	if (!s)
		return NULL;
	l->deferred = s->next_deferred;
	if (!l->deferred)
		l->last_deferred = &l->deferred;
	s->deferred = false;
	return s;
}

static void forget_deferred(struct loop *l, const struct loop_source *s)
{
	struct loop_source **p = &l->deferred;
	if (!s->deferred)
		return;
	while (*p != s)
		p = &(*p)->next_deferred;
	*p = s->next_deferred;
	if (!*p)
		l->last_deferred = p;
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

static int arm(struct loop_source *timer, uint64_t at_ns)
{
	struct itimerspec t = {.it_value = {(time_t)(at_ns / NS_PER_S), (long)(at_ns % NS_PER_S)}};
	if (timerfd_settime(timer->fd, TFD_TIMER_ABSTIME, &t, NULL) < 0)
		return -errno;
	timer->armed_ns = at_ns;
	return 0;
}

/* Busy loops set their deadline in every round, usually to a later time: the kernel's timer is then moved only after it
 * has expired. */
int loop_set_deadline(struct loop_source *timer, uint64_t deadline_ns)
{
	timer->deadline_ns = deadline_ns;
	if (deadline_ns == 0 || (timer->armed_ns && timer->armed_ns <= deadline_ns))
		return 0;
	return arm(timer, deadline_ns);
}

int loop_advance_deadline(struct loop_source *timer, uint64_t deadline_ns)
{
	if (timer->deadline_ns && timer->deadline_ns <= deadline_ns)
		return 0;
	return loop_set_deadline(timer, deadline_ns);
}

/* Whether the deadline has passed. */
static bool take_deadline(struct loop_source *timer)
{
	uint64_t expired;
	if (read(timer->fd, &expired, sizeof(expired)) < 0)
		return false; /* set again since it was ready */
	timer->armed_ns = 0;
	if (timer->deadline_ns == 0)
		return false;
	/* If the timer cannot be set, call too early rather than never. */
	if (timer->deadline_ns > clock_now_ns() && arm(timer, timer->deadline_ns) == 0)
		return false;
	timer->deadline_ns = 0;
	return true;
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
	forget_deferred(l, s);
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
	for (struct loop_source *s; (s = first_deferred(l));)
		s->fn(s->context, 0);
	int n = epoll_wait(l->epoll_fd, events, ROUND_EVENTS, timeout_ms);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		struct loop_source *s = events[i].data.ptr;
		if (!s->fn)
			continue;
		if (s->timer && !take_deadline(s))
			continue;
		s->fn(s->context, s->timer ? 0 : events[i].events);
	}
	release_removed(l);
	return 0;
}
