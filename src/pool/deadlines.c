/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "pool/warden_private.h"

/*
 * How often to look at a worker that has a task. A task is noticed before half
 * of its time is over; then its deadline is known to the nanosecond, as the
 * worker notes when it begins, and is believed if that lies between two looks.
 */
static uint64_t look_interval(uint64_t timeout_ns)
{
	uint64_t ns = timeout_ns / 4;
	if (ns < NS_PER_MS)
		return NS_PER_MS;
	return ns > NS_PER_S ? NS_PER_S : ns;
}

/* True if the result waits for room because the callbacks are slow: that is not the task's time. */
static bool waits_for_room(const struct ward *ward)
{
	uint64_t wanted = atomic_load_explicit(&ward->channel.out->wanted, memory_order_relaxed);
	if (wanted == 0)
		return false;
	/* A worker that lies about it must at least have published what we have not consumed. */
	uint64_t published = atomic_load_explicit(&ward->channel.out->head, memory_order_relaxed);
	return published > atomic_load_explicit(&ward->channel.in->consumed, memory_order_relaxed);
}

static uint64_t began_at(const struct ward *ward, uint64_t task, uint64_t now)
{
	if (atomic_load(&ward->channel.out->begun) <= task)
		return now;
	uint64_t said = atomic_load_explicit(&ward->channel.out->begun_ns, memory_order_relaxed);
	return said >= ward->looked && said <= now ? said : now;
}

/*
 * How many tasks have ended, as the worker says. A lie would avert its timeout,
 * so it must lie between what the owner has read and what there is to read.
 */
uint64_t ward_ended(const struct ward *ward)
{
	const struct inbox *in = ward->channel.in;
	const struct outbox *out = ward->channel.out;
	/* Each is loaded after the one that it is stored before: what is honest is always in range. */
	uint64_t said = atomic_load(&out->ended);
	uint64_t consumed = atomic_load(&in->consumed);
	uint64_t known = atomic_load(&in->completed);
	uint64_t unread = atomic_load(&out->head) - consumed;
	if (unread > RING_DEPTH)
		return known;
	return said >= known && said - known <= unread ? said : known;
}

/* Of a batch that is out of time or cancelled, the rest has what is left of the same grace. */
static bool is_over(const struct ward *ward, uint64_t task)
{
	return atomic_load(&ward->channel.in->timed_out) > task || atomic_load(&ward->channel.in->cancelled) > task;
}

/* Looks which task has the worker's time. False if none. */
static bool watch(struct ward *ward, uint64_t now)
{
	uint64_t head = atomic_load(&ward->channel.in->head);
	uint64_t ended = ward_ended(ward);
	if (ended >= head) {
		ward->watching = false;
		ward->grace_end = 0;
	} else if (!ward->watching || ward->watched != ended) {
		ward->since = began_at(ward, ended, now);
		ward->watching = true;
		ward->watched = ended;
		if (!is_over(ward, ended))
			ward->grace_end = 0;
	} else if (waits_for_room(ward)) {
		ward->since += now - ward->looked;
	}
	ward->looked = now;
	return ward->watching;
}

/* Of a batch, all that has begun is out of time together. */
static void time_out(struct ward *ward)
{
	uint64_t until = atomic_load(&ward->channel.out->begun);
	uint64_t head = atomic_load(&ward->channel.in->head);
	/* It may have ended the task and begun another since we looked: that one has its own time. */
	if (until <= ward->watched || until > head || ward_ended(ward) != ward->watched)
		until = ward->watched + 1;
	atomic_store(&ward->channel.in->timed_out, until);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The task's clock. Returns when to look again. */
static uint64_t check_task(struct warden_process *w, struct ward *ward, uint64_t now)
{
	uint64_t timeout = w->plan->task_timeout_ns;
	if (!watch(ward, now))
		return 0;
	bool cancelled = atomic_load(&ward->channel.in->cancelled) > ward->watched;
	if (!ward->grace_end && !cancelled && timeout && now >= ward->since + timeout) {
		time_out(ward);
		ward->flags |= WARDEN_END_TASK_TIMEOUT;
		ward->grace_end = now + w->plan->grace_ns;
	} else if (!ward->grace_end && cancelled) {
		ward->flags |= WARDEN_END_CANCELLED;
		ward->grace_end = now + w->plan->grace_ns;
	}
	if (ward->grace_end && now >= ward->grace_end) {
		ward_kill(w, ward, 0, now);
		return ward->kill_deadline;
	}
	if (ward->grace_end) {
		/* If it gives up, the next task has its own time from then on. */
		uint64_t interval = look_interval(w->plan->grace_ns);
		if (timeout && look_interval(timeout) < interval)
			interval = look_interval(timeout);
		return earlier(ward->grace_end, now + interval);
	}
	if (!timeout)
		return 0;
	return earlier(ward->since + timeout, now + look_interval(timeout));
}

static uint64_t check_ward(struct warden_process *w, struct ward *ward, uint64_t now)
{
	if (ward->kill_deadline) /* dying; given up by the reaper if it does not */
		return ward->kill_deadline;
	if (!ward->closing && atomic_load(&ward->channel.out->ready))
		ward->phase_deadline = ward->setup_end = 0;
	if (ward->setup_end && now >= ward->setup_end) {
		ward_kill(w, ward, WARDEN_END_ORDERED, now);
		return ward->kill_deadline;
	}
	if (ward->phase_deadline && now >= ward->phase_deadline) {
		ward_kill(w, ward, ward->closing ? WARDEN_END_CLEANUP_TIMEOUT : WARDEN_END_SETUP_TIMEOUT, now);
		return ward->kill_deadline;
	}
	/* The reason of a kill that was not needed after all is forgotten with its task. */
	if (!ward->grace_end)
		ward->flags &= ~(unsigned)(WARDEN_END_TASK_TIMEOUT | WARDEN_END_CANCELLED);
	return earlier(earlier(ward->phase_deadline, ward->setup_end), check_task(w, ward, now));
}

uint64_t deadlines_check(struct warden_process *w, uint64_t now)
{
	uint64_t next = 0;
	for (size_t i = 0; i < w->plan->num_slots; i++)
		if (w->wards[i].pid)
			next = earlier(next, check_ward(w, &w->wards[i], now));
	return next;
}
