/* SPDX-License-Identifier: MIT */
/*
 * The ring between two threads on the same memory, like the dispatcher and a worker in two processes, so that TSan can
 * check it.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/channel.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define RECORDS 20000u
#else
#define RECORDS 200000u
#endif

struct ring_pair {
	struct channel producer; /* the same memory, each with its own notes */
	struct channel consumer;
	struct ring ring;
	uint64_t next; /* the consumer's next record; its own copies, as in a worker: next, head and round */
	uint64_t head;
	uint64_t round;
	unsigned char *seen;
	atomic_uint wrong; /* payloads that differ from what was sent */
	atomic_ulong sleeps;
};

static int setup(void **state)
{
	struct ring_pair *f = calloc(1, sizeof(*f));
	struct inbox *in = aligned_alloc(4096, INBOX_SIZE / 4096 * 4096 + 4096);
	struct outbox *out = aligned_alloc(4096, OUTBOX_SIZE / 4096 * 4096 + 4096);
	if (!f || !in || !out)
		return -1;
	memset(in, 0, sizeof(*in));
	memset(out, 0, sizeof(*out));
	f->producer = (struct channel){.in = in, .out = out};
	f->consumer = (struct channel){.in = in, .out = out};
	ring_init(&f->ring, inbox_descs(in), inbox_arena(in), 65536);
	f->seen = calloc(RECORDS, 1);
	*state = f;
	return f->seen ? 0 : -1;
}

static int teardown(void **state)
{
	struct ring_pair *f = *state;
	free(f->producer.in);
	free(f->producer.out);
	free(f->seen);
	free(f);
	return 0;
}

/* ---- The consumer: as the worker's loop --------------------------------- */

static bool something_to_do(void *context)
{
	struct ring_pair *f = context;
	return atomic_load(&f->consumer.in->head) > f->next || atomic_load(&f->consumer.in->closing);
}

/* How many records it may work on, at most `most`; 0 at the end. */
static size_t begin(struct ring_pair *f, size_t most)
{
	struct inbox *in = f->consumer.in;
	for (;;) {
		if (f->head <= f->next) {
			f->round = atomic_load_explicit(&in->round, memory_order_acquire);
			f->head = atomic_load_explicit(&in->head, memory_order_acquire);
		}
		if (f->head <= f->next) {
			if (atomic_load(&in->closing) && atomic_load(&in->head) <= f->next)
				return 0;
			channel_sleep(&f->consumer, something_to_do, f);
			atomic_fetch_add(&f->sleeps, 1);
			continue;
		}
		size_t n = f->head - f->next < most ? (size_t)(f->head - f->next) : most;
		if (ring_begin(&f->consumer.out->begun, f->next + n, &in->round, f->round))
			return n;
		atomic_store(&f->consumer.out->begun, f->next);
		f->head = f->next;
	}
}

static void consume(struct ring_pair *f)
{
	const struct ring_desc d = *ring_at(inbox_descs(f->consumer.in), f->next);
	const char *payload = inbox_arena(f->consumer.in) + d.offset;
	for (size_t i = 0; i < d.size; i++)
		if (payload[i] != (char)(d.id + i))
			atomic_fetch_add(&f->wrong, 1);
	if (d.id < RECORDS)
		f->seen[d.id]++;
	f->next++;
	atomic_store_explicit(&f->consumer.out->ended, f->next, memory_order_release);
}

static void *consumer(void *context)
{
	struct ring_pair *f = context;
	for (size_t n, turn = 0; (n = begin(f, 1 + turn % 5)); turn++)
		for (size_t i = 0; i < n; i++)
			consume(f);
	return NULL;
}

/* ---- The producer: as the dispatcher ------------------------------------ */

static void publish(struct ring_pair *f)
{
	atomic_store_explicit(&f->producer.in->head, f->ring.head, memory_order_release);
	channel_wake_worker(&f->producer);
}

