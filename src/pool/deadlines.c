/* SPDX-License-Identifier: MIT */
#include "pool/warden_private.h"

/*
 * A task is noticed before half of its time is over (see look_interval()); then its deadline
 * is known to the nanosecond, as the worker notes when it begins, and is believed if that lies
 * between two looks.
 */

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

/* How many of the records from..to tell the end of a task. */
static uint64_t count_answers(const struct outbox *out, uint64_t from, uint64_t to)
{
	uint64_t count = 0;
	for (uint64_t seq = from; seq != to; seq++)
		count += ring_at(outbox_descs(out), seq)->kind == RING_DONE;
	return count;
}

/*
 * How many tasks have ended, as the worker says. A lie would avert its timeout, so the
 * owner must have read the answers, or they must be there for it to read. Then the
 * task is over whatever else is true of them: the owner calls back or kills the worker.
 *
 * Each word is loaded after the one that it is stored before, so an honest count is
 * never refused. One can be for a moment if the owner reads on while we count, and the
 * worker puts other records there; a lie can be believed for a moment in the same way.
 * The next look knows better, see check_task().
 */
static uint64_t count_ended(const struct ward *ward)
{
	const struct inbox *in = ward->channel.in;
	const struct outbox *out = ward->channel.out;
	uint64_t said = atomic_load(&out->ended);
	uint64_t consumed = atomic_load(&in->consumed);
	uint64_t known = atomic_load(&in->completed);
	uint64_t head = atomic_load(&out->head);
	if (said <= known || head - consumed > RING_DEPTH || said - known > head - consumed)
		return known;
	return said - known <= count_answers(out, consumed, head) ? said : known;
}

static struct ring_desc *record(const struct ward *ward, uint64_t seq)
{
	return ring_at(inbox_descs(ward->channel.in), seq);
}

/* The task at `ended` has the worker's time from now on. */
static void watch_next(struct ward *ward, uint64_t ended, uint64_t mark, uint64_t now)
{
	ward->since = began_at(ward, ended, now);
	ward->watching = true;
	ward->watched = ended;
	ward->mark = mark;
	ward->limit_ns = record(ward, ended)->limit_ns;
}

/* Looks which task has the worker's time. False if none. */
static bool watch(struct ward *ward, uint64_t now)
{
	uint64_t head = atomic_load(&ward->channel.in->head);
	uint64_t ended = count_ended(ward);
	ward->seen_head = head;
	/* It does not go back: a worker that says less again would have its time anew. */
	if (ward->watching && ended < ward->watched)
		ended = ward->watched;
	if (ended >= head) {
		ward->watching = false;
		ward->looked = now;
		return false;
	}
	uint64_t mark = atomic_load(&record(ward, ended)->mark);
	/* Another serial number: the task was taken back before it began, and another has its place. */
	bool same = ward->watching && ward->watched == ended && mark / RING_SERIAL == ward->mark / RING_SERIAL;
	if (!same) {
		watch_next(ward, ended, mark, now);
	} else if (waits_for_room(ward)) {
		ward->since += now - ward->looked;
		ward->grace_end += ward->grace_end ? now - ward->looked : 0;
	}
	ward->looked = now;
	return true;
}

/* The end of the tasks that the worker has begun, as far as that can be true; the watched one counts as begun. */
static uint64_t begun_end(const struct ward *ward)
{
	uint64_t begun = atomic_load(&ward->channel.out->begun);
	return begun > ward->watched && begun <= ward->seen_head ? begun : ward->watched + 1;
}

/* True if a task that the worker is at was cancelled; the last of them into *ret. */
static bool find_cancelled(const struct ward *ward, uint64_t *ret)
{
	if (atomic_load(&ward->channel.in->marks) == 0)
		return false;
	for (uint64_t seq = begun_end(ward); seq > ward->watched; seq--) {
		if (atomic_load(&record(ward, seq - 1)->mark) & RING_MARK_CANCELLED) {
			*ret = seq - 1;
			return true;
		}
	}
	return false;
}

/* False if the record is no longer that task's, or has got another mark meanwhile. */
static bool set_mark(const struct ward *ward, uint64_t seq, uint64_t old, uint64_t marks)
{
	return atomic_compare_exchange_strong(&record(ward, seq)->mark, &old, old | marks);
}

/*
 * Marks the watched task, and of a batch all that have no answer: any of them may
 * have used up the time. False if it is too late for that. The last one into *ret.
 */
