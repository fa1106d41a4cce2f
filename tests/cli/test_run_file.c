/* SPDX-License-Identifier: MIT */
/* The progress of a run as text: written files can be read, and anything else is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run_file.h"

static const struct view_run_gpu gpus[] = {
	{.id = 0, .done = 3, .failed = 1, .rtf = 0.125, .task = "a \"b\".wav"}, {.id = 7, .done = 9, .rtf = -1}};
static const struct view_run launch = {.pid = 12,
	.kind = "launch",
	.name = "/data/größe",
	.worker = "python3 w.py",
	.start_ms = 1700000000000,
	.total = 20,
	.done = 12,
	.failed = 1,
	.skipped = 4,
	.running = 2,
	.fraction = 0.65,
	.rate = 2.5,
	.rtf = 0.03,
	.eta_ms = 2800,
	.watching = true,
	.gpus = gpus,
	.num_gpus = 2};

static void test_written_run_file_is_parsed_again(void **state)
{
	struct text t = {0};
	struct run_text back;
	(void)state;
	run_file_format(&t, &launch);
	assert_int_equal(run_file_parse(t.data, t.length, &back), 0);
	assert_string_equal(back.run.kind, "launch");
	assert_string_equal(back.run.name, launch.name);
	assert_string_equal(back.run.worker, launch.worker);
	assert_int_equal(back.run.total, 20);
	assert_int_equal(back.run.done, 12);
	assert_int_equal(back.run.failed, 1);
	assert_int_equal(back.run.skipped, 4);
	assert_int_equal(back.run.running, 2);
	assert_int_equal(back.run.eta_ms, 2800);
	assert_true(back.run.fraction == 0.65 && back.run.rate == 2.5 && back.run.rtf == 0.03);
	assert_true(back.run.watching && !back.run.ending);
	assert_int_equal(back.run.num_gpus, 2);
	assert_string_equal(back.gpus[0].task, "a \"b\".wav");
	assert_true(back.gpus[0].rtf == 0.125 && back.gpus[1].rtf == -1 && !back.gpus[1].task);
	assert_int_equal(back.gpus[1].id, 7);
	run_text_finish(&back);
	text_finish(&t);
}

static void test_unknown_numbers_stay_unknown(void **state)
{
	static const char text[] = "{\"version\":1,\"kind\":\"map\",\"name\":\"x\",\"later\":[1]}";
	struct run_text back;
	(void)state;
	assert_int_equal(run_file_parse(text, sizeof(text) - 1, &back), 0);
	assert_true(back.run.total == -1 && back.run.fraction == -1 && back.run.rtf == -1 && back.run.eta_ms == -1);
	run_text_finish(&back);
}

static void test_a_damaged_text_is_refused(void **state)
{
	static const char *const bad[] = {"", "{}", "[]", "{\"version\":2,\"kind\":\"map\",\"name\":\"x\"}",
		"{\"version\":1,\"kind\":\"map\"}", "{\"version\":1,\"kind\":\"map\",\"name\":\"x\",\"done\":-1}",
		"{\"version\":1,\"kind\":\"map\",\"name\":\"x\",\"rate\":\"fast\"}",
		"{\"version\":1,\"kind\":\"map\",\"name\":\"a\\u0000b\"}",
		"{\"version\":1,\"kind\":\"map\",\"name\":\"x\",\"gpus\":[{}]}",
		"{\"version\":1,\"kind\":\"map\",\"name\":\"x\",\"gpus\":[3]}"};
	struct text t = {0};
	struct run_text back;
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(run_file_parse(bad[i], strlen(bad[i]), &back), -EBADMSG);
	run_file_format(&t, &launch);
	for (size_t size = 0; size + 1 < t.length; size++) {
		char *copy = malloc(size + 1); /* for the sanitizers: nothing is read beyond it */
		memcpy(copy, t.data, size);
		assert_int_equal(run_file_parse(copy, size, &back), -EBADMSG);
		free(copy);
	}
	text_finish(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_run_file_is_parsed_again),
		cmocka_unit_test(test_unknown_numbers_stay_unknown),
		cmocka_unit_test(test_a_damaged_text_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
