/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/display.h"
#include "support/check.h"
#include "view/report/html.h"
#include "view/report/report.h"
#include "view/report/report_chart.h"
#include "view/report/report_parts.h"

#define T0 INT64_C(1763200000000) /* 2025-11-15 09:46:40 UTC */

static const int gpus[] = {0, 1};

/* A job on one GPU: added, started, ended at these seconds. */
static void put(struct view_model *m, uint64_t id, int gpu, int added, int start, int end, enum view_job_state state)
{
	struct view_attempt a = {.start_ms = T0 + start * 1000,
		.end_ms = end < 0 ? -1 : T0 + end * 1000,
		.duration_ms = end < 0 ? -1 : (end - start) * 1000,
		.peak_mem_mb = -1,
		.energy_j = -1,
		.exit_code = state == VIEW_JOB_FAILED ? 3 : 0,
		.state = state,
		.gpus = &gpus[gpu],
		.num_gpus = 1};
	struct view_job j = {.id = id,
		.command = "train",
		.state = state,
		.num_gpus = 1,
		.mem_mb = -1,
		.timeout_ms = -1,
		.submit_ms = T0 + added * 1000,
		.attempts = &a,
		.num_attempts = 1};
	assert_int_equal(view_put_job(m, &j), 0);
}

static int setup(void **state)
{
	setenv("TZ", "UTC", 1);
	tzset();
	*state = view_model_create(REPORT_HISTORY);
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	view_model_destroy(*state);
	return 0;
}

/* ---- Escaping ------------------------------------------------------------------------ */

static void test_text_of_others_cannot_become_markup(void **state)
{
	(void)state;
	struct text t = {0};
	html_text(&t, "<script>\"a\" & 'b'\x1b[31m\n\xff\u202e", DISPLAY_ALL);
	assert_string_equal(text_string(&t), "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\\x1b[31m\\n\\xff\\u202e");
	text_finish(&t);
	/* Truncated by displayed length, not by escaped length. */
	html_text(&t, "&&&&&&", 4);
	assert_string_equal(text_string(&t), "&amp;&amp;&amp;…");
	text_finish(&t);
}

static void test_hostile_jobs_stay_text_on_the_page(void **state)
{
	struct view_model *m = *state;
	static const char evil[] = "</title></svg><script>alert(1)</script>\"'&";
	struct view_attempt a = {.start_ms = T0,
		.end_ms = T0 + 1000,
		.duration_ms = 1000,
		.peak_mem_mb = -1,
		.energy_j = -1,
		.exit_code = -1,
		.state = VIEW_JOB_FAILED,
		.reason = evil,
		.gpus = gpus,
		.num_gpus = 1};
	struct view_job j = {.id = 1,
		.name = evil,
		.command = evil,
		.state = VIEW_JOB_FAILED,
		.reason = evil,
		.submit_ms = T0,
		.attempts = &a,
		.num_attempts = 1};
	struct view_gpu g = {.id = 0, .name = evil, .memory_total_bytes = -1};
	assert_int_equal(view_put_job(m, &j), 0);
	assert_int_equal(view_put_gpu(m, &g), 0);
	struct text page = {0};
	struct report r = {.model = m, .queue = evil, .now_ms = T0 + 5000};
	assert_int_equal(report_write(&r, &page), 0);
	assert_null(strstr(page.data, "<script"));
	assert_null(strstr(page.data, "alert(1)</script>"));
	assert_true(check_occurrences(page.data, "&lt;script&gt;") >= 6);
	text_finish(&page);
}

/* ---- Numbers ------------------------------------------------------------------------- */

