/* SPDX-License-Identifier: MIT */
/* The scheduler's promises one by one; bench/simulate.c checks them together under random events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/units.h"
#include "queue/journal/record.h"
#include "queue/runner/published.h"
#include "queue/schedule/scheduler.h"
#include "support/gpu_pointers.h"

#define MOST 4

struct box {
	struct gd_gpu gpus[MOST];
	size_t num_gpus;
	struct jobs jobs;
	struct scheduler *scheduler;
	uint64_t last_id;
};

static void sample(struct box *b, uint64_t now_s)
{
	assert_int_equal(
		scheduler_sample(b->scheduler, now_s * NS_PER_S, gpu_pointers(b->gpus, b->num_gpus), b->num_gpus), 0);
}

static void box_open(struct box *b, size_t num_gpus, uint64_t gigabytes, struct need_rules rules)
{
	*b = (struct box){.num_gpus = num_gpus};
	for (size_t i = 0; i < num_gpus; i++)
		b->gpus[i] = (struct gd_gpu){.size = sizeof(b->gpus[i]),
			.known = GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE | GD_GPU_KNOWN_PROCESSES,
			.vendor = GD_VENDOR_NVIDIA,
			.index = (int)i,
			.vendor_index = (int)i,
			.mig_index = -1,
			.memory_total_bytes = gigabytes * UNITS_GB,
			.memory_free_bytes = gigabytes * UNITS_GB};
	jobs_init(&b->jobs);
	assert_int_equal(scheduler_create(&b->jobs, &b->scheduler), 0);
	scheduler_configure(
		b->scheduler, &(struct scheduler_settings){.rules = rules, .cpus = 8, .host_bytes = 64 * UNITS_GB});
	sample(b, 1);
}

static void box_close(struct box *b)
{
	scheduler_destroy(b->scheduler);
	jobs_finish(&b->jobs);
}

static void apply(struct box *b, struct text *line)
{
	assert_int_equal(jobs_apply(&b->jobs, 1, line->data, line->length - 1), 0);
	text_finish(line);
}

static const struct job_spec plain = {.command = "true",
	.command_size = 4,
	.num_gpus = -1,
	.mem_mb = -1,
	.min_free_mem_mb = -1,
	.timeout_ms = -1,
	.retries = -1};

static struct job *add_only(struct box *b, struct job_spec spec)
{
	struct text t = {0};
	record_write_add(&t, ++b->last_id, 1000, &spec);
	apply(b, &t);
	return jobs_find(&b->jobs, b->last_id);
}

static struct job *add(struct box *b, struct job_spec spec)
{
	char words[SCHEDULER_WORDS];
	struct job *job = add_only(b, spec);
	assert_int_equal(scheduler_add(b->scheduler, job, words), 0);
	return job;
}

static struct job *add_with_memory(struct box *b, int64_t gigabytes)
{
	struct job_spec spec = plain;
	spec.mem_mb = gigabytes * 1024;
	return add(b, spec);
}

/* The next start: its job, or 0. */
static uint64_t next(struct box *b, int *ret_gpu)
{
	struct scheduler_start start;
	int r = scheduler_decide(b->scheduler, NS_PER_S, &start);
	if (r == 0)
		return 0;
	assert_int_equal(r, 1);
	if (ret_gpu)
		*ret_gpu = start.num_gpus ? start.gpus[0] : -1;
	return start.job->id;
}

static const struct need_rules defaults = {.min_free_mem_mb = -1};

/* ---- Sharing ---------------------------------------------------------------------------- */

static void test_jobs_that_declare_nothing_never_share(void **state)
{
	struct box b;
	(void)state;
	box_open(&b, 2, 80, defaults);
	for (int i = 0; i < 5; i++)
		add(&b, plain);
	add_with_memory(&b, 1);
	assert_int_equal(next(&b, NULL), 1);
	assert_int_equal(next(&b, NULL), 2);
	assert_int_equal(next(&b, NULL), 0);
	/* The others do not start even after an hour, when the memory has settled; nor does the job with --mem. */
	for (uint64_t t = 2; t < 3600; t += 60)
		sample(&b, t);
	assert_true(scheduler_is_settled(b.scheduler, 1));
	assert_int_equal(next(&b, NULL), 0);
	scheduler_end(b.scheduler, 1);
	assert_int_equal(next(&b, NULL), 3);
	box_close(&b);
}

