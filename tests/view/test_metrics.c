/* SPDX-License-Identifier: MIT */
/* The metrics for Prometheus. */
#include <string.h>

#include "model_rig.h"
#include "view/web/metrics.h"

static struct text out;

static int teardown(void **state)
{
	text_finish(&out);
	out = (struct text){0};
	return model_rig_teardown(state);
}

static void put(void)
{
	struct view_facts facts = {.journal_bytes = 4096, .bad_lines = 2, .runner = 77};
	text_clear(&out);
	metrics_put(&out, model, &facts, 100000);
	assert_int_equal(text_error(&out), 0);
}

/* A whole line. */
static void assert_line(const char *line)
{
	const char *at = strstr(text_string(&out), line);
	if (!at || (at != out.data && at[-1] != '\n') || at[strlen(line)] != '\n')
		fail_msg("no line '%s' in:\n%s", line, text_string(&out));
}

static void test_gpu_metrics_are_in_base_units(void **state)
{
	(void)state;
	struct view_gpu gpu = {.id = 1,
		.name = "Card \"A\\B\"",
		.memory_total_bytes = INT64_C(42949672960),
		.memory_used_bytes = 1073741824,
		.utilization_percent = 87,
		.temperature_celsius = 61,
		.power_milliwatts = 312500,
		.num_tasks = 2};
	assert_int_equal(view_put_gpu(model, &gpu), 0);
	put();
	assert_line("gpuq_gpu_info{gpu=\"1\",name=\"Card \\\"A\\\\B\\\"\"} 1");
	assert_line("gpuq_gpu_memory_size_bytes{gpu=\"1\"} 42949672960");
	assert_line("gpuq_gpu_memory_used_bytes{gpu=\"1\"} 1073741824");
	assert_line("gpuq_gpu_utilization_ratio{gpu=\"1\"} 0.87");
	assert_line("gpuq_gpu_temperature_celsius{gpu=\"1\"} 61");
	assert_line("gpuq_gpu_power_watts{gpu=\"1\"} 312.5");
	assert_line("gpuq_gpu_running_jobs{gpu=\"1\"} 2");
	assert_line("gpuq_gpu_up{gpu=\"1\"} 1");
}

static void test_unknown_gpu_values_have_no_metric(void **state)
{
	(void)state;
	struct view_gpu gpu = view_gpu_unknown(0, 0);
	gpu.status = VIEW_GPU_ERROR;
	assert_int_equal(view_put_gpu(model, &gpu), 0);
	put();
	assert_line("gpuq_gpu_up{gpu=\"0\"} 0");
	assert_null(strstr(text_string(&out), "celsius"));
	assert_null(strstr(text_string(&out), "memory"));
}

static void test_metrics_count_jobs_attempts_durations_and_waiting_time(void **state)
{
	(void)state;
	struct view_attempt tried[] = {
		{.start_ms = 3000,
			.end_ms = 7000,
			.duration_ms = 4000,
			.energy_j = -1,
			.state = VIEW_JOB_FAILED,
			.reason = "timeout"},
		{.start_ms = 8000, .end_ms = 8050, .duration_ms = 50, .energy_j = 1234, .state = VIEW_JOB_COMPLETED},
	};
	struct view_job done = {.id = 1,
		.command = "x",
		.state = VIEW_JOB_COMPLETED,
		.submit_ms = 1000,
		.attempts = tried,
		.num_attempts = 2};
	struct view_job waits = {.id = 2, .command = "y", .state = VIEW_JOB_PENDING, .submit_ms = 40000};
	assert_int_equal(view_put_job(model, &done), 0);
	assert_int_equal(view_put_job(model, &waits), 0);
	put();
	assert_line("gpuq_jobs{state=\"completed\"} 1");
	assert_line("gpuq_jobs{state=\"pending\"} 1");
	assert_line("gpuq_jobs{state=\"running\"} 0");
	assert_line("gpuq_attempts_total{result=\"completed\"} 1");
	assert_line("gpuq_attempts_total{result=\"failed\"} 1");
	assert_line("gpuq_retries_total 1");
	assert_line("gpuq_timeouts_total 1");
	assert_line("gpuq_energy_joules_total 1234");
	assert_line("gpuq_job_energy_joules{id=\"1\",name=\"\"} 1234");
	assert_line("gpuq_job_run_seconds{id=\"1\",name=\"\"} 0.05");
	assert_line("gpuq_attempt_duration_seconds_bucket{le=\"0.1\"} 1");
	assert_line("gpuq_attempt_duration_seconds_bucket{le=\"1\"} 1");
	assert_line("gpuq_attempt_duration_seconds_bucket{le=\"5\"} 2");
	assert_line("gpuq_attempt_duration_seconds_bucket{le=\"+Inf\"} 2");
	assert_line("gpuq_attempt_duration_seconds_sum 4.050");
	assert_line("gpuq_attempt_duration_seconds_count 2");
	assert_line("gpuq_job_wait_seconds_bucket{le=\"1\"} 0");
	assert_line("gpuq_job_wait_seconds_bucket{le=\"5\"} 1");
	assert_line("gpuq_oldest_pending_seconds 60.000");
}

