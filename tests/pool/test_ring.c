/* SPDX-License-Identifier: MIT */
/* The ring alone, in one thread: placement of payloads, a full ring, taking back records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/ring.h"

#define ARENA 8192u

struct ring_rig {
	struct ring ring;
	struct ring_desc descs[RING_DEPTH];
	_Alignas(RING_LINE) char arena[ARENA];
};

static int setup(void **state)
{
	struct ring_rig *f = aligned_alloc(RING_LINE, (sizeof(*f) + RING_LINE - 1) / RING_LINE * RING_LINE);
	if (!f)
		return -1;
	ring_init(&f->ring, f->descs, f->arena, ARENA);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

/* Pushes a record if it fits. */
static bool push(struct ring *r, uint64_t id, size_t size)
{
	void *data = ring_reserve(r, size);
	if (!data)
		return false;
	ring_push(r, data, (struct ring_desc){.kind = RING_TASK, .id = id, .size = size});
	return true;
}

static void test_a_payload_as_large_as_the_arena_fits_into_an_empty_ring(void **state)
{
	struct ring *r = &((struct ring_rig *)*state)->ring;
	for (uint64_t i = 0; i < 3; i++) {
		assert_true(push(r, i, ARENA));
		assert_null(ring_reserve(r, 1));
		ring_release(r, r->head);
	}
	assert_null(ring_reserve(r, ARENA + 1));
	assert_null(ring_reserve(r, SIZE_MAX));
}

static void test_payloads_begin_at_cache_lines(void **state)
{
	struct ring *r = &((struct ring_rig *)*state)->ring;
	static const size_t sizes[] = {1, 63, 64, 65, 0, 100, 0, 7};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		char *data = ring_reserve(r, sizes[i]);
		assert_non_null(data);
		assert_int_equal((uintptr_t)data % RING_LINE, 0);
		ring_push(r, data, (struct ring_desc){.size = sizes[i]});
		assert_int_equal(ring_at(r->descs, i)->offset, data - r->arena);
	}
}

static void test_ring_is_full_at_its_depth_though_the_arena_is_empty(void **state)
{
	struct ring *r = &((struct ring_rig *)*state)->ring;
	for (uint64_t i = 0; i < RING_DEPTH; i++)
		assert_true(push(r, i, 0));
	assert_true(ring_full(r));
	assert_null(ring_reserve(r, 0));
	ring_release(r, 1);
	assert_false(ring_full(r));
	assert_true(push(r, RING_DEPTH, 0));
	assert_true(ring_full(r));
}

static void test_an_external_payload_takes_no_room(void **state)
{
	struct ring *r = &((struct ring_rig *)*state)->ring;
	for (int i = 0; i < 100; i++)
		ring_push(r, ring_reserve(r, 0), (struct ring_desc){.size = 1 << 30, .flags = RING_EXTERNAL});
	assert_non_null(ring_reserve(r, ARENA));
}

static void test_a_reservation_uses_no_space_until_it_is_taken(void **state)
{
	struct ring *r = &((struct ring_rig *)*state)->ring;
	assert_true(push(r, 0, 64));
	void *first = ring_reserve(r, 4096);
	assert_ptr_equal(ring_reserve(r, 4096), first);
	assert_ptr_equal(ring_reserve(r, 64), first);
}

/* ---- Against a model ---------------------------------------------------- */

static uint64_t random_state = 88172645463325252u;

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % n;
}

static size_t random_size(void)
{
	switch (random_below(4)) {
	case 0:
		return 0;
	case 1:
		return (size_t)random_below(200);
	case 2:
		return (size_t)random_below(3000);
	default:
		return (size_t)random_below(ARENA + 1);
	}
}

/* The bytes of every record that is in the ring are as they were written. */
static void check_payloads(const struct ring *r)
{
	for (uint64_t seq = r->tail; seq < r->head; seq++) {
		const struct ring_desc *d = ring_at(r->descs, seq);
		assert_true(d->offset <= ARENA && d->size <= ARENA - d->offset);
		for (size_t i = 0; i < d->size; i++)
			if (r->arena[d->offset + i] != (char)d->id)
				fail_msg("record %llu was overwritten", (unsigned long long)seq);
	}
}

static void test_no_payload_is_overwritten_before_its_release(void **state)
{
	struct ring *r = &((struct ring_rig *)*state)->ring;
	uint64_t id = 0;
	unsigned refused = 0;
	for (int step = 0; step < 20000; step++) {
		uint64_t what = random_below(10);
		uint64_t count = r->head - r->tail;
		if (what < 6) {
			size_t size = random_size();
			void *data = ring_reserve(r, size);
			if (data) {
				memset(data, (char)id, size);
				ring_push(r, data, (struct ring_desc){.id = id++, .size = size});
			} else {
				refused++;
				assert_true(count > 0);
			}
		} else if (what < 9) {
			ring_release(r, r->tail + random_below(count + 1));
		} else {
			ring_rewind(r, r->tail + random_below(count + 1));
		}
		check_payloads(r);
	}
	assert_true(refused > 100);
	assert_true(id > 5000);
}

/* ---- Taking back -------------------------------------------------------- */

struct consumer_words {
	_Atomic uint64_t head;
	_Atomic uint64_t round;
	_Atomic uint64_t begun;
};

/* Ten records, `released` of them released; the consumer reports that it has begun `begun`. */
static uint64_t take_back(struct ring *r, struct consumer_words *w, uint64_t released, uint64_t begun)
{
	ring_rewind(r, r->tail);
	while (r->head < 10)
		assert_true(push(r, r->head, 10));
	ring_release(r, released);
	atomic_store(&w->head, r->head);
	atomic_store(&w->begun, begun);
	struct ring_words words = {.head = &w->head, .round = &w->round, .begun = &w->begun};
	return ring_take_back(r, released, words);
}

static void test_take_back_leaves_what_has_begun(void **state)
{
	struct ring *r = &((struct ring_rig *)*state)->ring;
	struct consumer_words w = {0};
	assert_int_equal(take_back(r, &w, 0, 3), 3);
	assert_int_equal(w.head, 3);
	assert_int_equal(w.round, 1);
	assert_int_equal(take_back(r, &w, 0, 0), 0);
	assert_int_equal(w.head, 0);
	assert_int_equal(w.round, 2);
}

static void test_take_back_of_nothing_changes_nothing(void **state)
{
	struct ring *r = &((struct ring_rig *)*state)->ring;
	struct consumer_words w = {0};
	assert_int_equal(take_back(r, &w, 2, 10), 10);
	assert_int_equal(w.head, 10);
}

static void test_take_back_is_not_misled_by_a_consumer_that_lies(void **state)
{
	struct ring *r = &((struct ring_rig *)*state)->ring;
	struct consumer_words w = {0};
	/* Less than was released, and more than exists. */
	assert_int_equal(take_back(r, &w, 4, 1), 4);
	assert_int_equal(take_back(r, &w, 4, UINT64_MAX), 10);
	assert_int_equal(w.head, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_a_payload_as_large_as_the_arena_fits_into_an_empty_ring, setup, teardown),
		cmocka_unit_test_setup_teardown(test_payloads_begin_at_cache_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_ring_is_full_at_its_depth_though_the_arena_is_empty, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_external_payload_takes_no_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_reservation_uses_no_space_until_it_is_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_payload_is_overwritten_before_its_release, setup, teardown),
		cmocka_unit_test_setup_teardown(test_take_back_leaves_what_has_begun, setup, teardown),
		cmocka_unit_test_setup_teardown(test_take_back_of_nothing_changes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_take_back_is_not_misled_by_a_consumer_that_lies, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