static void test_explicit_threshold_shares_one_by_one(void **state)
{
	struct box b;
	(void)state;
	box_open(&b, 1, 80, (struct need_rules){.min_free_mem_mb = 8000});
	add(&b, plain);
	add(&b, plain);
	assert_int_equal(next(&b, NULL), 1);
	assert_int_equal(next(&b, NULL), 0);
	sample(&b, 2);
	sample(&b, 100);
	assert_int_equal(next(&b, NULL), 2);
	box_close(&b);
}

static void test_two_jobs_per_gpu_also_share(void **state)
{
	struct box b;
	(void)state;
	box_open(&b, 1, 80, (struct need_rules){.min_free_mem_mb = -1, .jobs_per_gpu = 2});
	for (int i = 0; i < 3; i++)
		add(&b, plain);
	assert_int_equal(next(&b, NULL), 1);
	sample(&b, 2);
	sample(&b, 100);
	assert_int_equal(next(&b, NULL), 2);
	sample(&b, 200);
	sample(&b, 300);
	assert_int_equal(next(&b, NULL), 0);
	box_close(&b);
}

static void test_declared_jobs_share_unless_one_is_exclusive(void **state)
{
	struct box b;
	struct job_spec spec = plain;
	(void)state;
	box_open(&b, 1, 80, defaults);
	add_with_memory(&b, 10);
	add_with_memory(&b, 10);
	spec.mem_mb = 1024;
	spec.exclusive = true;
	add(&b, spec);
	assert_int_equal(next(&b, NULL), 1);
	assert_int_equal(next(&b, NULL), 2);
	assert_int_equal(next(&b, NULL), 0);
	scheduler_end(b.scheduler, 1);
	scheduler_end(b.scheduler, 2);
	assert_int_equal(next(&b, NULL), 3);
	add_with_memory(&b, 1);
	assert_int_equal(next(&b, NULL), 0);
	box_close(&b);
}

static void test_exclusive_claim_of_another_queue_keeps_others_away(void **state)
{
	struct box b;
	const int gpu = 0;
	struct ledger_claimant who = {.user = 1, .job = 3, .queue = "other"};
	struct ledger_job claim = {.foreign = true, .claimant = &who, .declared = true, .gpus = &gpu, .num_gpus = 1};
	(void)state;
	box_open(&b, 1, 80, defaults);
	add_with_memory(&b, 1);
	claim.alone = true;
	assert_int_equal(scheduler_set_claims(b.scheduler, &claim, 1), 0);
	assert_int_equal(next(&b, NULL), 0);
	claim.alone = false;
	assert_int_equal(scheduler_set_claims(b.scheduler, &claim, 1), 0);
	assert_int_equal(next(&b, NULL), 1);
	box_close(&b);
}

static void test_default_threshold_is_at_most_nine_tenths_of_the_card(void **state)
{
	struct box b;
	(void)state;
	box_open(&b, 1, 4, defaults);
	add(&b, plain);
	b.gpus[0].memory_free_bytes = 36 * UNITS_GB / 10 - UNITS_MB;
	sample(&b, 2);
	assert_int_equal(next(&b, NULL), 0);
	b.gpus[0].memory_free_bytes = 37 * UNITS_GB / 10;
	sample(&b, 3);
	assert_int_equal(next(&b, NULL), 1);
	box_close(&b);
}

static void test_learned_peak_only_raises_a_need(void **state)
{
	struct placement_need need;
	struct job_wish wish = {.mem_mb = 20 * 1024, .min_free_mem_mb = -1, .num_gpus = -1};
	(void)state;
	wish_need(&wish, 5 * 1024, &defaults, NULL, 0, &need);
	assert_int_equal(need.memory_bytes, 20 * UNITS_GB);
	wish_need(&wish, 30 * 1024, &defaults, NULL, 0, &need);
	assert_int_equal(need.memory_bytes, 30 * UNITS_GB);
	wish.mem_mb = -1;
	wish_need(&wish, 30 * 1024, &defaults, NULL, 0, &need);
	assert_int_equal(need.memory_bytes, 30 * UNITS_GB);
	assert_true(need.alone && !need.declared);
}

/* ---- Pins, main memory, CPUs ------------------------------------------------------------ */

static void test_pinned_job_waits_for_its_gpu(void **state)
{
	struct box b;
	struct job_spec spec = plain;
	int gpu;
	(void)state;
	box_open(&b, 3, 80, defaults);
	spec.gpu = "2";
	spec.num_gpus = 1;
	add(&b, spec);
	add(&b, spec);
	assert_int_equal(next(&b, &gpu), 1);
	assert_int_equal(gpu, 2);
	assert_int_equal(next(&b, NULL), 0);
	box_close(&b);
}