static void test_energy_and_idle_gpus_are_summed_up(void **state)
{
	struct view_model *m = *state;
	struct view_attempt a[] = {
		{.start_ms = T0,
			.end_ms = T0 + 7200000,
			.duration_ms = 7200000,
			.peak_mem_mb = -1,
			.energy_j = 3600000},
		/* Two GPUs are idle: half an hour in total so far, a quarter of an hour before the end. */
		{.start_ms = T0, .end_ms = T0 + 3600000, .duration_ms = 3600000, .peak_mem_mb = -1, .energy_j = 1800},
		/* It still runs, and its idle time grows. */
		{.start_ms = T0, .end_ms = -1, .duration_ms = -1, .peak_mem_mb = -1, .energy_j = -1},
	};
	a[1].idle_ms = 1800000;
	a[1].idle_at_ms = T0 + 2700000;
	a[1].idle_gpus = 2;
	a[2].idle_ms = 600000;
	a[2].idle_at_ms = T0 + 7200000;
	a[2].idle_gpus = 1;
	for (size_t i = 0; i < 3; i++) {
		a[i].state = i == 2 ? VIEW_JOB_RUNNING : VIEW_JOB_COMPLETED;
		a[i].gpus = gpus;
		a[i].num_gpus = 2;
		struct view_job j = {.id = i + 1,
			.command = "train",
			.state = a[i].state,
			.submit_ms = T0,
			.attempts = &a[i],
			.num_attempts = 1};
		assert_int_equal(view_put_job(m, &j), 0);
	}
	struct text page = {0};
	struct report r = {.model = m, .queue = "q", .now_ms = T0 + 9000000};
	assert_int_equal(report_write(&r, &page), 0);
	assert_non_null(
		strstr(page.data, "1.00 kWh, used by 2 of 3 attempts; only attempts that did not share their GPUs"));
	assert_non_null(strstr(page.data, "<td class=\"n\">1800 J</td>"));
	assert_non_null(strstr(page.data, "<td class=\"n\">500 W</td>"));
	assert_non_null(strstr(page.data, "1.7 GPU-hours were wasted by 2 attempts"));
	assert_non_null(strstr(page.data, "<td class=\"n bad\">1h 00m</td>"));
	assert_non_null(strstr(page.data, "<td class=\"n bad\">40m 00s</td>"));
	text_finish(&page);
}

static void test_busy_is_the_time_with_at_least_one_job(void **state)
{
	struct view_model *m = *state;
	put(m, 1, 0, 0, 0, 10, VIEW_JOB_COMPLETED);
	put(m, 2, 0, 0, 5, 20, VIEW_JOB_FAILED);
	put(m, 3, 1, 0, 30, 40, VIEW_JOB_COMPLETED);
	put(m, 4, 1, 0, 40, -1, VIEW_JOB_RUNNING);
	struct report_facts f;
	assert_int_equal(report_facts_init(&f, m, 0, T0 + 50000), 0);
	assert_int_equal(f.from_ms, T0);
	assert_int_equal(f.to_ms, T0 + 50000);
	assert_int_equal(f.num_gpus, 2);
	assert_int_equal(f.gpus[0].busy_ms, 20000);
	assert_int_equal(f.gpus[0].num_lanes, 2);
	assert_int_equal(f.gpus[0].num_failed, 1);
	assert_int_equal(f.gpus[1].busy_ms, 20000);
	assert_int_equal(f.gpus[1].num_lanes, 1);
	assert_int_equal(f.busy_ms, 40000);
	assert_int_equal(f.gpu_ms, 100000);
	assert_int_equal(f.counts[VIEW_JOB_RUNNING], 1);
	assert_int_equal(f.num_ends, 3);
	assert_int_equal(f.num_failed, 1);
	assert_int_equal(f.longest[0].job->id, 2);
	report_facts_finish(&f);
}

static void test_waiting_time_is_divided_by_its_reasons(void **state)
{
	struct view_model *m = *state;
	const uint64_t after[] = {1};
	put(m, 1, 0, 0, 2, 10, VIEW_JOB_COMPLETED);
	struct view_attempt tries[] = {
		{.start_ms = T0 + 13000, .end_ms = T0 + 20000, .duration_ms = 7000, .state = VIEW_JOB_FAILED},
		{.start_ms = T0 + 25000, .end_ms = T0 + 30000, .duration_ms = 5000, .state = VIEW_JOB_COMPLETED},
	};
	for (size_t i = 0; i < 2; i++) {
		tries[i].gpus = gpus;
		tries[i].num_gpus = 1;
	}
	struct view_job j = {.id = 2,
		.command = "b",
		.state = VIEW_JOB_COMPLETED,
		.submit_ms = T0 + 1000,
		.after = after,
		.num_after = 1,
		.attempts = tries,
		.num_attempts = 2};
	struct view_job waits = {.id = 3, .command = "c", .state = VIEW_JOB_PENDING, .submit_ms = T0 + 28000};
	assert_int_equal(view_put_job(m, &j), 0);
	assert_int_equal(view_put_job(m, &waits), 0);
	struct report_facts f;
	assert_int_equal(report_facts_init(&f, m, 0, T0 + 31000), 0);
	assert_int_equal(f.waits[REPORT_WAIT_ALL].count, 2);
	assert_int_equal(f.waits[REPORT_WAIT_ALL].total_ms, 14000);
	assert_int_equal(f.waits[REPORT_WAIT_AFTER].total_ms, 9000);
	assert_int_equal(f.waits[REPORT_WAIT_GPU].total_ms, 5000);
	assert_int_equal(f.waits[REPORT_WAIT_RETRY].total_ms, 5000);
	assert_int_equal(f.waits[REPORT_WAIT_STILL].longest_ms, 3000);
	/* Empty while something waited: 10…13 and 20…25; not while job 2 waited for job 1. */
	assert_int_equal(f.idle_ms, 8000);
	report_facts_finish(&f);
}

