/* SPDX-License-Identifier: MIT */
/* Records between probe and caller: data that a driver may have overwritten is never followed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/wire.h"
#include "support/gpu_pointers.h"

/* A card with two processes and a warning, as the probe would send it. */
static void put_example(struct text *out)
{
	struct gd_gpu_process processes[2] = {{.pid = 1}, {.pid = 2, .memory_bytes = 3, .memory_known = true}};
	struct gd_gpu gpu = {
		.index = 7, .processes = process_pointers(processes, 2), .num_processes = 2, .uuid = "GPU-1"};
	struct gpu_set set = {0};
	assert_int_equal(gpu_set_add(&set, &gpu), 0);
	assert_int_equal(gpu_set_add(&set, &gpu), 0);
	assert_int_equal(gpu_set_warn(&set, "%s", "words"), 0);
	wire_put(out, WIRE_CARD, 5, 6, &set);
	gpu_set_finish(&set);
	assert_int_equal(text_error(out), 0);
}

static void test_record_that_was_put_is_taken_unchanged(void **state)
{
	(void)state;
	struct text t = {0};
	put_example(&t);
	wire_put(&t, WIRE_ROUND, 0, 3, NULL);
	struct wire_record record;
	struct gpu_set set = {0};
	int size = wire_take(t.data, t.length, &record, &set);
	assert_true(size > 0 && (size_t)size < t.length);
	assert_int_equal(record.card, 5);
	assert_int_equal(record.value, 6);
	assert_int_equal(set.count, 2);
	assert_int_equal(set.gpus[1].index, 7);
	assert_int_equal(set.gpus[1].processes[1]->memory_bytes, 3);
	assert_string_equal(set.warnings[0], "words");
	gpu_set_finish(&set);
	assert_int_equal(wire_take(t.data + size, t.length - (size_t)size, &record, &set), t.length - (size_t)size);
	assert_int_equal(record.kind, WIRE_ROUND);
	assert_int_equal(set.count, 0);
	gpu_set_finish(&set);
	text_finish(&t);
}

static void test_incomplete_record_is_not_taken_yet(void **state)
{
	(void)state;
	struct text t = {0};
	put_example(&t);
	for (size_t size = 0; size < t.length; size++) {
		struct wire_record record;
		struct gpu_set set = {0};
		char *piece = malloc(size + 1); /* exactly as much as may be read */
		memcpy(piece, t.data, size);
		assert_int_equal(wire_take(piece, size, &record, &set), 0);
		free(piece);
	}
	text_finish(&t);
}

static void test_scribbled_record_is_refused_or_read_but_never_followed(void **state)
{
	(void)state;
	struct text t = {0};
	put_example(&t);
	unsigned refused = 0;
	for (size_t i = 0; i < t.length; i++) {
		struct wire_record record;
		struct gpu_set set = {0};
		char *scribbled = malloc(t.length);
		memcpy(scribbled, t.data, t.length);
		scribbled[i] = (char)0xFF;
		int r = wire_take(scribbled, t.length, &record, &set);
		refused += r == -EBADMSG;
		if (r > 0)
			gpu_set_finish(&set);
		free(scribbled);
	}
	assert_true(refused > 0);
	text_finish(&t);
}

static void test_more_processes_than_there_are_bytes_are_refused(void **state)
{
	(void)state;
	struct text t = {0};
	put_example(&t);
	char *last = t.data + t.length - sizeof("words") - 2 * sizeof(struct gd_gpu_process) - sizeof(struct gd_gpu);
	struct wire_record record;
	struct gpu_set set = {0};
	static const size_t lies[] = {3, 1000, SIZE_MAX / sizeof(struct gd_gpu_process) + 2, SIZE_MAX};
	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		memcpy(last + offsetof(struct gd_gpu, num_processes), &lies[i], sizeof(lies[i]));
		assert_int_equal(wire_take(t.data, t.length, &record, &set), -EBADMSG);
	}
	text_finish(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record_that_was_put_is_taken_unchanged),
		cmocka_unit_test(test_incomplete_record_is_not_taken_yet),
		cmocka_unit_test(test_more_processes_than_there_are_bytes_are_refused),
		cmocka_unit_test(test_scribbled_record_is_refused_or_read_but_never_followed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