static void test_cpus_and_main_memory_are_counted_and_kept_for_the_first(void **state)
{
	struct box b;
	struct job_spec spec = plain;
	(void)state;
	box_open(&b, 4, 80, defaults);
	spec.cpus = 6;
	add(&b, spec);
	add(&b, spec);
	spec.cpus = 2;
	add(&b, spec);
	add(&b, plain);
	assert_int_equal(next(&b, NULL), 1);
	/* Two CPUs are free and kept for job 2; a job without --cpus does not wait for any. */
	assert_int_equal(next(&b, NULL), 4);
	assert_int_equal(next(&b, NULL), 0);
	scheduler_end(b.scheduler, 1);
	assert_int_equal(next(&b, NULL), 2);
	assert_int_equal(next(&b, NULL), 3);
	spec = plain;
	spec.host_mem_mb = 65 * 1024;
	struct job *large = add(&b, spec);
	struct scheduler_verdict v;
	assert_int_equal(next(&b, NULL), 0);
	assert_int_equal(scheduler_verdict(b.scheduler, large, &v), 0);
	assert_int_equal(v.answer, SCHEDULER_NEVER);
	box_close(&b);
}

/* ---- Dependencies ----------------------------------------------------------------------- */

static void control(struct box *b, enum event event, uint64_t id)
{
	struct text t = {0};
	record_write_control(&t, event, id, NULL);
	apply(b, &t);
}

static void test_job_waits_again_when_its_dependency_is_retried(void **state)
{
	struct box b;
	struct job_spec spec = plain;
	uint64_t after = 1;
	struct text t = {0};
	(void)state;
	box_open(&b, 1, 80, defaults);
	struct job *first = add(&b, plain);
	assert_int_equal(next(&b, NULL), 1);
	record_write_start(&t, &(struct attempt_start){.id = 1, .attempt = 1, .keeper = "k"});
	apply(&b, &t);
	record_write_end(&t, &(struct attempt_end){
				     .id = 1, .attempt = 1, .state = JOB_COMPLETED, .peak_mem_mb = -1, .energy_j = -1});
	apply(&b, &t);
	spec.after = &after;
	spec.num_after = 1;
	add(&b, spec);
	control(&b, EVENT_RETRY, 1);
	scheduler_reopen(b.scheduler, first);
	scheduler_end(b.scheduler, 1);
	assert_int_equal(scheduler_num_blocked(b.scheduler), 1);
	assert_int_equal(next(&b, NULL), 0);
	box_close(&b);
}

/* ---- Verdicts --------------------------------------------------------------------------- */

static void test_job_that_was_handed_out_is_not_added_again(void **state)
{
	struct box b;
	char words[SCHEDULER_WORDS];
	(void)state;
	box_open(&b, 2, 80, defaults);
	struct job *job = add(&b, plain);
	assert_int_equal(scheduler_add(b.scheduler, job, words), 0);
	assert_int_equal(scheduler_num_waiting(b.scheduler), 1);
	assert_int_equal(next(&b, NULL), 1);
	assert_int_equal(scheduler_add(b.scheduler, job, words), 0);
	assert_int_equal(next(&b, NULL), 0);
	scheduler_withdraw(b.scheduler, 1);
	assert_int_equal(scheduler_add(b.scheduler, job, words), 0);
	assert_int_equal(next(&b, NULL), 1);
	box_close(&b);
}

/* CPU time, in clock ticks, of reading one line for each job. */
static clock_t apply_to_all(struct box *b, uint64_t count, bool hook)
{
	clock_t begin = clock();
	for (uint64_t id = 1; id <= count; id++) {
		struct text t = {0};
		if (hook)
			record_write_hook(&t, &(struct hook_record){.id = id, .on_finish = "true"});
		else
			record_write_control(&t, EVENT_CANCEL, id, NULL);
		apply(b, &t);
	}
	return clock() - begin;
}

static void test_hooks_that_become_due_are_read_in_linear_time(void **state)
{
	struct box b;
	const uint64_t count = 40000;
	(void)state;
	box_open(&b, 1, 80, defaults);
	for (uint64_t i = 0; i < count; i++)
		add_only(&b, plain);
	clock_t cancels = apply_to_all(&b, count, false), hooks = apply_to_all(&b, count, true);
	assert_non_null(b.jobs.hooks);
	assert_true(hooks < 10 * cancels + CLOCKS_PER_SEC / 10);
	box_close(&b);
}

