/* SPDX-License-Identifier: MIT */
/* The GPUs that a job is pinned to: how they are written, and which they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "queue/schedule/gpu_pin.h"

static void parses_to(const char *text, const char *expected, size_t count)
{
	char *pin;
	assert_int_equal(gpu_pin_parse(text, &pin, NULL), 0);
	assert_string_equal(pin, expected);
	assert_int_equal(gpu_pin_count(pin), count);
	free(pin);
}

static void is_refused(const char *text, const char *words)
{
	char *pin = NULL;
	struct gd_error err = {0};
	assert_int_equal(gpu_pin_parse(text, &pin, &err), -EINVAL);
	assert_null(pin);
	assert_non_null(strstr(err.message, words));
}

static void test_pin_has_one_spelling(void **state)
{
	(void)state;
	parses_to("3", "3", 1);
	parses_to("1,0", "1,0", 2);
	parses_to("0-2,7", "0,1,2,7", 4);
	parses_to("003", "3", 1);
	parses_to("GPU-5a1f,2", "GPU-5a1f,2", 2);
	parses_to("mig-9", "mig-9", 1);
}

static void test_wrong_pins_are_refused_with_a_message(void **state)
{
	(void)state;
	is_refused("", "'' is not a GPU");
	is_refused("1,", "'' is not a GPU");
	is_refused("x", "'x' is not a GPU; expected the number or UUID");
	is_refused("GPU-", "'GPU-' is not a GPU");
	is_refused("GPU-\"", "is not a GPU");
	is_refused("-1", "is not a GPU");
	is_refused("auto", "is not a GPU");
	is_refused("99999", "is not a GPU");
	is_refused("3-1", "is reversed");
	is_refused("0-2,1", "GPU 1 is listed twice");
	is_refused("GPU-a,gpu-A", "listed twice");
	is_refused("0-5000", "more than 1024 GPUs");
}

static void test_resolving_finds_numbers_uuids_and_instances(void **state)
{
	(void)state;
	struct gd_gpu gpus[] = {
		{.size = sizeof(gpus[0]), .index = 2, .mig_index = -1, .known = GD_GPU_KNOWN_UUID, .uuid = "GPU-aa11"},
		{.size = sizeof(gpus[0]), .index = 5, .mig_index = -1, .known = GD_GPU_KNOWN_UUID, .uuid = "GPU-aa22"},
		{.size = sizeof(gpus[0]), .index = 7, .mig_index = 0, .known = GD_GPU_KNOWN_UUID, .uuid = "MIG-c"},
		{.size = sizeof(gpus[0]), .index = 7, .mig_index = 1, .known = GD_GPU_KNOWN_UUID, .uuid = "MIG-cc"},
	};
	const struct gd_gpu *all[] = {&gpus[0], &gpus[1], &gpus[2], &gpus[3]};
	bool allowed[4];
	char name[GPU_PIN_NAME] = "";
	assert_int_equal(gpu_pin_resolve("5", all, 4, allowed, name), 0);
	assert_true(!allowed[0] && allowed[1] && !allowed[2] && !allowed[3]);
	assert_int_equal(gpu_pin_resolve("GPU-AA1,5", all, 4, allowed, name), 0);
	assert_true(allowed[0] && allowed[1] && !allowed[2]);
	assert_int_equal(gpu_pin_resolve("7", all, 4, allowed, name), 0);
	assert_true(!allowed[1] && allowed[2] && allowed[3]);
	assert_int_equal(gpu_pin_resolve("MIG-c", all, 4, allowed, name), 0);
	assert_true(allowed[2] && !allowed[3]);
	assert_int_equal(gpu_pin_resolve("5,6", all, 4, allowed, name), -ENODEV);
	assert_string_equal(name, "6");
	assert_true(allowed[1]);
	assert_int_equal(gpu_pin_resolve("GPU-aa", all, 4, allowed, name), -ENOTUNIQ);
	assert_string_equal(name, "GPU-aa");
	assert_int_equal(gpu_pin_resolve("0", all, 0, allowed, NULL), -ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pin_has_one_spelling),
		cmocka_unit_test(test_wrong_pins_are_refused_with_a_message),
		cmocka_unit_test(test_resolving_finds_numbers_uuids_and_instances),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