static bool send(struct ring_pair *f, uint64_t id)
{
	size_t size = (size_t)(id * 7919 % 300);
	char *data = ring_reserve(&f->ring, size);
	if (!data)
		return false;
	for (size_t i = 0; i < size; i++)
		data[i] = (char)(id + i);
	ring_push(&f->ring, data, (struct ring_desc){.kind = RING_TASK, .id = id, .size = size});
	publish(f);
	return true;
}

static void learn(struct ring_pair *f)
{
	ring_release(&f->ring, atomic_load_explicit(&f->producer.out->ended, memory_order_acquire));
}

static void finish(struct ring_pair *f, pthread_t thread)
{
	atomic_store(&f->producer.in->closing, 1);
	channel_wake_worker(&f->producer);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(f->wrong, 0);
	for (size_t i = 0; i < RECORDS; i++)
		if (f->seen[i] != 1)
			fail_msg("record %zu came %d times", i, f->seen[i]);
}

static void send_all(struct ring_pair *f)
{
	for (uint64_t id = 0; id < RECORDS;) {
		if (send(f, id))
			id++;
		else
			learn(f);
	}
}

static void test_every_record_comes_once_and_whole(void **state)
{
	struct ring_pair *f = *state;
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, consumer, f), 0);
	send_all(f);
	finish(f, thread);
}

/* Takes back records that were not begun, to be sent again. Returns their number. */
static size_t take_back(struct ring_pair *f, uint64_t *again, size_t count)
{
	learn(f);
	struct ring_words words = {
		.head = &f->producer.in->head,
		.round = &f->producer.in->round,
		.begun = &f->producer.out->begun,
	};
	uint64_t from = ring_take_back(&f->ring, f->ring.tail, words);
	for (uint64_t seq = from; seq < f->ring.head; seq++)
		again[count++] = ring_at(f->ring.descs, seq)->id;
	ring_rewind(&f->ring, from);
	/* For a moment the head was too low: a consumer that has seen this may sleep. */
	publish(f);
	return count;
}

static void test_records_taken_back_concurrently_come_once(void **state)
{
	struct ring_pair *f = *state;
	uint64_t *again = calloc(RECORDS, sizeof(*again));
	size_t count = 0, taken = 0;
	pthread_t thread;
	assert_non_null(again);
	assert_int_equal(pthread_create(&thread, NULL, consumer, f), 0);
	for (uint64_t id = 0, step = 1; id < RECORDS || count > 0; step++) {
		if (step % 17 == 0) {
			size_t before = count;
			count = take_back(f, again, count);
			taken += count - before;
		} else if (count > 0) {
			count -= send(f, again[count - 1]);
		} else {
			id += send(f, id);
		}
		learn(f);
	}
	finish(f, thread);
	free(again);
	assert_true(taken > 0);
}

/* One at a time, each to a consumer that sleeps or is about to: a lost wake-up hangs the test. */
static void test_sleeping_consumer_misses_no_wake_up(void **state)
{
	struct ring_pair *f = *state;
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, consumer, f), 0);
	for (uint64_t id = 0; id < RECORDS; id++) {
		assert_true(send(f, id));
		while (atomic_load_explicit(&f->producer.out->ended, memory_order_acquire) <= id)
			sched_yield();
		learn(f);
		/* Sometimes late enough that the consumer is asleep. */
		if (id % 64 == 0)
			while (!atomic_load(&f->producer.out->sleeping))
				sched_yield();
	}
	finish(f, thread);
	assert_true(f->sleeps >= RECORDS / 64);
}

static void nothing(int sig)
{
	(void)sig;
}

static void test_signal_does_not_end_the_sleep_of_the_consumer(void **state)
{
	struct ring_pair *f = *state;
	struct sigaction action = {.sa_handler = nothing};
	pthread_t thread;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, consumer, f), 0);
	for (int i = 0; i < 100; i++) {
		while (!atomic_load(&f->producer.out->sleeping))
			sched_yield();
		assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
	}
	assert_int_equal(f->sleeps, 0);
	send_all(f);
	finish(f, thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_record_comes_once_and_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(test_records_taken_back_concurrently_come_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sleeping_consumer_misses_no_wake_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signal_does_not_end_the_sleep_of_the_consumer, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