/* Searched one by one, these holders would take minutes. */
static void test_many_holders_are_found_by_their_ids(void **state)
{
	enum { MANY = 200000 };
	struct box b;
	(void)state;
	box_open(&b, 1, 10, (struct need_rules){.min_free_mem_mb = -1});
	for (uint64_t id = 1; id <= MANY; id++)
		assert_int_equal(scheduler_adopt_unknown(b.scheduler, id, NULL, NULL, 0), 0);
	for (uint64_t id = 1; id <= MANY; id++)
		assert_true(scheduler_has(b.scheduler, id));
	assert_false(scheduler_has(b.scheduler, MANY + 1));
	/* The first half is withdrawn from the front. */
	for (uint64_t id = 1; id <= MANY / 2; id++)
		scheduler_withdraw(b.scheduler, id);
	assert_false(scheduler_has(b.scheduler, MANY / 2));
	assert_true(scheduler_has(b.scheduler, MANY / 2 + 1));
	/* The same id again is the newer one: when it ends, the older one remains. */
	assert_int_equal(scheduler_adopt_unknown(b.scheduler, MANY, NULL, NULL, 0), 0);
	scheduler_end(b.scheduler, MANY);
	assert_true(scheduler_has(b.scheduler, MANY));
	scheduler_end(b.scheduler, MANY);
	assert_false(scheduler_has(b.scheduler, MANY));
	box_close(&b);
}

static void test_interruption_whose_start_was_lost_leaves_a_held_job_held(void **state)
{
	struct box b;
	struct text t = {0};
	(void)state;
	box_open(&b, 1, 80, defaults);
	struct job *job = add_only(&b, plain);
	record_write_control(&t, EVENT_HOLD, 1, NULL);
	apply(&b, &t);
	record_write_end(&t, &(struct attempt_end){
				     .id = 1, .attempt = 1, .state = JOB_FAILED, .exit_code = -1, .interrupted = true});
	apply(&b, &t);
	assert_int_equal(job->num_attempts, 1);
	assert_int_equal(job->state, JOB_HELD);
	box_close(&b);
}

static void test_jobs_that_can_never_start_are_distinguished(void **state)
{
	struct box b;
	struct job_spec spec = plain;
	struct scheduler_verdict v;
	struct text t = {0};
	(void)state;
	box_open(&b, 2, 80, defaults);
	struct job *large = add_with_memory(&b, 100);
	spec.num_gpus = 3;
	struct job *wide = add(&b, spec);
	struct job *fits = add(&b, plain);
	assert_int_equal(next(&b, NULL), fits->id);
	assert_int_equal(next(&b, NULL), 0);
	assert_int_equal(scheduler_verdict(b.scheduler, large, &v), 0);
	assert_int_equal(v.answer, SCHEDULER_NEVER);
	scheduler_verdict_brief(&t, b.scheduler, &v);
	assert_string_equal(text_string(&t), "cannot start: needs 100.0 GiB, at most 80.0 GiB per GPU");
	text_clear(&t);
	assert_int_equal(scheduler_verdict(b.scheduler, wide, &v), 0);
	scheduler_verdict_brief(&t, b.scheduler, &v);
	assert_string_equal(text_string(&t), "cannot start: needs 3 GPUs, there are 2");
	assert_int_equal(scheduler_verdict(b.scheduler, fits, &v), 0);
	assert_int_equal(v.answer, SCHEDULER_STARTS);
	text_finish(&t);
	box_close(&b);
}

static void test_inputs_that_make_no_sense_are_refused(void **state)
{
	static const char *const bad[] = {"", "[]", "{}", "{\"version\":1}",
		"{\"version\":1,\"scheduler\":{\"settings\":{},\"gpus\":[],\"holders\":[],\"reservation\":{\"gpus\":[7]}}}",
		"{\"version\":1,\"scheduler\":{\"settings\":{\"cpus\":-1},\"gpus\":[],\"holders\":[],\"reservation\":{}}}",
		"{\"version\":1,\"scheduler\":{\"settings\":{},\"gpus\":[{\"vendor\":9}],\"holders\":[],"
		"\"reservation\":{}}}",
		"{\"version\":1,\"scheduler\":{\"settings\":{},\"gpus\":[],\"holders\":[{\"gpus\":[0]}],"
		"\"reservation\":{}}}"};
	struct published p;
	struct jobs jobs;
	(void)state;
	jobs_init(&jobs);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct scheduler *s;
		assert_int_equal(scheduler_create(&jobs, &s), 0);
		assert_true(published_parse(bad[i], strlen(bad[i]), &p, s) < 0);
		scheduler_destroy(s);
	}
	jobs_finish(&jobs);
}