static void test_only_jobs_that_run_or_just_ended_have_metrics_of_their_own(void **state)
{
	(void)state;
	struct view_attempt attempt = {.start_ms = 1000,
		.end_ms = -1,
		.duration_ms = -1,
		.peak_mem_mb = 2,
		.energy_j = -1,
		.state = VIEW_JOB_RUNNING};
	struct view_job job = {.id = 1,
		.name = "a\"b",
		.command = "x",
		.state = VIEW_JOB_RUNNING,
		.mem_mb = 3,
		.submit_ms = 1,
		.attempts = &attempt,
		.num_attempts = 1};
	assert_int_equal(view_put_job(model, &job), 0);
	job.id = 2;
	job.state = attempt.state = VIEW_JOB_COMPLETED;
	attempt.end_ms = 600000;
	assert_int_equal(view_put_job(model, &job), 0);
	job.id = 3;
	job.state = VIEW_JOB_PENDING;
	assert_int_equal(view_put_job(model, &job), 0);
	struct view_facts facts = {.journal_bytes = 1};
	text_clear(&out);
	metrics_put(&out, model, &facts, 1000000);
	assert_line("gpuq_job_memory_requested_bytes{id=\"1\",name=\"a\\\"b\"} 3145728");
	assert_line("gpuq_job_memory_peak_bytes{id=\"1\",name=\"a\\\"b\"} 2097152");
	assert_null(strstr(text_string(&out), "id=\"2\""));
	assert_null(strstr(text_string(&out), "id=\"3\""));
	assert_null(strstr(text_string(&out), "gpuq_job_energy"));
}

static void test_jobs_of_several_queues_have_a_label(void **state)
{
	(void)state;
	struct view_attempt attempt = {
		.start_ms = 1000, .end_ms = -1, .duration_ms = -1, .peak_mem_mb = -1, .state = VIEW_JOB_RUNNING};
	struct view_job job = {.id = view_job_id(9, 4),
		.queue = "/a\"b",
		.command = "x",
		.state = VIEW_JOB_RUNNING,
		.mem_mb = 3,
		.attempts = &attempt,
		.num_attempts = 1};
	assert_int_equal(view_put_job(model, &job), 0);
	struct view_facts facts = {.journal_bytes = 1};
	text_clear(&out);
	metrics_put(&out, model, &facts, 1000000);
	assert_line("gpuq_job_memory_requested_bytes{id=\"4\",name=\"\",queue=\"/a\\\"b\"} 3145728");
}

static void test_metrics_cover_journal_runner_and_build(void **state)
{
	(void)state;
	put();
	assert_line("gpuq_build_info{version=\"" GD_VERSION "\"} 1");
	assert_line("gpuq_runner_up 1");
	assert_line("gpuq_journal_size_bytes 4096");
	assert_line("gpuq_journal_bad_lines 2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_gpu_metrics_are_in_base_units, model_rig_setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_only_jobs_that_run_or_just_ended_have_metrics_of_their_own, model_rig_setup, teardown),
		cmocka_unit_test_setup_teardown(test_jobs_of_several_queues_have_a_label, model_rig_setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_gpu_values_have_no_metric, model_rig_setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_metrics_count_jobs_attempts_durations_and_waiting_time, model_rig_setup, teardown),
		cmocka_unit_test_setup_teardown(test_metrics_cover_journal_runner_and_build, model_rig_setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
