/* SPDX-License-Identifier: MIT */
/*
 * Memory ordering that the two sides of a channel rely on, each pattern separately: two threads run one half each,
 * started together, very often, and forbidden outcomes are counted.
 *
 * Patterns that need a fence have a control: the same without the fence. A control
 * that shows the forbidden outcome proves that the test can see it on this machine;
 * one that does not is reported, because nothing can be concluded from it: the threads may have shared a processor.
 * test_memory_model.py checks the patterns for all machines.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pool/channel.h"

#define PATTERN_NS NS_PER_S /* for each */
#define AHEAD_NS   400      /* until the other thread has seen the start signal */
#define ROUNDS_MAX 2000000u
#define SPINS      100000u /* before it yields: while each half has its own processor, neither must yield */

struct litmus {
	_Alignas(RING_LINE) _Atomic uint64_t gun; /* number of the round that may begin */
	_Alignas(RING_LINE) _Atomic uint64_t arrived[2];
	_Atomic bool over;
	uint64_t fire_ns;
	struct channel ours;   /* the owner's notes */
	struct channel theirs; /* the worker's */
	struct ring ring;
	uint64_t seen[2]; /* what each half saw in this round */
	uint64_t forbidden;
	uint64_t rounds;
};

struct pattern {
	void (*reset)(struct litmus *l);
	void (*half[2])(struct litmus *l); /* owner, worker */
	bool (*is_forbidden)(const struct litmus *l);
};

struct runner {
	struct litmus *litmus;
	const struct pattern *pattern;
	bool stop_at_first;
};

static void spin_until(const _Atomic uint64_t *word, uint64_t value)
{
	for (unsigned i = 1; atomic_load_explicit(word, memory_order_acquire) < value; i++)
		if (i % SPINS == 0)
			sched_yield(); /* they may share a processor */
}

/* Both begin at the time in fire_ns, one of them a little later: so that the halves meet at all time differences. */
static void fire(const struct litmus *l, uint64_t late)
{
	while (clock_now_ns() < l->fire_ns)
		;
	for (volatile uint64_t i = 0; i < late; i++)
		;
}

/* Each half on its own processor, if there are two: on one, nothing is ever reordered. */
static void pin(int which)
{
	cpu_set_t all, one;
	if (sched_getaffinity(0, sizeof(all), &all) < 0 || CPU_COUNT(&all) < 2)
		return;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
		if (CPU_ISSET(cpu, &all) && which-- == 0)
			CPU_SET(cpu, &one);
	if (pthread_setaffinity_np(pthread_self(), sizeof(one), &one) != 0)
		print_message("the threads could not be pinned\n");
}

static void *run_worker(void *context)
{
	const struct runner *r = context;
	struct litmus *l = r->litmus;
	pin(1);
	for (uint64_t round = 1;; round++) {
		spin_until(&l->gun, round);
		if (atomic_load(&l->over))
			return NULL;
		fire(l, round % 32);
		r->pattern->half[1](l);
		atomic_store_explicit(&l->arrived[1], round, memory_order_release);
	}
}

static void *run_owner(void *context)
{
	const struct runner *r = context;
	struct litmus *l = r->litmus;
	const struct pattern *p = r->pattern;
	pin(0);
	uint64_t end = clock_now_ns() + PATTERN_NS;
	for (uint64_t round = 1; round <= ROUNDS_MAX; round++) {
		p->reset(l);
		l->fire_ns = clock_now_ns() + AHEAD_NS;
		atomic_store_explicit(&l->gun, round, memory_order_release);
		fire(l, round / 32 % 32);
		p->half[0](l);
		spin_until(&l->arrived[1], round);
		l->rounds = round;
		l->forbidden += p->is_forbidden(l);
		if ((r->stop_at_first && l->forbidden) || (round % 16 == 0 && clock_now_ns() > end))
			break;
	}
	atomic_store(&l->over, true);
	atomic_store(&l->gun, UINT64_MAX);
	return NULL;
}

static uint64_t count_forbidden(const struct pattern *p, bool stop_at_first)
{
	struct litmus *l = aligned_alloc(RING_LINE, sizeof(*l));
	struct inbox *in = aligned_alloc(4096, INBOX_SIZE / 4096 * 4096 + 4096);
	struct outbox *out = aligned_alloc(4096, CHANNEL_DESCS(sizeof(*out)));
	assert_true(l && in && out);
	memset(l, 0, sizeof(*l));
	memset(in, 0, sizeof(*in));
	memset(out, 0, sizeof(*out));
	l->ours = l->theirs = (struct channel){.in = in, .out = out};
	ring_init(&l->ring, inbox_descs(in), inbox_arena(in), 65536);
	struct runner r = {.litmus = l, .pattern = p, .stop_at_first = stop_at_first};
	pthread_t owner, worker;
	assert_int_equal(pthread_create(&worker, NULL, run_worker, &r), 0);
	assert_int_equal(pthread_create(&owner, NULL, run_owner, &r), 0);
	assert_int_equal(pthread_join(owner, NULL), 0);
	assert_int_equal(pthread_join(worker, NULL), 0);
	uint64_t forbidden = l->forbidden;
	print_message("%llu rounds, forbidden outcome in %llu\n", (unsigned long long)l->rounds,
		(unsigned long long)forbidden);
	free(l);
	free(in);
	free(out);
	return forbidden;
}