/* ---- Times ------------------------------------------------------------------------------ */

static void add_again(struct box *b, struct job *due)
{
	char words[SCHEDULER_WORDS];
	for (struct job *after; due; due = after) {
		after = due->next_dependent;
		due->next_dependent = NULL;
		assert_int_equal(scheduler_add(b->scheduler, due, words), 0);
	}
}

static void test_a_job_does_not_start_before_its_time(void **state)
{
	struct box b;
	struct scheduler_verdict v;
	struct job_spec late = plain, later = plain;
	(void)state;
	box_open(&b, 4, 80, defaults);
	late.begin_ms = 5000;
	later.begin_ms = 9000;
	assert_null(scheduler_set_time(b.scheduler, 1000));
	add(&b, later);
	struct job *second = add(&b, late);
	struct job *third = add(&b, late);
	add(&b, plain);
	assert_int_equal(scheduler_num_sleeping(b.scheduler), 3);
	assert_int_equal(scheduler_next_begin(b.scheduler), 5000);
	assert_int_equal(next(&b, NULL), 4);
	assert_int_equal(next(&b, NULL), 0);
	assert_int_equal(scheduler_verdict(b.scheduler, second, &v), 0);
	assert_true(v.answer == SCHEDULER_BEGINS && v.begin_ms == 5000);
	assert_null(scheduler_set_time(b.scheduler, 4999));
	scheduler_remove(b.scheduler, third);
	add_again(&b, scheduler_set_time(b.scheduler, 5000));
	assert_int_equal(next(&b, NULL), 2);
	assert_int_equal(next(&b, NULL), 0);
	assert_int_equal(scheduler_next_begin(b.scheduler), 9000);
	/* The clock was set back: jobs whose begin time has passed stay ready. */
	assert_null(scheduler_set_time(b.scheduler, 1000));
	add_again(&b, scheduler_set_time(b.scheduler, 10000));
	assert_int_equal(next(&b, NULL), 1);
	assert_int_equal(scheduler_num_sleeping(b.scheduler), 0);
	assert_int_equal(scheduler_next_begin(b.scheduler), 0);
	box_close(&b);
}

static void test_a_begin_time_without_jobs_is_forgotten(void **state)
{
	struct box b;
	struct job_spec late = plain;
	(void)state;
	box_open(&b, 1, 80, defaults);
	late.begin_ms = 5000;
	struct job *job = add(&b, late);
	scheduler_remove(b.scheduler, job);
	assert_int_equal(scheduler_next_begin(b.scheduler), 0);
	add(&b, late);
	assert_int_equal(scheduler_reset(b.scheduler), 0);
	assert_int_equal(scheduler_num_sleeping(b.scheduler), 0);
	box_close(&b);
}

/* ---- The end of the allocation ---------------------------------------------------------- */

static void run_for(struct box *b, uint64_t id, int64_t from_ms, int64_t duration_ms)
{
	static const int gpus[] = {0};
	struct text t = {0};
	record_write_start(&t, &(struct attempt_start){.id = id,
				       .attempt = 1,
				       .time_ms = from_ms,
				       .pid = 1,
				       .keeper = "k",
				       .gpus = gpus,
				       .num_gpus = 1});
	apply(b, &t);
	record_write_end(&t, &(struct attempt_end){.id = id,
				     .attempt = 1,
				     .time_ms = from_ms + duration_ms,
				     .state = JOB_COMPLETED,
				     .duration_ms = duration_ms,
				     .peak_mem_mb = -1});
	apply(b, &t);
	scheduler_end(b->scheduler, id);
}

static void end_allocation_at(struct box *b, int64_t end_ms)
{
	struct scheduler_settings settings = *scheduler_settings(b->scheduler);
	settings.end_ms = end_ms;
	scheduler_configure(b->scheduler, &settings);
}