static void test_idle_counts_only_gpus_that_a_waiting_job_could_have_had(void **state)
{
	struct view_model *m = *state;
	/* GPU 0 works all the time, GPU 1 in the last ten seconds; one job waits from 5 on, for GPU 1. */
	put(m, 1, 0, 0, 0, 30, VIEW_JOB_COMPLETED);
	put(m, 2, 1, 5, 20, 30, VIEW_JOB_COMPLETED);
	struct view_gpu third = {.id = 7, .memory_total_bytes = -1}; /* idle, but no job waits for a second GPU */
	assert_int_equal(view_put_gpu(m, &third), 0);
	struct report_facts f;
	assert_int_equal(report_facts_init(&f, m, 0, T0 + 30000), 0);
	assert_int_equal(f.num_gpus, 3);
	assert_int_equal(f.idle_ms, 15000);
	report_facts_finish(&f);
}

static void test_pauses_and_delays_are_not_waiting(void **state)
{
	struct view_model *m = *state;
	/* Out of order, and two of them overlap: together 2…6 and 8…9. */
	const struct view_delay pauses[] = {
		{.from_ms = T0 + 8000, .to_ms = T0 + 9000},
		{.from_ms = T0 + 2000, .to_ms = T0 + 5000},
		{.from_ms = T0 + 4000, .to_ms = T0 + 6000},
		{.from_ms = T0 + 7000, .to_ms = T0 + 7000},
	};
	const struct view_delay delays[] = {{.from_ms = T0 + 5000, .to_ms = T0 + 7000, .kind = VIEW_DELAY_HELD}};
	struct view_job j = {.id = 1, .command = "a", .state = VIEW_JOB_PENDING, .submit_ms = T0};
	j.delays = delays;
	j.num_delays = 1;
	struct view_gpu gpu = {.id = 0, .memory_total_bytes = -1};
	assert_int_equal(view_put_gpu(m, &gpu), 0);
	assert_int_equal(view_put_pauses(m, pauses, 4), 0);
	assert_int_equal(view_put_job(m, &j), 0);
	struct report_facts f;
	assert_int_equal(report_facts_init(&f, m, 0, T0 + 10000), 0);
	/* It waits in 0…2, 7…8 and 9…10. */
	assert_int_equal(f.waits[REPORT_WAIT_STILL].total_ms, 4000);
	assert_int_equal(f.waits[REPORT_WAIT_HELD].total_ms, 2000);
	assert_int_equal(f.idle_ms, 4000);
	assert_int_equal(f.paused_ms, 5000);
	static const struct report_depth depth[] = {
		{T0, 1}, {T0 + 2000, 0}, {T0 + 7000, 1}, {T0 + 8000, 0}, {T0 + 9000, 1}, {T0 + 10000, 0}};
	assert_int_equal(f.num_depth, 6);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(f.depth[i].time_ms, depth[i].time_ms);
		assert_int_equal(f.depth[i].waiting, depth[i].waiting);
	}
	report_facts_finish(&f);
}

/* A journal of another user can have as many jobs, pauses, attempts and delays as it likes. */
static void test_work_grows_with_the_sum_of_jobs_and_pauses(void **state)
{
	enum { MANY = 20000 };
	struct view_model *m = *state;
	struct view_delay *delays = calloc(MANY, sizeof(*delays));
	struct view_attempt *attempts = calloc(MANY, sizeof(*attempts));
	assert_non_null(delays);
	assert_non_null(attempts);
	for (int i = 0; i < MANY; i++) {
		delays[i] = (struct view_delay){.from_ms = T0 + 10 * i, .to_ms = T0 + 10 * i + 5};
		/* Each attempt begins after all delays, although the one before it ended at the beginning. */
		attempts[i] = (struct view_attempt){.start_ms = T0 + 10 * MANY, .end_ms = T0, .state = VIEW_JOB_FAILED};
	}
	assert_int_equal(view_put_pauses(m, delays, MANY), 0);
	struct view_job j = {.command = "a", .state = VIEW_JOB_PENDING, .submit_ms = T0};
	for (j.id = 1; j.id < MANY; j.id++)
		assert_int_equal(view_put_job(m, &j), 0);
	j.delays = delays;
	j.num_delays = MANY;
	j.attempts = attempts;
	j.num_attempts = MANY;
	assert_int_equal(view_put_job(m, &j), 0);
	struct report_facts f;
	assert_int_equal(report_facts_init(&f, m, 0, T0 + 10 * MANY), 0);
	assert_true(f.num_depth <= 4 * MANY);
	assert_int_equal(f.waits[REPORT_WAIT_STILL].longest_ms, 5 * MANY);
	report_facts_finish(&f);
	free(delays);
	free(attempts);
}

