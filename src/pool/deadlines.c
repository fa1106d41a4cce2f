/* SPDX-License-Identifier: MIT */
#include "pool/warden_private.h"

/*
 * The warden notices a task before half of its time is over (see look_interval()). From then on its deadline is exact:
 * the worker notes when the task began, and that time is accepted if it lies between two checks.
 */

/* True if the result waits for space because the callbacks are slow: the task's clock does not run then. */
static bool waits_for_room(const struct ward *ward)
{
	uint64_t wanted = atomic_load_explicit(&ward->channel.out->wanted, memory_order_relaxed);
	if (wanted == 0)
		return false;
	/* A worker can report this falsely only if it has published records that we have not consumed. */
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

/* How many of the records from..to end a task. */
static uint64_t count_answers(const struct outbox *out, uint64_t from, uint64_t to)
{
	uint64_t count = 0;
	for (uint64_t seq = from; seq != to; seq++)
		count += ring_at(outbox_descs(out), seq)->kind == RING_DONE;
	return count;
}

/*
 * The number of tasks that have ended, as the worker reports it. A false report would prevent a timeout, so the owner
 * must have read the answers, or they must be available for it to read. Then the task is over in any case: the owner
 * either makes the callback or kills the worker.
 *
 * Each word is loaded after the one that it is stored before, so a correct count is never refused for long. It can be
 * refused for a moment if the owner continues to read while we count, and the worker puts other records there; a false
 * count can be accepted for a moment in the same way. The next check corrects that, see check_task().
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

/* The worker spends its time on the task at `ended` from now on. */
static void watch_next(struct ward *ward, uint64_t ended, uint64_t mark, uint64_t now)
{
	ward->since = began_at(ward, ended, now);
	ward->watching = true;
	ward->watched = ended;
	ward->mark = mark;
	ward->limit_ns = record(ward, ended)->limit_ns;
}

/* Finds the task that the worker spends its time on. False if there is none. */
static bool watch(struct ward *ward, uint64_t now)
{
	uint64_t head = atomic_load(&ward->channel.in->head);
	uint64_t ended = count_ended(ward);
	ward->seen_head = head;
	/* Never decreases: otherwise a worker that reports less again would restart its clock. */
	if (ward->watching && ended < ward->watched)
		ended = ward->watched;
	if (ended >= head) {
		ward->watching = false;
		ward->looked = now;
		return false;
	}
	uint64_t mark = atomic_load(&record(ward, ended)->mark);
	/* Another serial number: the task was taken back before it began, and another one took its place. */
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

/* True if a task that the worker is processing was cancelled; *ret is the last such task. */
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

/* False if the record belongs to another task now, or was marked meanwhile. */
static bool set_mark(const struct ward *ward, uint64_t seq, uint64_t old, uint64_t marks)
{
	return atomic_compare_exchange_strong(&record(ward, seq)->mark, &old, old | marks);
}

/*
 * Marks the watched task and, in a batch, all tasks without an answer, because any of them may have used up the time.
 * Returns false if it is too late. *ret is the last marked task.
 */
static bool time_out(const struct ward *ward, uint64_t *ret)
{
	uint64_t end = begun_end(ward);
	uint64_t old[RING_DEPTH];
	if (end - ward->watched > RING_DEPTH)
		end = ward->watched + 1;
	for (uint64_t seq = ward->watched; seq < end; seq++)
		old[seq - ward->watched] = atomic_load(&record(ward, seq)->mark);
	/* The worker may have ended the task and begun another since we looked: that one has its own time. */
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

/* If the kill was not needed after all, the reason for it is forgotten with the task. */
static void end_grace(struct ward *ward)
{
	ward->grace_end = 0;
	ward->flags &= ~(unsigned)(WARDEN_END_TASK_TIMEOUT | WARDEN_END_CANCELLED);
}

/*
 * Makes the worker call on_cancel. The worker ignores the signal outside of its hook, so it is sent again at every
 * check until the worker reports the call.
 */
static void interrupt(const struct ward *ward)
{
	const struct outbox *out = ward->channel.out;
	if ((atomic_load(&out->interruptible) & CHANNEL_INTERRUPT_TASKS) &&
		atomic_load(&out->interrupted) <= ward->watched)
		ward_interrupt(ward);
}

/* When to check again because of the tasks after the watched one: each has its own time limit. */
static uint64_t next_look(const struct ward *ward, uint64_t now)
{
	uint64_t shortest = 0;
	for (uint64_t seq = ward->watched; seq < ward->seen_head; seq++)
		shortest = earlier(shortest, record(ward, seq)->limit_ns);
	return shortest ? now + look_interval(shortest) : 0;
}

/* The worker is processing no task. Records that the owner has not read yet may turn out not to be answers. */
static uint64_t check_unread(struct warden_process *w, struct ward *ward, uint64_t now)
{
	end_grace(ward);
	bool timed = false;
	for (uint64_t seq = atomic_load(&ward->channel.in->completed); seq < ward->seen_head && !timed; seq++)
		timed = record(ward, seq)->limit_ns || inbox_mark(ward->channel.in, seq);
	return timed ? now + look_interval(w->plan->grace_ns) : 0;
}

/* Enforces the time limits of tasks. Returns when to check again. */
static uint64_t check_task(struct warden_process *w, struct ward *ward, uint64_t now)
{
	if (!watch(ward, now))
		return check_unread(w, ward, now);
	uint64_t last;
	bool cancelled = find_cancelled(ward, &last);
	/* The worker had announced a cancelled task as begun, but has not begun it after all. */
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
