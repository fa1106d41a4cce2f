/* SPDX-License-Identifier: MIT */
/* Messages and answers of gpuq map on their way through the pool, and batches that are split. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "launch/items_task.h"
#include "launch/map_batch.h"

static struct gd_bytes bytes_of(const struct text *t)
{
	return (struct gd_bytes){.data = t->data, .size = t->length};
}

static void assert_values(struct map_batch *b, uint32_t count, const char *values)
{
	struct items_task task;
	assert_int_equal(map_batch_seal(b), 0);
	struct gd_bytes bytes = bytes_of(&b->task);
	assert_int_equal(items_task_read(&bytes, &task), 0);
	assert_int_equal(task.count, count);
	assert_int_equal(task.size, strlen(values));
	assert_memory_equal(task.values, values, task.size);
}

static void add(struct map_batch *b, uint64_t number, const char *text, bool quote)
{
	assert_int_equal(map_batch_add(b, &(struct map_item){.number = number}, text, strlen(text), quote), 0);
}

static void test_batch_holds_values_and_quoted_text(void **state)
{
	(void)state;
	struct map_batch *b = map_batch_create();
	add(b, 1, "[]", false);
	add(b, 2, "a \"b\"\\", true);
	add(b, 3, "{\"x\":[1]}", false);
	assert_values(b, 3, "[[],\"a \\\"b\\\"\\\\\",{\"x\":[1]}]");
	map_batch_destroy(b);
}

static void test_parts_of_a_batch_hold_its_items(void **state)
{
	(void)state;
	struct map_batch *b = map_batch_create();
	add(b, 11, "1", false);
	add(b, 12, "two", true);
	add(b, 13, "[3]", false);
	b->deaths = 2;
	assert_int_equal(map_batch_seal(b), 0);
	struct map_batch *last = map_batch_part(b, 1, 2), *one = map_batch_part(last, 1, 1);
	assert_values(last, 2, "[\"two\",[3]]");
	assert_values(one, 1, "[[3]]");
	assert_int_equal(last->deaths, 2);
	assert_int_equal(last->items[0].number, 12);
	assert_int_equal(one->items[0].number, 13);
	map_batch_destroy(b);
	map_batch_destroy(last);
	map_batch_destroy(one);
}

static void test_bytes_that_are_not_a_task_are_refused(void **state)
{
	(void)state;
	struct items_task task;
	struct text t = {0};
	items_task_begin(&t);
	items_task_seal(&t, 0, false);
	struct gd_bytes none = {.data = "", .size = 0}, empty = bytes_of(&t);
	assert_int_equal(items_task_read(&none, &task), -EBADMSG);
	assert_int_equal(items_task_read(&empty, &task), -EBADMSG);
	text_finish(&t);
}

static void test_answers_are_read_as_they_were_written(void **state)
{
	(void)state;
	struct text t = {0};
	struct items_answer a;
	items_answer_put(&t, false, "{\"a\":1}", 7);
	items_answer_put(&t, true, "too long", 8);
	items_answer_put(&t, true, "", 0);
	struct gd_bytes rest = bytes_of(&t);
	assert_int_equal(items_answer_next(&rest, &a), 1);
	assert_true(!a.failed && a.size == 7 && memcmp(a.data, "{\"a\":1}", 7) == 0);
	assert_int_equal(items_answer_next(&rest, &a), 1);
	assert_true(a.failed && a.size == 8 && memcmp(a.data, "too long", 8) == 0);
	assert_int_equal(items_answer_next(&rest, &a), 1);
	assert_true(a.failed && a.size == 0);
	assert_int_equal(items_answer_next(&rest, &a), 0);
	text_finish(&t);
}

static void test_answers_that_are_cut_off_are_refused(void **state)
{
	(void)state;
	struct text t = {0};
	struct items_answer a;
	items_answer_put(&t, false, "12345", 5);
	for (size_t size = 1; size < t.length; size++) {
		struct gd_bytes cut = {.data = t.data, .size = size};
		assert_int_equal(items_answer_next(&cut, &a), -EBADMSG);
	}
	text_finish(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_batch_holds_values_and_quoted_text),
		cmocka_unit_test(test_parts_of_a_batch_hold_its_items),
		cmocka_unit_test(test_bytes_that_are_not_a_task_are_refused),
		cmocka_unit_test(test_answers_are_read_as_they_were_written),
		cmocka_unit_test(test_answers_that_are_cut_off_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
