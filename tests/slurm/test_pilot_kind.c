/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/units.h"
#include "slurm/pilot_kind.h"

static void test_options_of_sbatch_say_what_a_pilot_has(void **state)
{
	(void)state;
	static const struct {
		const char *options;
		bool known;
		unsigned gpus;
		int64_t time_s;
	} cases[] = {
		{"", false, 0, 0},
		{"--partition=gpu --gres=gpu:4 --time=4:00:00", true, 4, 4 * 3600},
		{"--gres=gpu:a100:2 -t 30", true, 2, 1800},
		{"--gres gpu -t1-12", true, 1, 36 * 3600},
		{"--gres=shard:8,gpu:2,disk:1", true, 2, 0},
		{"--gres=disk:1", false, 0, 0},
		{"--gpus=a100:3 --time 1:30", true, 3, 90},
		{"-G 8 --time=2-1:30:05", true, 8, 2 * 86400 + 3600 + 1805},
		{"--gpus-per-node=h100:8", true, 8, 0},
		{"--gpus-per-node=h100", true, 1, 0},
		{"--time=soon", false, 0, 0},
		{"--time-min=3", false, 0, 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pilot_kind k = {0};
		pilot_kind_parse(&k, cases[i].options);
		if (k.gpus_known != cases[i].known || k.gpus != cases[i].gpus || k.time_ms != cases[i].time_s * 1000)
			fail_msg("'%s': %u GPUs, %lld ms", cases[i].options, k.gpus, (long long)k.time_ms);
	}
}

static void learn(struct pilot_kind *k, int64_t remaining_ms)
{
	const struct frame_gpu gpus[2] = {{.total_bytes = 24 * UNITS_GB}, {.total_bytes = 16 * UNITS_GB}};
	pilot_kind_learn(k, &(struct coordinator_action){.kind = COORDINATOR_READY,
				    .gpus = gpus,
				    .num_gpus = 2,
				    .cpus = 8,
				    .host_bytes = 64 * UNITS_GB,
				    .remaining_ms = remaining_ms});
}

static void assert_refused(const struct pilot_kind *k, struct placement_need need, const char *expected)
{
	char words[FRAME_WORDS_ROOM];
	assert_int_equal(pilot_kind_takes(k, &need, words), !*expected);
	assert_string_equal(words, expected);
}

static void test_a_pilot_takes_what_fits_on_it_when_it_is_empty(void **state)
{
	(void)state;
	struct pilot_kind k = {0};
	assert_refused(&k, (struct placement_need){.num_gpus = 99, .cpus = 99, .time_ms = 99}, "");
	pilot_kind_parse(&k, "--gres=gpu:8 --time=1");
	learn(&k, 3600000);
	learn(&k, 1000000); /* the same one, later */
	assert_refused(&k, (struct placement_need){.num_gpus = 2, .memory_bytes = 24 * UNITS_GB, .cpus = 8}, "");
	assert_refused(&k, (struct placement_need){.num_gpus = 3}, "a job needs 3 GPUs, a pilot has 2");
	assert_refused(&k, (struct placement_need){.num_gpus = 1, .memory_bytes = 40 * UNITS_GB, .declared = true},
		"a job needs 40.0 GiB of GPU memory, the GPUs of a pilot have 24.0 GiB");
	assert_refused(&k, (struct placement_need){.cpus = 9}, "a job needs 9 CPUs, a pilot has 8");
	assert_refused(&k, (struct placement_need){.host_bytes = 65 * UNITS_GB},
		"a job needs 65.0 GiB of main memory, a pilot has 64.0 GiB");
	assert_refused(&k, (struct placement_need){.num_gpus = 1, .time_ms = 3700000}, "");
	assert_refused(&k, (struct placement_need){.num_gpus = 1, .time_ms = 7200000},
		"a job needs 2h 00m of run time, a pilot has 1h 00m");
	learn(&k, -1);
	assert_refused(&k, (struct placement_need){.num_gpus = 1, .time_ms = 7200000}, "");
}

static void test_how_many_jobs_run_on_a_pilot_at_a_time(void **state)
{
	(void)state;
	struct pilot_kind k = {0};
	assert_int_equal(pilot_kind_capacity(&k, &(struct placement_need){.num_gpus = 1}), 0);
	learn(&k, -1);
	assert_int_equal(pilot_kind_capacity(&k, &(struct placement_need){.num_gpus = 1, .alone = true}), 2);
	assert_int_equal(pilot_kind_capacity(&k, &(struct placement_need){.num_gpus = 2, .alone = true}), 1);
	assert_int_equal(
		pilot_kind_capacity(
			&k, &(struct placement_need){.num_gpus = 1, .declared = true, .memory_bytes = 6 * UNITS_GB}),
		8);
	assert_int_equal(pilot_kind_capacity(&k, &(struct placement_need){.num_gpus = 1, .cpus = 8}), 1);
	assert_int_equal(pilot_kind_capacity(&k, &(struct placement_need){.host_bytes = 16 * UNITS_GB}), 4);
	assert_int_equal(pilot_kind_capacity(&k, &(struct placement_need){0}), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_of_sbatch_say_what_a_pilot_has),
		cmocka_unit_test(test_a_pilot_takes_what_fits_on_it_when_it_is_empty),
		cmocka_unit_test(test_how_many_jobs_run_on_a_pilot_at_a_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
