/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "pool/event_counter.h"
#include "pool/pool_private.h"

#define PROGRESS_NS (100 * NS_PER_MS)
#define PATIENT_NS  (100 * NS_PER_MS)
#define LOOK_EVERY  16 /* turns */
#define TURNS_MAX   8  /* in one gd_pool_poll(), while callbacks are due */
#define FEW         4  /* tasks: with more, answers accumulate during a sleep, and workers may need the processor */

static bool answers_there(const struct gd_pool *p)
{
	for (size_t i = 0; i < p->num_slots; i++) {
		const struct slot *s = &p->slots[i];
		if (s->channel.out && !s->broken &&
			atomic_load_explicit(&s->channel.out->head, memory_order_relaxed) != s->consumed)
			return true;
	}
	return false;
}

static bool is_awaited(void *context)
{
	struct gd_pool *p = context;
	return answers_there(p) || atomic_load_explicit(&p->interrupted, memory_order_relaxed);
}

static bool has_few(const struct gd_pool *p)
{
	size_t outstanding = pool_outstanding(p);
	return outstanding > 0 && outstanding <= FEW;
}

/* Tells the workers that the owner waits for their answers. */
static void note_wait(struct gd_pool *p)
{
	for (size_t i = 0; i < p->num_slots; i++)
		if (p->slots[i].channel.in)
			channel_note_wait(&p->slots[i].channel);
}

bool pool_look(struct gd_pool *p)
{
	if (!has_few(p))
		return false;
	note_wait(p);
	return channel_look(&p->looks, is_awaited, p);
}

/*
 * From here on the first answer of each worker makes event_fd readable, and so do a
 * stop, a cancelled task, an interrupt, and the end of the last outstanding task (for_tasks: the caller
 * waits for that; an abandoned draft ends without an answer). True if one of them has
 * happened already: its event may be among those that are cleared here.
 */
static bool arm(struct gd_pool *p, bool for_tasks)
{
	if (p->signalled)
		event_counter_lower(p->event_fd);
	p->signalled = false;
	p->arm++;
	for (size_t i = 0; i < p->num_slots; i++)
		if (p->slots[i].channel.in)
			atomic_store_explicit(&p->slots[i].channel.in->armed, p->arm, memory_order_relaxed);
	note_wait(p);
	/* We store our flag before we load the worker's position; the worker does the reverse. */
	atomic_thread_fence(memory_order_seq_cst);
	return answers_there(p) || pool_stop_asked(p) > p->stop_done || atomic_load(&p->interrupted) ||
	       atomic_load(&p->cancelling) || (for_tasks && pool_outstanding(p) == 0);
}

static void handle_timer(struct gd_pool *p)
{
	event_counter_lower(p->timer_fd);
	p->timer_at = 0;
	pthread_mutex_lock(&p->lock);
	pool_balance(p);
	pthread_mutex_unlock(&p->lock);
}

/* Handles the ready descriptors after a wait. The event's counter is not cleared: see arm(). */
static void look(struct gd_pool *p, int timeout_ms)
{
	struct epoll_event events[4];
	int n = epoll_wait(p->epoll_fd, events, 4, timeout_ms);
	if (n < 0 && errno == EINTR)
		p->woken_by_signal = true;
	bool reports = false;
	for (int i = 0; i < n; i++) {
		int fd = events[i].data.fd;
		if (fd == p->event_fd)
			p->signalled = true;
		else if (fd == p->timer_fd)
			handle_timer(p);
		else
			reports = true;
	}
	if (reports)
		pool_read_reports(p);
}

/* Sets the timer, unless it already expires sooner. */
static void set_timer_in(struct gd_pool *p, uint64_t wait_ns, bool soon)
{
	uint64_t at = clock_now_ns() + wait_ns;
	if (p->timer_at && p->timer_at <= at)
		return;
	struct itimerspec in_a_moment = {.it_value = {.tv_nsec = (long)wait_ns}};
	if (timerfd_settime(p->timer_fd, 0, &in_a_moment, NULL) < 0)
		return;
	p->timer_at = at;
	p->timer_soon = soon;
}

/* After arm(): a thread that needs a timer from now on makes event_fd readable, see pool_need_timer(). */
static void set_timer(struct gd_pool *p)
{
	if (p->timer_at && p->timer_soon)
		return;
	pthread_mutex_lock(&p->lock);
	bool soon = pool_wants_balance(p) || p->stalled;
	p->stalled = false;
	bool patient = !backlog_is_empty(
		&p->again); /* see pool_hand_out(): some tasks wait for a worker that may never be ready */
	p->untimed = !soon;
	uint64_t fair_ns = fair_start_wait_ns(p);
	pthread_mutex_unlock(&p->lock);
	uint64_t wait_ns = soon ? NS_PER_MS : patient ? PATIENT_NS : 0;
	if (fair_ns > 0 && (wait_ns == 0 || fair_ns < wait_ns))
		wait_ns = fair_ns < PATIENT_NS ? fair_ns : PATIENT_NS; /* then the timer is set again */
	if (!soon && p->restart_at) {
		uint64_t now = clock_now_ns();
		wait_ns = p->restart_at > now ? p->restart_at - now : 1;
	}
	if (wait_ns > 0)
		set_timer_in(p, wait_ns, soon);
}

