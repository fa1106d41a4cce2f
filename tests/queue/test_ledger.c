/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/units.h"
#include "queue/schedule/ledger.h"
#include "support/gpu_pointers.h"

#define GB UNITS_GB

static struct gd_gpu gpu_of(uint64_t total_gb, uint64_t free_gb, const struct gd_gpu_process *processes, size_t count)
{
	return (struct gd_gpu){
		.known = GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE | GD_GPU_KNOWN_MEMORY_USED |
			 GD_GPU_KNOWN_PROCESSES,
		.vendor = GD_VENDOR_NVIDIA,
		.mig_index = -1,
		.memory_total_bytes = total_gb * GB,
		.memory_free_bytes = free_gb * GB,
		.memory_used_bytes = (total_gb - free_gb) * GB,
		.processes = process_pointers(processes, count),
		.num_processes = count,
	};
}

static const int on_first[] = {0};

static struct ledger_job job_of(uint64_t id, uint64_t promised_gb, const int64_t *pid)
{
	return (struct ledger_job){
		.id = id,
		.declared = true,
		.promised_bytes = promised_gb * GB,
		.gpus = on_first,
		.num_gpus = 1,
		.pids = pid,
		.num_pids = pid != NULL,
	};
}

static struct ledger_account build(const struct ledger_input *in)
{
	struct ledger l = {0};
	assert_int_equal(ledger_build(&l, in), 0);
	struct ledger_account first = l.accounts[0];
	ledger_finish(&l);
	return first;
}

static void test_a_job_that_has_not_allocated_keeps_its_room(void **state)
{
	(void)state;
	const int64_t pids[] = {100, 200, 300};
	const struct gd_gpu_process seen[] = {{.pid = 200, .memory_bytes = 4 * GB, .memory_known = 1},
		{.pid = 300, .memory_bytes = 9 * GB, .memory_known = 1},
		{.pid = 999, .memory_bytes = 2 * GB, .memory_known = 1}};
	struct gd_gpu gpu = gpu_of(80, 65, seen, 3);
	struct ledger_job jobs[] = {job_of(1, 10, &pids[0]), job_of(2, 10, &pids[1]), job_of(3, 8, &pids[2])};
	struct ledger_account a = build(
		&(struct ledger_input){.gpus = gpu_pointers(&gpu, 1), .num_gpus = 1, .jobs = jobs, .num_jobs = 3});
	assert_true(a.known && a.attributable);
	/* 65 − (10 − 0) − (10 − 4) − 0: the third has more than it promised. */
	assert_int_equal(a.free_bytes, 49 * GB);
	assert_int_equal(a.jobs, 3);
	assert_int_equal(a.drained_bytes, 78 * GB);
	assert_int_equal(a.holder, LEDGER_JOB);
	assert_int_equal(a.processes, 3);
	assert_int_equal(a.foreign_processes, 1);
}

static void test_claims_of_others_count_as_memory_not_as_jobs(void **state)
{
	(void)state;
	const int64_t pid = 500;
	const struct gd_gpu_process seen[] = {{.pid = 500, .memory_bytes = 5 * GB, .memory_known = 1}};
	struct gd_gpu gpu = gpu_of(40, 35, seen, 1);
	struct ledger_job claim = job_of(0, 20, &pid);
	claim.foreign = true;
	struct ledger_account a = build(
		&(struct ledger_input){.gpus = gpu_pointers(&gpu, 1), .num_gpus = 1, .jobs = &claim, .num_jobs = 1});
	assert_int_equal(a.free_bytes, 20 * GB);
	assert_int_equal(a.drained_bytes, 20 * GB);
	assert_int_equal(a.jobs, 0);
	assert_int_equal(a.claims, 1);
	assert_int_equal(a.holder, LEDGER_CLAIM);

	claim.promised_bytes = UINT64_MAX; /* an absurd value counts as the whole card */
	a = build(&(struct ledger_input){.gpus = gpu_pointers(&gpu, 1), .num_gpus = 1, .jobs = &claim, .num_jobs = 1});
	assert_int_equal(a.free_bytes, 0);
	assert_int_equal(a.promised_bytes, 40 * GB);
	assert_int_equal(a.holder_bytes, 40 * GB);
}

static void test_a_job_that_ended_since_the_sample_gives_its_memory_back(void **state)
{
	(void)state;
	const int64_t pid = 100;
	const struct gd_gpu_process seen[] = {{.pid = 100, .memory_bytes = 12 * GB, .memory_known = 1}};
	struct gd_gpu gpu = gpu_of(16, 4, seen, 1);
	struct ledger_job job = job_of(1, 14, &pid);
	job.ended = true;
	struct ledger_account a = build(
		&(struct ledger_input){.gpus = gpu_pointers(&gpu, 1), .num_gpus = 1, .jobs = &job, .num_jobs = 1});
	assert_int_equal(a.free_bytes, 16 * GB);
	assert_int_equal(a.jobs, 0);
	assert_int_equal(a.processes, 0);
}

