/* SPDX-License-Identifier: MIT */
/* Results that are held back; tasks that wait for a worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/held_results.h"
#include "pool/task.h"

static void hold(struct held_results *h, uint64_t id)
{
	char task[16], result[16], words[16];
	snprintf(task, sizeof(task), "t%d", (int)id);
	snprintf(result, sizeof(result), "r%d", (int)id);
	snprintf(words, sizeof(words), "w%d", (int)id);
	struct gd_event event = {
		.id = id,
		.task = {task, strlen(task)},
		.result = {result, strlen(result)},
		.message = words,
	};
	assert_int_equal(held_results_hold(h, &event), 0);
	memset(task, 'x', sizeof(task));
	memset(result, 'x', sizeof(result));
	memset(words, 'x', sizeof(words));
}

static void assert_turn_of(struct held_results *h, int id)
{
	char expected[16];
	const struct gd_event *event = held_results_ready(h);
	assert_non_null(event);
	assert_int_equal(event->id, id);
	snprintf(expected, sizeof(expected), "t%d", id);
	assert_int_equal(event->task.size, strlen(expected));
	assert_memory_equal(event->task.data, expected, strlen(expected));
	expected[0] = 'r';
	assert_memory_equal(event->result.data, expected, strlen(expected));
	expected[0] = 'w';
	assert_string_equal(event->message, expected);
	held_results_advance(h);
}

static void test_held_events_come_in_order_with_their_bytes(void **state)
{
	(void)state;
	struct held_results h;
	assert_int_equal(held_results_init(&h, 4), 0);
	assert_null(held_results_ready(&h));
	hold(&h, 3);
	hold(&h, 1);
	assert_null(held_results_ready(&h));
	hold(&h, 0);
	assert_turn_of(&h, 0);
	assert_turn_of(&h, 1);
	assert_null(held_results_ready(&h));
	hold(&h, 5);
	hold(&h, 4); /* around the end of the buffer */
	hold(&h, 2);
	for (int id = 2; id <= 5; id++)
		assert_turn_of(&h, id);
	assert_null(held_results_ready(&h));
	hold(&h, 7); /* and results that were never ready are released */
	held_results_finish(&h);
}

static void test_an_event_without_bytes_is_held_too(void **state)
{
	(void)state;
	struct held_results h;
	assert_int_equal(held_results_init(&h, 2), 0);
	assert_int_equal(
		held_results_hold(&h, &(struct gd_event){.id = 0, .failure = GD_FAILURE_CRASHED, .message = ""}), 0);
	const struct gd_event *event = held_results_ready(&h);
	assert_non_null(event);
	assert_int_equal(event->failure, GD_FAILURE_CRASHED);
	assert_int_equal(event->task.size, 0);
	assert_string_equal(event->message, "");
	held_results_finish(&h);
}

static struct task task_of(uint64_t id)
{
	return (struct task){.id = id, .parcel = PARCEL_NONE};
}

static void test_backlog_is_a_queue_that_also_takes_tasks_at_the_front(void **state)
{
	(void)state;
	struct backlog b;
	assert_int_equal(backlog_init(&b, 5), 0);
	for (int turn = 0; turn < 7; turn++) {
		for (uint64_t id = 2; id < 5; id++)
			backlog_push(&b, &(struct task){.id = id, .parcel = PARCEL_NONE});
		struct task t = task_of(1);
		backlog_push_front(&b, &t);
		t = task_of(0);
		backlog_push_front(&b, &t);
		for (uint64_t id = 0; id < 5; id++) {
			assert_int_equal(backlog_front(&b)->id, id);
			backlog_pop(&b);
		}
		assert_null(backlog_front(&b));
		/* So that the next round starts at another position. */
		backlog_push(&b, &t);
		backlog_pop(&b);
	}
	backlog_finish(&b);
}

static void test_a_backlog_releases_what_is_left_in_it(void **state)
{
	(void)state;
	struct backlog b;
	assert_int_equal(backlog_init(&b, 2), 0);
	struct task on_heap = {.data = malloc(10), .size = 10, .parcel = PARCEL_NONE};
	backlog_push(&b, &on_heap);
	struct task in_parcel = {.size = 5000, .place = TASK_PARCEL};
	assert_int_equal(parcel_create(5000, &in_parcel.parcel), 0);
	backlog_push(&b, &in_parcel);
	backlog_finish(&b); /* LeakSanitizer checks */
	assert_null(b.tasks);
}

static void test_a_task_takes_its_bytes_out_of_the_ring(void **state)
{
	(void)state;
	char ring[] = "payload";
	struct task t = {.data = ring, .size = sizeof(ring), .place = TASK_RING, .parcel = PARCEL_NONE};
	assert_int_equal(task_detach(&t), 0);
	memset(ring, 'x', sizeof(ring));
	assert_string_equal(t.data, "payload");
	void *before = t.data;
	assert_int_equal(task_detach(&t), 0);
	assert_ptr_equal(t.data, before);
	task_finish(&t);
	/* Nothing to take, and nothing to release. */
	t = (struct task){.place = TASK_RING, .parcel = PARCEL_NONE};
	assert_int_equal(task_detach(&t), 0);
	assert_non_null(t.data);
	task_finish(&t);
	t = (struct task){.data = ring, .place = TASK_RING, .parcel = PARCEL_NONE};
	task_finish(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_held_events_come_in_order_with_their_bytes),
		cmocka_unit_test(test_an_event_without_bytes_is_held_too),
		cmocka_unit_test(test_backlog_is_a_queue_that_also_takes_tasks_at_the_front),
		cmocka_unit_test(test_a_backlog_releases_what_is_left_in_it),
		cmocka_unit_test(test_a_task_takes_its_bytes_out_of_the_ring),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