static void test_tiles_stand_in_rows_of_almost_the_same_length(void **state)
{
	(void)state;
	static const struct {
		int tiles;
		const char *columns;
	} cases[] = {{1, "--tiles:1\""}, {8, "--tiles:8\""}, {9, "--tiles:5\""}, {17, "--tiles:6\""}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct text tiles = {0}, out = {0};
		for (int k = 0; k < cases[i].tiles; k++)
			report_tile(&tiles, NULL, "jobs", "%d", k);
		report_tiles(&out, &tiles);
		assert_non_null(strstr(text_string(&out), cases[i].columns));
		text_finish(&tiles);
		text_finish(&out);
	}
}

static void test_percentiles_are_values_that_occurred(void **state)
{
	(void)state;
	int64_t values[] = {50, 10, 40, 20, 30, 60, 70, 80, 90, 100};
	struct report_times t = report_times_of(values, 10);
	assert_int_equal(t.median_ms, 50);
	assert_int_equal(t.p90_ms, 90);
	assert_int_equal(t.longest_ms, 100);
	assert_int_equal(t.total_ms, 550);
	assert_int_equal(report_times_of(values, 0).count, 0);
	assert_int_equal(report_times_of(values, 1).p90_ms, 10);
}

static void test_since_drops_earlier_jobs_and_cuts_busy_time(void **state)
{
	struct view_model *m = *state;
	put(m, 1, 0, 0, 0, 10, VIEW_JOB_COMPLETED);
	put(m, 2, 0, 0, 10, 30, VIEW_JOB_COMPLETED);
	put(m, 3, 1, 25, 25, 40, VIEW_JOB_COMPLETED);
	struct report_facts f;
	assert_int_equal(report_facts_init(&f, m, T0 + 20000, T0 + 50000), 0);
	assert_int_equal(f.num_jobs, 2);
	assert_int_equal(f.from_ms, T0 + 20000);
	assert_int_equal(f.gpus[0].busy_ms, 10000);
	assert_int_equal(f.longest[0].job->id, 2); /* by its full duration, not by its visible part */
	report_facts_finish(&f);
}

static void test_an_empty_queue_makes_a_page(void **state)
{
	struct text page = {0};
	struct report r = {.model = *state, .queue = "q", .now_ms = T0};
	assert_int_equal(report_write(&r, &page), 0);
	check_contains(page.data, "No job has run yet");
	text_finish(&page);
}

/* ---- Pictures ------------------------------------------------------------------------ */

static void test_bars_narrower_than_a_pixel_are_merged(void **state)
{
	struct view_model *m = *state;
	/* One long job, then a thousand of a second each in a row; the whole is 100,000 seconds. */
	put(m, 1, 0, 0, 0, 99000, VIEW_JOB_COMPLETED);
	for (int i = 0; i < 1000; i++)
		put(m, 2 + (uint64_t)i, 0, 0, 99000 + i, 99001 + i, i == 500 ? VIEW_JOB_FAILED : VIEW_JOB_COMPLETED);
	struct report_facts f;
	struct report_axis a;
	struct text t = {0};
	assert_int_equal(report_facts_init(&f, m, 0, T0 + INT64_C(200000000)), 0);
	report_axis_init(&a, f.from_ms, f.to_ms);
	report_timeline(&t, &f, &a);
	assert_int_equal(
		check_occurrences(t.data, "<path class=\"c\"") + check_occurrences(t.data, "<path class=\"d\""), 1);
	assert_int_equal(check_occurrences(t.data, "<path class=\"m\""), 1);
	check_contains(t.data, "1000 jobs, 2 to 1001, 1 failed");
	assert_int_equal(check_occurrences(t.data, "<path class=\"f\""), 1); /* the mark below */
	text_finish(&t);
	report_facts_finish(&f);
}