static void test_job_that_seemed_too_long_starts_when_jobs_like_it_turn_out_shorter(void **state)
{
	struct box b;
	struct scheduler_verdict v;
	(void)state;
	box_open(&b, 1, 80, defaults);
	end_allocation_at(&b, 100000);
	assert_null(scheduler_set_time(b.scheduler, 1000));
	add(&b, plain);
	add(&b, plain);
	assert_int_equal(next(&b, NULL), 1);
	run_for(&b, 1, 1000, 40000);
	sample(&b, 2);
	/* One run of 40 s: the next may take twice as long. */
	assert_null(scheduler_set_time(b.scheduler, 41000));
	struct job *third = add(&b, plain);
	assert_int_equal(next(&b, NULL), 0);
	assert_int_equal(scheduler_verdict(b.scheduler, third, &v), 0);
	assert_int_equal(v.answer, SCHEDULER_LATE);
	/* Another one, started by hand, took a second. */
	assert_int_equal(scheduler_adopt(b.scheduler, add_only(&b, plain), (int[]){0}, 1), 0);
	run_for(&b, 4, 41000, 1000);
	sample(&b, 3);
	add_again(&b, scheduler_set_time(b.scheduler, 42000));
	assert_int_equal(next(&b, NULL), 2);
	box_close(&b);
}

static void test_gpu_is_not_kept_for_a_job_that_became_too_long(void **state)
{
	struct box b;
	struct job_spec large = plain;
	(void)state;
	box_open(&b, 1, 80, defaults);
	end_allocation_at(&b, 100000);
	assert_null(scheduler_set_time(b.scheduler, 1000));
	add_with_memory(&b, 40);
	assert_int_equal(next(&b, NULL), 1);
	large.mem_mb = 60 * 1024;
	large.timeout_ms = 50000;
	add(&b, large);
	add_with_memory(&b, 10);
	/* The second job reserves the GPU; only time passes. */
	assert_int_equal(next(&b, NULL), 0);
	assert_null(scheduler_set_time(b.scheduler, 60000));
	assert_int_equal(next(&b, NULL), 3);
	box_close(&b);
}

static void test_cpus_are_kept_for_a_job_for_which_a_gpu_is_kept(void **state)
{
	struct box b;
	struct job_spec first = plain, cpu_only = plain;
	(void)state;
	box_open(&b, 1, 80, defaults);
	add(&b, plain);
	assert_int_equal(next(&b, NULL), 1);
	first.cpus = 6;
	add(&b, first);
	cpu_only.num_gpus = 0;
	cpu_only.cpus = 4;
	add(&b, cpu_only);
	cpu_only.cpus = 2;
	add(&b, cpu_only);
	/* The second job, which waits for its GPU, leaves two of 8 CPUs. */
	assert_int_equal(next(&b, NULL), 4);
	assert_int_equal(next(&b, NULL), 0);
	scheduler_end(b.scheduler, 1);
	sample(&b, 2);
	assert_int_equal(next(&b, NULL), 2);
	box_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jobs_that_declare_nothing_never_share),
		cmocka_unit_test(test_explicit_threshold_shares_one_by_one),
		cmocka_unit_test(test_two_jobs_per_gpu_also_share),
		cmocka_unit_test(test_declared_jobs_share_unless_one_is_exclusive),
		cmocka_unit_test(test_exclusive_claim_of_another_queue_keeps_others_away),
		cmocka_unit_test(test_default_threshold_is_at_most_nine_tenths_of_the_card),
		cmocka_unit_test(test_learned_peak_only_raises_a_need),
		cmocka_unit_test(test_pinned_job_waits_for_its_gpu),
		cmocka_unit_test(test_cpus_and_main_memory_are_counted_and_kept_for_the_first),
		cmocka_unit_test(test_job_waits_again_when_its_dependency_is_retried),
		cmocka_unit_test(test_job_that_was_handed_out_is_not_added_again),
		cmocka_unit_test(test_hooks_that_become_due_are_read_in_linear_time),
		cmocka_unit_test(test_many_holders_are_found_by_their_ids),
		cmocka_unit_test(test_interruption_whose_start_was_lost_leaves_a_held_job_held),
		cmocka_unit_test(test_jobs_that_can_never_start_are_distinguished),
		cmocka_unit_test(test_inputs_that_make_no_sense_are_refused),
		cmocka_unit_test(test_a_job_does_not_start_before_its_time),
		cmocka_unit_test(test_a_begin_time_without_jobs_is_forgotten),
		cmocka_unit_test(test_job_that_seemed_too_long_starts_when_jobs_like_it_turn_out_shorter),
		cmocka_unit_test(test_gpu_is_not_kept_for_a_job_that_became_too_long),
		cmocka_unit_test(test_cpus_are_kept_for_a_job_for_which_a_gpu_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