void pool_turn(struct gd_pool *p)
{
	for (size_t i = 0; i < p->num_slots; i++)
		pool_read_answers(p, &p->slots[i]);
	if (pool_owes_room(p, p->limit - 1) && !answers_there(p))
		pool_tell_room(p);
	/* Check the descriptors for deaths and deadlines even while answers keep coming. */
	if (++p->turns % LOOK_EVERY == 0)
		look(p, 0);
	pool_try_starts(p);
	if (p->doomed)
		pool_conclude_doomed(p);
	if (atomic_load_explicit(&p->cancelling, memory_order_relaxed))
		pool_cancel_turn(p);
	pool_stop_turn(p);
	pool_recycle(p);
	pool_progress(p, false);
}

void pool_wait(struct gd_pool *p, uint64_t deadline_ns, bool for_tasks)
{
	if (pool_look(p))
		return;
	if (arm(p, for_tasks)) {
		look(p, 0);
		return;
	}
	set_timer(p);
	look(p, deadline_ns == UINT64_MAX ? -1 : clock_ms_until(deadline_ns, clock_now_ns()));
}

void pool_progress_now(struct gd_pool *p, bool last)
{
	uint64_t now = clock_now_ns();
	if (!last && now < p->progress_at)
		return;
	struct gd_stats stats;
	gd_pool_stats(p, &stats, sizeof(stats));
	uint64_t seen =
		stats.submitted + stats.completed + stats.failed + stats.timeouts + stats.cancelled + stats.running;
	if (!last && seen == p->progress_seen)
		return;
	p->progress_seen = seen;
	p->progress_at = now + PROGRESS_NS;
	p->in_callback = true;
	p->callbacks.on_progress(p->callbacks.context, &stats);
	p->in_callback = false;
}

/* Whether to keep waiting after the end of the last task. */
static bool waits_idle(const struct gd_pool *p, unsigned flags)
{
	return (flags & GD_POLL_IDLE) && p->stop_done == 0 && p->alive > 0;
}

/* What gd_pool_poll() returns when there is nothing left to wait for; 1: there is something. */
static int nothing_left(struct gd_pool *p, unsigned flags)
{
	if (pool_outstanding(p) > 0)
		return 1;
	if (p->stop_done > 0)
		return -ECANCELED;
	return p->alive == 0 ? -ENODEV : waits_idle(p, flags);
}

/*
 * An event loop of the caller waits for the descriptor next. After callbacks it stays
 * readable: there may be more, and a caller that polls again at once saves the wait. After a poll without callbacks, it
 * becomes readable with the next answer, or with the end of the last task if gd_pool_poll() has found some outstanding.
 */
static void stay_readable(struct gd_pool *p, bool outstanding)
{
	if (p->made == 0 && !arm(p, outstanding)) {
		set_timer(p);
		return;
	}
	if (!p->signalled)
		pool_signal(p);
	p->signalled = true;
}

int gd_pool_poll(struct gd_pool *p, int timeout_ms, unsigned flags)
{
	if (p->in_callback)
		return -EDEADLK;
	if (flags & ~(unsigned)(GD_POLL_SIGNALS | GD_POLL_IDLE))
		return -EINVAL;
	pthread_mutex_lock(&p->lock);
	p->poller = pthread_self();
	pthread_mutex_unlock(&p->lock);
	p->made = 0;
	if (has_few(p))
		note_wait(p); /* even if answers are available: a worker that gets one task at a time must not nap */
	uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : 0;
	if (timeout_ms > 0)
		deadline = clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	if (timeout_ms == 0 && !answers_there(p))
		look(p, 0);

	int result = 0;
	bool outstanding = false;
	for (;;) {
		int before = -1;
		for (int turn = 0; turn < TURNS_MAX && p->made != before; turn++) {
			before = p->made;
			pool_turn(p);
		}
		if (p->made > 0)
			break;
		bool interrupted = atomic_exchange(&p->interrupted, false);
		result = nothing_left(p, flags); /* even when interrupted, because a stop interrupts, too */
		outstanding = result > 0 && !waits_idle(p, flags);
		if (result <= 0)
			break;
		result = 0;
		if (interrupted)
			break;
		if (timeout_ms >= 0 && clock_now_ns() >= deadline)
			break;
		p->woken_by_signal = false;
		pool_wait(p, deadline, outstanding);
		if (p->woken_by_signal && (flags & GD_POLL_SIGNALS)) {
			result = -EINTR; /* report it now: callbacks that are due would hide it */
			atomic_store(&p->interrupted, false);
			break;
		}
	}
	if (pool_owes_room(p, p->limit - 1))
		pool_tell_room(p);
	stay_readable(p, outstanding);
	return p->made > 0 ? p->made : result;
}

void pool_signal(struct gd_pool *p)
{
	event_counter_raise(p->event_fd);
}

void gd_pool_interrupt(struct gd_pool *p)
{
	atomic_store(&p->interrupted, true);
	pool_signal(p);
}

int gd_pool_fd(const struct gd_pool *p)
{
	return p->epoll_fd;
}