/* Memory that cannot be attributed: the four ways in which this appears. */
static void check_two_of_three(struct gd_gpu gpu, bool foreign_pids)
{
	const int64_t pids[] = {100, 200};
	struct ledger_job jobs[] = {job_of(1, 40, &pids[0]), job_of(2, 40, &pids[1])};
	struct ledger_input in = {
		.gpus = gpu_pointers(&gpu, 1), .num_gpus = 1, .jobs = jobs, .foreign_pids = foreign_pids};
	gpu.memory_free_bytes = 80 * GB;
	gpu.memory_used_bytes = 0;
	assert_int_equal(build(&in).free_bytes, 80 * GB);
	assert_false(build(&in).attributable);

	/* The first has allocated all or nothing: 40 GB are left for the second. */
	in.num_jobs = 1;
	for (uint64_t used = 0; used <= 40; used += 20) {
		gpu.memory_free_bytes = (80 - used) * GB;
		gpu.memory_used_bytes = used * GB;
		assert_int_equal(build(&in).free_bytes, 40 * GB);
		assert_int_equal(build(&in).drained_bytes, 80 * GB);
	}
	in.num_jobs = 2;
	for (uint64_t used = 0; used <= 80; used += 20) {
		gpu.memory_free_bytes = (80 - used) * GB;
		gpu.memory_used_bytes = used * GB;
		assert_int_equal(build(&in).free_bytes, 0);
	}
	/* A job that uses more than it promised reduces the rest. */
	in.num_jobs = 1;
	gpu.memory_free_bytes = 10 * GB;
	gpu.memory_used_bytes = 70 * GB;
	assert_int_equal(build(&in).free_bytes, 10 * GB);
}

static void test_two_40_gb_jobs_fit_on_80_gb_where_nothing_can_be_attributed(void **state)
{
	(void)state;
	const struct gd_gpu_process host[] = {{.pid = 31337, .memory_bytes = 20 * GB, .memory_known = 1}},
				    silent[] = {{.pid = 100, .memory_bytes = 0, .memory_known = 0}};
	struct gd_gpu gpu = gpu_of(80, 80, host, 1);
	check_two_of_three(gpu, true); /* a container: PIDs of the host */
	gpu = gpu_of(80, 80, silent, 1);
	check_two_of_three(gpu, false); /* memory "not available" */
	gpu = gpu_of(80, 80, NULL, 0);
	gpu.mig_index = 0;
	check_two_of_three(gpu, false); /* MIG */
	gpu = gpu_of(80, 80, NULL, 0);
	gpu.known &= ~(unsigned)GD_GPU_KNOWN_PROCESSES;
	check_two_of_three(gpu, false); /* WSL */
}

static void test_memory_used_by_others_before_our_jobs_is_remembered(void **state)
{
	(void)state;
	struct gd_gpu gpu = gpu_of(80, 70, NULL, 0);
	struct ledger_note note = {0};
	ledger_watch_baseline(&note, &gpu, false, 0);
	assert_true(note.baseline_known);
	assert_int_equal(note.baseline_bytes, 10 * GB);

	struct ledger_job job = job_of(1, 40, NULL);
	struct ledger_input in = {.gpus = gpu_pointers(&gpu, 1),
		.notes = &note,
		.num_gpus = 1,
		.jobs = &job,
		.num_jobs = 1,
		.foreign_pids = true};
	gpu.memory_free_bytes = 60 * GB; /* ours has taken 10 of its 40 */
	ledger_watch_baseline(&note, &gpu, true, 40 * GB);
	assert_int_equal(note.baseline_bytes, 10 * GB);
	assert_int_equal(build(&in).free_bytes, 30 * GB);
}

static void test_memory_beyond_the_promises_is_that_of_others(void **state)
{
	(void)state;
	struct gd_gpu gpu = gpu_of(80, 40, NULL, 0);
	struct ledger_note note = {0};
	ledger_watch_baseline(&note, &gpu, true, 10 * GB);
	assert_true(note.baseline_known);
	assert_int_equal(note.baseline_bytes, 30 * GB);
	ledger_watch_baseline(&note, &gpu, true, 1 * GB); /* a job has ended, and others have taken its memory */
	assert_int_equal(note.baseline_bytes, 39 * GB);
	gpu.memory_free_bytes = 75 * GB; /* others have released theirs */
	ledger_watch_baseline(&note, &gpu, true, 10 * GB);
	assert_int_equal(note.baseline_bytes, 5 * GB);
	gpu.memory_free_bytes = 40 * GB;
	note.baseline_known = false;
	ledger_watch_baseline(&note, &gpu, true, 70 * GB);
	assert_int_equal(note.baseline_bytes, 0);
}