static bool time_out(const struct ward *ward, uint64_t *ret)
{
	uint64_t end = begun_end(ward);
	uint64_t old[RING_DEPTH];
	if (end - ward->watched > RING_DEPTH)
		end = ward->watched + 1;
	for (uint64_t seq = ward->watched; seq < end; seq++)
		old[seq - ward->watched] = atomic_load(&record(ward, seq)->mark);
	/* It may have ended the task and begun another since we looked: that one has its own time. */
	if (count_ended(ward) > ward->watched)
		return false;
	atomic_fetch_add(&ward->channel.in->marks, 1);
	uint64_t marks = RING_MARK_TIMED_OUT | (end > ward->watched + 1 ? RING_MARK_SHARED : 0);
	if (!set_mark(ward, ward->watched, ward->mark, marks))
		return false;
	for (uint64_t seq = ward->watched + 1; seq < end; seq++)
		set_mark(ward, seq, old[seq - ward->watched], marks);
	*ret = end - 1;
	return true;
}

static void begin_grace(struct warden_process *w, struct ward *ward, unsigned reason, uint64_t last, uint64_t now)
{
	ward->flags |= reason;
	ward->grace_end = now + w->plan->grace_ns;
	ward->grace_last = last;
}

/* The reason of a kill that was not needed after all is forgotten with its task. */
static void end_grace(struct ward *ward)
{
	ward->grace_end = 0;
	ward->flags &= ~(unsigned)(WARDEN_END_TASK_TIMEOUT | WARDEN_END_CANCELLED);
}

/*
 * Has on_cancel called. The worker ignores the signal while it is not in its hook, so
 * it is sent again with every look until the worker says that the call was made.
 */
static void interrupt(const struct ward *ward)
{
	const struct outbox *out = ward->channel.out;
	if ((atomic_load(&out->interruptible) & CHANNEL_INTERRUPT_TASKS) &&
		atomic_load(&out->interrupted) <= ward->watched)
		ward_interrupt(ward);
}

/* When to look again, for the sake of the tasks that come after the watched one: each has a limit of its own. */
static uint64_t next_look(const struct ward *ward, uint64_t now)
{
	uint64_t shortest = 0;
	for (uint64_t seq = ward->watched; seq < ward->seen_head; seq++)
		shortest = earlier(shortest, record(ward, seq)->limit_ns);
	return shortest ? now + look_interval(shortest) : 0;
}

/* No task has the worker's time. What the owner has not read yet may turn out to be no answer. */
static uint64_t check_unread(struct warden_process *w, struct ward *ward, uint64_t now)
{
	end_grace(ward);
	bool timed = false;
	for (uint64_t seq = atomic_load(&ward->channel.in->completed); seq < ward->seen_head && !timed; seq++)
		timed = record(ward, seq)->limit_ns || inbox_mark(ward->channel.in, seq);
	return timed ? now + look_interval(w->plan->grace_ns) : 0;
}

/* The clock of the tasks. Returns when to look again. */
static uint64_t check_task(struct warden_process *w, struct ward *ward, uint64_t now)
{
	if (!watch(ward, now))
		return check_unread(w, ward, now);
	uint64_t last;
	bool cancelled = find_cancelled(ward, &last);
	/* A worker that has not begun a cancelled task after all withdraws it. */
	bool withdrawn = !cancelled && (ward->flags & WARDEN_END_CANCELLED);
	if (ward->grace_end && (ward->watched > ward->grace_last || withdrawn))
		end_grace(ward);
	uint64_t deadline = ward->limit_ns ? ward->since + ward->limit_ns : 0;
	if (!ward->grace_end) {
		if (cancelled)
			begin_grace(w, ward, WARDEN_END_CANCELLED, last, now);
		else if (deadline && now >= deadline && time_out(ward, &last))
			begin_grace(w, ward, WARDEN_END_TASK_TIMEOUT, last, now);
	}
	if (!ward->grace_end)
		return earlier(deadline, next_look(ward, now));
	if (now >= ward->grace_end) {
		ward_kill(w, ward, 0, now);
		return ward->kill_deadline;
	}
	interrupt(ward);
	return earlier(ward->grace_end, earlier(now + look_interval(w->plan->grace_ns), next_look(ward, now)));
}

static uint64_t check_ward(struct warden_process *w, struct ward *ward, uint64_t now)
{
	struct phase_look phase = phases_check(w, ward, now);
	return phase.only ? phase.next : earlier(phase.next, check_task(w, ward, now));
}

uint64_t deadlines_check(struct warden_process *w, uint64_t now)
{
	uint64_t next = 0;
	for (size_t i = 0; i < w->plan->num_slots; i++)
		if (w->wards[i].pid)
			next = earlier(next, check_ward(w, &w->wards[i], now));
	return next;
}