static void test_a_wide_timeline_stays_small(void **state)
{
	struct view_model *m = *state;
	int gpu[64];
	/* Each pixel of each of 64 GPUs would have its own job. */
	for (int g = 0; g < 64; g++) {
		gpu[g] = g;
		for (int i = 0; i < 1000; i++) {
			struct view_attempt a = {.start_ms = T0 + i * 10000,
				.end_ms = T0 + i * 10000 + 4000,
				.duration_ms = 4000,
				.state = VIEW_JOB_COMPLETED,
				.gpus = &gpu[g],
				.num_gpus = 1};
			struct view_job j = {.id = (uint64_t)(g * 1000 + i + 1),
				.command = "python train.py --with --many --options --and --values 1 2 3 4 5",
				.state = VIEW_JOB_COMPLETED,
				.submit_ms = T0,
				.attempts = &a,
				.num_attempts = 1};
			assert_int_equal(view_put_job(m, &j), 0);
		}
	}
	struct text page = {0};
	struct report r = {.model = m, .now_ms = T0 + 10000000};
	assert_int_equal(report_write(&r, &page), 0);
	assert_true(page.length < 6 << 20);
	text_finish(&page);
}

static void test_samples_become_lines_that_end_at_gaps(void **state)
{
	struct view_model *m = *state;
	struct view_gpu g = {.id = 0, .memory_total_bytes = INT64_C(1000) << 20};
	put(m, 1, 0, 0, 0, 1000, VIEW_JOB_COMPLETED);
	assert_int_equal(view_put_gpu(m, &g), 0);
	for (int i = 0; i < 1000; i += 5) {
		if (i >= 400 && i < 600)
			continue;
		struct view_sample s = {.time_ms = T0 + i * 1000,
			.memory_used_bytes = INT64_C(500) << 20,
			.utilization_percent = i < 400 ? 100 : 0};
		assert_int_equal(view_put_sample(m, 0, &s), 0);
	}
	struct report_facts f;
	struct report_axis a;
	struct text t = {0};
	assert_int_equal(report_facts_init(&f, m, 0, T0 + 2000000), 0);
	assert_int_equal(f.gpus[0].mean_util, 50);
	assert_int_equal(f.gpus[0].peak_mem_mb, 500);
	report_axis_init(&a, f.from_ms, f.to_ms);
	report_usage(&t, &f, &a);
	check_contains(t.data, "utilization 50% on average, at most 500 MiB of memory used of 1000 MiB");
	const char *line = strstr(t.data, "class=\"util\" d=\"");
	assert_non_null(line);
	line += strlen("class=\"util\" d=\"");
	assert_int_equal(strncmp(line, "M0 0L", 5), 0);
	size_t pieces = 0;
	for (; *line != '"'; line++)
		pieces += *line == 'M';
	assert_int_equal(pieces, 2);
	text_finish(&t);
	report_facts_finish(&f);
}

static void test_the_axis_has_round_times(void **state)
{
	(void)state;
	struct report_axis a;
	report_axis_init(&a, T0, T0 + 3600000);
	assert_int_equal(a.num_ticks, 6);
	assert_string_equal(a.ticks[0].label, "09:50");
	assert_string_equal(a.ticks[5].label, "10:40");
	report_axis_init(&a, T0, T0 + 5000);
	assert_string_equal(a.ticks[0].label, "09:46:40");
	report_axis_init(&a, T0, T0 + INT64_C(86400000) * 6);
	assert_string_equal(a.ticks[0].label, "Nov 16");
	assert_int_equal(report_axis_x(&a, T0 - 1), 0);
	assert_int_equal(report_axis_x(&a, INT64_MAX), REPORT_WIDTH);
	report_axis_init(&a, 0, INT64_C(86400000) * 365 * 900);
	assert_true(a.num_ticks <= REPORT_TICKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_text_of_others_cannot_become_markup, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile_jobs_stay_text_on_the_page, setup, teardown),
		cmocka_unit_test_setup_teardown(test_energy_and_idle_gpus_are_summed_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_busy_is_the_time_with_at_least_one_job, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waiting_time_is_divided_by_its_reasons, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pauses_and_delays_are_not_waiting, setup, teardown),
		cmocka_unit_test_setup_teardown(test_work_grows_with_the_sum_of_jobs_and_pauses, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_idle_counts_only_gpus_that_a_waiting_job_could_have_had, setup, teardown),
		cmocka_unit_test_setup_teardown(test_percentiles_are_values_that_occurred, setup, teardown),
		cmocka_unit_test(test_tiles_stand_in_rows_of_almost_the_same_length),
		cmocka_unit_test_setup_teardown(test_since_drops_earlier_jobs_and_cuts_busy_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_empty_queue_makes_a_page, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bars_narrower_than_a_pixel_are_merged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_wide_timeline_stays_small, setup, teardown),
		cmocka_unit_test_setup_teardown(test_samples_become_lines_that_end_at_gaps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_axis_has_round_times, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
