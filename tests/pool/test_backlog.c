/* SPDX-License-Identifier: MIT */
/* The queue of tasks that no worker has: order, and removing from anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pool/task.h"

#define LIMIT 64

static void push(struct backlog *b, uint64_t id)
{
	backlog_push(b, &(struct task){.id = id, .parcel = PARCEL_NONE});
}

static void push_front(struct backlog *b, uint64_t id)
{
	backlog_push_front(b, &(struct task){.id = id, .parcel = PARCEL_NONE});
}

static bool remove_id(struct backlog *b, uint64_t id)
{
	struct task t = {.id = UINT64_MAX};
	bool removed = backlog_remove(b, id, &t);
	assert_true(!removed || t.id == id);
	return removed;
}

static uint64_t take(struct backlog *b)
{
	uint64_t id = backlog_front(b) ? backlog_front(b)->id : UINT64_MAX;
	if (backlog_front(b))
		backlog_pop(b);
	return id;
}

static void test_a_task_is_removed_from_anywhere_and_once(void **state)
{
	(void)state;
	struct backlog b;
	assert_int_equal(backlog_init(&b, LIMIT), 0);
	for (uint64_t id = 10; id < 20; id++)
		push(&b, id);
	push_front(&b, 3); /* in order: found by bisection */
	push_front(&b, 7); /* not in order */
	push_front(&b, 5);
	assert_false(remove_id(&b, 4));
	assert_false(remove_id(&b, 20));
	static const uint64_t removed[] = {7, 15, 10, 19, 18};
	for (size_t i = 0; i < sizeof(removed) / sizeof(removed[0]); i++) {
		assert_true(remove_id(&b, removed[i]));
		assert_false(remove_id(&b, removed[i]));
	}
	static const uint64_t left[] = {5, 3, 11, 12, 13, 14, 16, 17};
	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
		assert_int_equal(take(&b), left[i]);
	assert_null(backlog_front(&b));
	assert_int_equal(b.entries, 0);
	backlog_finish(&b);
}

static void test_backlog_with_only_holes_is_empty(void **state)
{
	(void)state;
	struct backlog b;
	assert_int_equal(backlog_init(&b, LIMIT), 0);
	for (uint64_t id = 0; id < 8; id++)
		push(&b, id);
	static const uint64_t order[] = {3, 4, 1, 6, 0, 7, 2, 5};
	for (size_t i = 0; i < 8; i++)
		assert_true(remove_id(&b, order[i]));
	assert_int_equal(b.entries, 0);
	backlog_finish(&b);
}

/* Does the same random operations, with a fixed seed, on a backlog and on a plain list, and compares the two. */
static void test_holes_never_take_the_room_of_tasks(void **state)
{
	(void)state;
	struct backlog b;
	uint64_t list[LIMIT], next = 0;
	size_t count = 0;
	unsigned random = 1;
	assert_int_equal(backlog_init(&b, LIMIT), 0);
	for (int step = 0; step < 200000; step++) {
		random = random * 1664525u + 1013904223u;
		unsigned dice = random >> 16;
		if (dice % 4 < 2 && count < LIMIT) {
			list[count++] = next;
			push(&b, next++);
		} else if (dice % 4 == 2 && count > 0) {
			size_t i = dice / 4 % count;
			assert_true(remove_id(&b, list[i]));
			for (count--; i < count; i++)
				list[i] = list[i + 1];
		} else if (count > 0) {
			uint64_t id = take(&b);
			assert_int_equal(id, list[0]);
			count--;
			for (size_t i = 0; i < count; i++)
				list[i] = list[i + 1];
			if (dice % 8 == 7 && count > 1) { /* put back in front and taken again */
				push_front(&b, id);
				uint64_t first = take(&b);
				assert_int_equal(first, id);
			}
		}
	}
	for (size_t i = 0; i < count; i++)
		assert_int_equal(take(&b), list[i]);
	backlog_finish(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_task_is_removed_from_anywhere_and_once),
		cmocka_unit_test(test_backlog_with_only_holes_is_empty),
		cmocka_unit_test(test_holes_never_take_the_room_of_tasks),
	};
	return cmocka_run_group_tests_name("pool backlog", tests, NULL, NULL);
}