static void test_unknown_memory_is_not_zero(void **state)
{
	(void)state;
	struct gd_gpu gpu = gpu_of(80, 80, NULL, 0);
	struct ledger_job job = job_of(1, 40, NULL);
	struct ledger_input in = {.gpus = gpu_pointers(&gpu, 1), .num_gpus = 1, .jobs = &job, .num_jobs = 1};
	gpu.known = GD_GPU_KNOWN_MEMORY_TOTAL; /* free and used are not reported */
	assert_true(build(&in).known);
	assert_int_equal(build(&in).free_bytes, 40 * GB);
	gpu.known = GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_USED | GD_GPU_KNOWN_PROCESSES;
	gpu.memory_used_bytes = 10 * GB;
	assert_int_equal(build(&in).free_bytes, 30 * GB);
	gpu.known = 0;
	assert_false(build(&in).known);
}

static void test_adding_is_the_same_as_building_anew(void **state)
{
	(void)state;
	for (int foreign_pids = 0; foreign_pids < 2; foreign_pids++) {
		struct gd_gpu gpus[] = {gpu_of(80, 70, NULL, 0), gpu_of(40, 40, NULL, 0)};
		const int both[] = {1, 0};
		struct ledger_job jobs[] = {job_of(1, 12, NULL), job_of(2, 9, NULL)};
		jobs[1].gpus = both;
		jobs[1].num_gpus = 2;
		jobs[1].declared = false;
		struct ledger_input in = {.gpus = gpu_pointers(gpus, 2),
			.num_gpus = 2,
			.jobs = jobs,
			.num_jobs = 2,
			.foreign_pids = foreign_pids};
		struct ledger whole = {0}, grown = {0};
		assert_int_equal(ledger_build(&whole, &in), 0);
		in.num_jobs = 0;
		assert_int_equal(ledger_build(&grown, &in), 0);
		ledger_add(&grown, &jobs[0]);
		ledger_add(&grown, &jobs[1]);
		for (size_t g = 0; g < 2; g++) {
			assert_int_equal(whole.accounts[g].free_bytes, grown.accounts[g].free_bytes);
			assert_int_equal(whole.accounts[g].drained_bytes, grown.accounts[g].drained_bytes);
			assert_int_equal(whole.accounts[g].jobs, grown.accounts[g].jobs);
			assert_int_equal(whole.accounts[g].unsettled_job, grown.accounts[g].unsettled_job);
		}
		ledger_finish(&whole);
		ledger_finish(&grown);
	}
}

static void test_a_job_settles_when_its_memory_stops_growing(void **state)
{
	(void)state;
	struct ledger_watch w = {0};
	const uint64_t s = UINT64_C(1000000000), start = 5 * s;
	assert_false(ledger_watch(&w, start, true, 0));
	assert_false(ledger_watch(&w, start + 20 * s, true, 0)); /* still loading its data */
	assert_false(ledger_watch(&w, start + 25 * s, true, GB));
	assert_false(ledger_watch(&w, start + 34 * s, true, 2 * GB));
	assert_false(ledger_watch(&w, start + 43 * s, true, 2 * GB + GB / 100)); /* it grows slowly */
	assert_true(ledger_watch(&w, start + 44 * s, true, 2 * GB));
	assert_true(ledger_watch(&w, start + 45 * s, true, 9 * GB)); /* it stays settled */

	struct ledger_watch unseen = {0};
	assert_false(ledger_watch(&unseen, start, false, 0));
	assert_false(ledger_watch(&unseen, start + 59 * s, false, 0));
	assert_true(ledger_watch(&unseen, start + 60 * s, false, 0));
}

static void test_observed_memory_of_a_job_is_the_sum_over_its_processes(void **state)
{
	(void)state;
	const int64_t pids[] = {7, 9};
	const struct gd_gpu_process seen[] = {{.pid = 7, .memory_bytes = GB, .memory_known = 1},
		{.pid = 8, .memory_bytes = 5 * GB, .memory_known = 1},
		{.pid = 9, .memory_bytes = 2 * GB, .memory_known = 1}};
	struct gd_gpu gpu = gpu_of(16, 8, seen, 3);
	uint64_t bytes = 77;
	assert_false(ledger_observed(&gpu, pids, 2, true, &bytes));
	assert_int_equal(bytes, 77);
	assert_true(ledger_observed(&gpu, pids, 2, false, &bytes));
	assert_int_equal(bytes, 3 * GB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_job_that_has_not_allocated_keeps_its_room),
		cmocka_unit_test(test_claims_of_others_count_as_memory_not_as_jobs),
		cmocka_unit_test(test_a_job_that_ended_since_the_sample_gives_its_memory_back),
		cmocka_unit_test(test_two_40_gb_jobs_fit_on_80_gb_where_nothing_can_be_attributed),
		cmocka_unit_test(test_memory_beyond_the_promises_is_that_of_others),
		cmocka_unit_test(test_memory_used_by_others_before_our_jobs_is_remembered),
		cmocka_unit_test(test_unknown_memory_is_not_zero),
		cmocka_unit_test(test_adding_is_the_same_as_building_anew),
		cmocka_unit_test(test_a_job_settles_when_its_memory_stops_growing),
		cmocka_unit_test(test_observed_memory_of_a_job_is_the_sum_over_its_processes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