static void expect_never(const struct pattern *p)
{
	assert_int_equal(count_forbidden(p, false), 0);
}

static void expect_seen(const struct pattern *control)
{
	if (count_forbidden(control, true) == 0)
		print_message("the control without a fence did not fail here: no conclusion\n");
}

/* ---- Taking back: a task is begun there or taken back here, never both --- */

static void reset_take_back(struct litmus *l)
{
	atomic_store(&l->ours.in->head, 1);
	atomic_store(&l->ours.in->round, 0);
	atomic_store(&l->ours.out->begun, 0);
	l->ring.head = 1;
}

static void take_back(struct litmus *l)
{
	struct ring_words words = {
		.head = &l->ours.in->head, .round = &l->ours.in->round, .begun = &l->ours.out->begun};
	l->seen[0] = ring_take_back(&l->ring, 0, words);
}

static void begin(struct litmus *l)
{
	l->seen[1] = ring_begin(&l->theirs.out->begun, 1, &l->theirs.in->round, 0);
}

static void begin_without_fence(struct litmus *l)
{
	atomic_store_explicit(&l->theirs.out->begun, 1, memory_order_relaxed);
	l->seen[1] = atomic_load_explicit(&l->theirs.in->round, memory_order_acquire) == 0;
}

static bool begun_and_taken_back(const struct litmus *l)
{
	return l->seen[0] == 0 && l->seen[1];
}

static void test_task_is_begun_or_taken_back(void **state)
{
	(void)state;
	static const struct pattern p = {reset_take_back, {take_back, begin}, begun_and_taken_back};
	static const struct pattern control = {reset_take_back, {take_back, begin_without_fence}, begun_and_taken_back};
	expect_never(&p);
	expect_seen(&control);
}

/* ---- Sleeping worker: it sees the task, or the owner sees that it sleeps - */

static void reset_sleep(struct litmus *l)
{
	atomic_store(&l->ours.in->head, 0);
	atomic_store(&l->ours.in->wake, 0);
	atomic_store(&l->ours.out->sleeping, 0);
	atomic_store(&l->ours.woken, 0);
}

/* The real function: it raises `wake` if it sees the sleeper. */
static void publish_and_wake(struct litmus *l)
{
	atomic_store_explicit(&l->ours.in->head, 1, memory_order_release);
	channel_wake_worker(&l->ours);
	l->seen[0] = atomic_load(&l->ours.in->wake) != 0;
}

static void publish_without_fence(struct litmus *l)
{
	atomic_store_explicit(&l->ours.in->head, 1, memory_order_release);
	l->seen[0] = atomic_load_explicit(&l->ours.out->sleeping, memory_order_relaxed) != 0;
}

/* Like channel_sleep(), up to the futex. */
static void announce_sleep(struct litmus *l)
{
	channel_announce_sleep(&l->theirs);
	l->seen[1] = atomic_load(&l->theirs.in->head) != 0;
}

static bool both_missed(const struct litmus *l)
{
	return !l->seen[0] && !l->seen[1];
}

static void test_worker_that_falls_asleep_is_woken_or_sees_the_task(void **state)
{
	(void)state;
	static const struct pattern p = {reset_sleep, {publish_and_wake, announce_sleep}, both_missed};
	static const struct pattern control = {reset_sleep, {publish_without_fence, announce_sleep}, both_missed};
	expect_never(&p);
	expect_seen(&control);
}

/* The same including the futex: in every round the worker sleeps in it, or is about to. */
static bool task_is_there(void *context)
{
	struct litmus *l = context;
	/* Not while it only spins: this test is about falling asleep. */
	return atomic_load(&l->theirs.out->sleeping) != 0 && atomic_load(&l->theirs.in->head) != 0;
}

static void sleep_until_woken(struct litmus *l)
{
	channel_sleep(&l->theirs, task_is_there, l);
}

static void reset_nap(struct litmus *l)
{
	atomic_store(&l->ours.in->head, 0);
}

static bool never(const struct litmus *l)
{
	(void)l;
	return false;
}

static void test_no_wake_up_is_lost(void **state)
{
	(void)state;
	static const struct pattern p = {reset_nap, {publish_and_wake, sleep_until_woken}, never};
	expect_never(&p); /* a lost one would hang until the test's timeout */
}

/* ---- Sleeping owner: it sees the answer, or the worker sees that it is armed --- */

static void reset_armed(struct litmus *l)
{
	atomic_store(&l->ours.in->armed, 0);
	atomic_store(&l->ours.out->head, 0);
}

/* Like arm(). */
static void arm(struct litmus *l)
{
	atomic_store_explicit(&l->ours.in->armed, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	l->seen[0] = atomic_load_explicit(&l->ours.out->head, memory_order_relaxed);
}

/* Like show() and worker_notify(). */
static void answer(struct litmus *l)
{
	atomic_store_explicit(&l->theirs.out->head, 1, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	l->seen[1] = atomic_load_explicit(&l->theirs.in->armed, memory_order_relaxed);
}

static void answer_without_fence(struct litmus *l)
{
	atomic_store_explicit(&l->theirs.out->head, 1, memory_order_release);
	l->seen[1] = atomic_load_explicit(&l->theirs.in->armed, memory_order_relaxed);
}

static void test_owner_that_falls_asleep_is_notified_or_sees_the_answer(void **state)
{
	(void)state;
	static const struct pattern p = {reset_armed, {arm, answer}, both_missed};
	static const struct pattern control = {reset_armed, {arm, answer_without_fence}, both_missed};
	expect_never(&p);
	expect_seen(&control);
}

/* ---- Publishing: the record is visible with the count ---------------------- */

static void reset_publish(struct litmus *l)
{
	ring_release(&l->ring, l->ring.head);
	l->seen[1] = 0;
}

static void publish(struct litmus *l)
{
	uint64_t *data = ring_reserve(&l->ring, sizeof(*data));
	*data = ~l->ring.head;
	struct ring_desc *d = ring_take(&l->ring, data, sizeof(*data));
	d->id = l->ring.head;
	atomic_store_explicit(&l->ours.in->head, l->ring.head, memory_order_release);
}

static void consume(struct litmus *l)
{
	uint64_t mine = atomic_load_explicit(&l->gun, memory_order_relaxed);
	uint64_t head;
	for (unsigned i = 1; (head = atomic_load_explicit(&l->theirs.in->head, memory_order_acquire)) < mine; i++)
		if (i % SPINS == 0)
			sched_yield();
	const struct ring_desc *d = ring_at(inbox_descs(l->theirs.in), head - 1);
	uint64_t payload;
	memcpy(&payload, inbox_arena(l->theirs.in) + d->offset, sizeof(payload));
	l->seen[1] = d->id != head || payload != ~(head - 1);
}

static bool stale(const struct litmus *l)
{
	return l->seen[1] != 0;
}

static void test_published_record_is_whole(void **state)
{
	(void)state;
	static const struct pattern p = {reset_publish, {publish, consume}, stale};
	expect_never(&p);
}

/* ---- Timeout: if the worker saw it, the owner that has the answer sees it --- */

static void reset_timed_out(struct litmus *l)
{
	atomic_store(&l->ours.in->marks, 0);
	atomic_store(&inbox_descs(l->ours.in)->mark, RING_SERIAL);
	atomic_store(&l->ours.out->head, 0);
}

/* The owner also plays the warden: another thread would only add noise. */
static void time_out(struct litmus *l)
{
	uint64_t old = RING_SERIAL;
	atomic_fetch_add(&l->ours.in->marks, 1);
	atomic_compare_exchange_strong(&inbox_descs(l->ours.in)->mark, &old, old | RING_MARK_TIMED_OUT);
	spin_until(&l->ours.out->head, 1);
	l->seen[0] = inbox_mark(l->ours.in, 0);
}

static void notice(struct litmus *l)
{
	l->seen[1] = inbox_mark(l->theirs.in, 0);
	atomic_store_explicit(&l->theirs.out->head, 1, memory_order_release);
}

static bool forgotten(const struct litmus *l)
{
	return l->seen[1] && !l->seen[0];
}

static void test_answer_after_a_timeout_is_recognized(void **state)
{
	(void)state;
	static const struct pattern p = {reset_timed_out, {time_out, notice}, forgotten};
	expect_never(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_task_is_begun_or_taken_back),
		cmocka_unit_test(test_worker_that_falls_asleep_is_woken_or_sees_the_task),
		cmocka_unit_test(test_no_wake_up_is_lost),
		cmocka_unit_test(test_owner_that_falls_asleep_is_notified_or_sees_the_answer),
		cmocka_unit_test(test_published_record_is_whole),
		cmocka_unit_test(test_answer_after_a_timeout_is_recognized),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
