/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "queue/schedule/placement.h"
#include "support/gpu_pointers.h"

#define GB   UNITS_GB
#define MOST 8

/* A machine with some cards; each test changes what it needs. */
struct box {
	struct gd_gpu gpus[MOST];
	struct ledger_note notes[MOST];
	struct ledger_job jobs[MOST];
	struct ledger_input in;
	struct ledger ledger;
	struct placement_verdict verdicts[MOST];
	int chosen[MOST];
};

static const int position[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};

static void box_init(struct box *b, size_t count)
{
	*b = (struct box){0};
	for (size_t i = 0; i < count; i++)
		b->gpus[i] = (struct gd_gpu){
			.known = GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE | GD_GPU_KNOWN_PROCESSES |
				 GD_GPU_KNOWN_COMPUTE_MODE,
			.vendor = GD_VENDOR_NVIDIA,
			.index = (int)i,
			.mig_index = -1,
			.memory_total_bytes = 24 * GB,
			.memory_free_bytes = 24 * GB,
		};
	b->in = (struct ledger_input){
		.gpus = gpu_pointers(b->gpus, count), .notes = b->notes, .num_gpus = count, .jobs = b->jobs};
}

/* A running job of ours on one GPU. */
static struct ledger_job *box_run(struct box *b, uint64_t id, int gpu, uint64_t promised)
{
	struct ledger_job *j = &b->jobs[b->in.num_jobs++];
	*j = (struct ledger_job){
		.id = id, .declared = true, .promised_bytes = promised, .gpus = &position[gpu], .num_gpus = 1};
	return j;
}

static int box_choose_for(
	struct box *b, uint64_t job, struct placement_need need, const struct placement_reservation *reservation)
{
	assert_int_equal(ledger_build(&b->ledger, &b->in), 0);
	return placement_choose(&b->ledger, job, &need, reservation, b->chosen, b->verdicts);
}

static int box_choose(struct box *b, struct placement_need need)
{
	return box_choose_for(b, 100, need, NULL);
}

static bool describe(void *context, int64_t pid, char *buf, size_t size)
{
	(void)context;
	snprintf(buf, size, "alice, python");
	return pid == 4711;
}

static void box_says(struct box *b, size_t gpu, struct placement_need need, const char *words)
{
	struct text t = {0};
	placement_words(&t, &b->ledger, gpu, &need, &b->verdicts[gpu], describe, NULL);
	assert_string_equal(text_string(&t), words);
	text_finish(&t);
}

static struct placement_need need_of(uint64_t memory, unsigned num_gpus)
{
	return (struct placement_need){.memory_bytes = memory, .declared = true, .num_gpus = num_gpus};
}

static void test_most_free_first_ties_by_index(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, 4);
	b.gpus[0].memory_free_bytes = 10 * GB;
	b.gpus[1].memory_free_bytes = 20 * GB;
	b.gpus[2].memory_free_bytes = 20 * GB;
	b.gpus[3].memory_free_bytes = 15 * GB;
	assert_int_equal(box_choose(&b, need_of(8 * GB, 1)), 0);
	assert_int_equal(b.chosen[0], 1);
	assert_int_equal(box_choose(&b, need_of(8 * GB, 3)), 0);
	assert_int_equal(b.chosen[0], 1);
	assert_int_equal(b.chosen[1], 2);
	assert_int_equal(b.chosen[2], 3);
	assert_int_equal(box_choose(&b, need_of(12 * GB, 4)), -EAGAIN);
	assert_int_equal(b.verdicts[0].reason, PLACEMENT_MEMORY);
	assert_int_equal(b.verdicts[1].reason, PLACEMENT_FITS);
	box_says(&b, 1, need_of(12 * GB, 4), "GPU 1: has room, 20.0 GiB free; the job needs 4 GPUs at once");
	ledger_finish(&b.ledger);
}

static void test_the_memory_line_names_the_largest_holder(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, 2);
	const struct gd_gpu_process on_0[] = {{.pid = 4711, .memory_bytes = 21798035457, .memory_known = 1},
		{.pid = 12, .memory_bytes = GB, .memory_known = 1}};
	const struct gd_gpu_process on_1[] = {{.pid = 12, .memory_bytes = 15 * GB, .memory_known = 1}};
	b.gpus[0].processes = process_pointers(on_0, 2);
	b.gpus[0].num_processes = 2;
	b.gpus[0].memory_free_bytes = 9771050598;
	b.gpus[1].processes = process_pointers(on_1, 1);
	b.gpus[1].num_processes = 1;
	b.gpus[1].memory_free_bytes = 12 * GB - UNITS_MB;
	struct placement_need need = need_of(12 * GB, 1);
	assert_int_equal(box_choose(&b, need), -EAGAIN);
	box_says(&b, 0, need, "GPU 0: 9.1 GiB free, job needs 12.0 GiB; 20.3 GiB held by pid 4711 (alice, python)");
	/* Both would read 12.0 GiB. */
	box_says(&b, 1, need, "GPU 1: 12287 MiB free, job needs 12288 MiB; 15.0 GiB held by pid 12");

	box_run(&b, 7, 0, 23 * GB);
	box_run(&b, 0, 1, 20 * GB)->foreign = true;
	assert_int_equal(box_choose(&b, need), -EAGAIN);
	box_says(&b, 0, need, "GPU 0: 0 B free, job needs 12.0 GiB; 23.0 GiB held by job 7");
	box_says(&b, 1, need, "GPU 1: 0 B free, job needs 12.0 GiB; 20.0 GiB promised to a job of another queue");
	struct ledger_claimant claimant = {.user = 0, .job = 3, .queue = "5f0c"};
	b.jobs[1].claimant = &claimant;
	assert_int_equal(box_choose(&b, need), -EAGAIN);
	box_says(&b, 1, need, "GPU 1: 0 B free, job needs 12.0 GiB; 20.0 GiB promised to job 3 of root (queue 5f0c)");
	claimant.pid = 4711;
	claimant.user = 4000000000; /* a user without a name */
	assert_int_equal(box_choose(&b, need), -EAGAIN);
	box_says(&b, 1, need,
		"GPU 1: 0 B free, job needs 12.0 GiB; 20.0 GiB promised to job 3 of user 4000000000 (queue 5f0c, pid 4711)");
	ledger_finish(&b.ledger);
}

static void test_job_that_can_never_fit_is_reported_at_once(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, 2);
	struct placement_need need = need_of(90 * GB, 1);
	assert_int_equal(box_choose(&b, need), -ENODEV);
	box_says(&b, 0, need, "GPU 0: 24.0 GiB in total, job needs 90.0 GiB");
	assert_int_equal(box_choose(&b, need_of(GB, 3)), -ENODEV);
	b.in.num_gpus = 0;
	assert_int_equal(box_choose(&b, need_of(0, 1)), -ENODEV);
	ledger_finish(&b.ledger);
}

static void test_cpu_jobs_never_wait(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, 1);
	b.gpus[0].health = GD_GPU_HEALTH_LOST;
	assert_int_equal(box_choose(&b, need_of(100 * GB, 0)), 0);
	b.in.num_gpus = 0;
	assert_int_equal(box_choose(&b, need_of(0, 0)), 0);
	ledger_finish(&b.ledger);
}

static void test_gpu_takes_no_more_jobs_than_jobs_per_gpu(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, 2);
	b.in.jobs_per_gpu = 1;
	box_run(&b, 7, 0, GB);
	assert_int_equal(box_choose(&b, need_of(GB, 1)), 0);
	assert_int_equal(b.chosen[0], 1);
	assert_int_equal(b.verdicts[0].reason, PLACEMENT_JOBS);
	box_says(&b, 0, need_of(GB, 1), "GPU 0: already runs 1 job, the limit of jobs_per_gpu; 1.0 GiB held by job 7");
	b.jobs[0].foreign = true; /* another queue has its own limit */
	assert_int_equal(box_choose(&b, need_of(GB, 2)), 0);
	ledger_finish(&b.ledger);
}

static void test_undeclared_jobs_wait_for_each_other_to_settle(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, 1);
	struct placement_need undeclared = {.memory_bytes = GB, .num_gpus = 1};
	struct ledger_job *running = box_run(&b, 7, 0, GB);
	running->declared = false;
	assert_int_equal(box_choose(&b, undeclared), -EAGAIN);
	box_says(&b, 0, undeclared,
		"GPU 0: job 7 has just started: its memory may still grow (up to a minute), and neither job declared its need; "
		"declare it with --mem");
	struct ledger_claimant claimant = {.user = 0, .job = 3, .queue = "5f0c"};
	b.jobs[0].foreign = true;
	b.jobs[0].claimant = &claimant;
	assert_int_equal(box_choose(&b, undeclared), -EAGAIN);
	box_says(&b, 0, undeclared,
		"GPU 0: job 3 of root (queue 5f0c) has just started: its memory may still grow (up to a minute), and neither job "
		"declared its need; declare it with --mem");
	b.jobs[0].foreign = false;
	assert_int_equal(box_choose(&b, need_of(GB, 1)), 0);
	running->settled = true;
	assert_int_equal(box_choose(&b, undeclared), 0);
	running->settled = false;
	running->foreign = true;
	assert_int_equal(box_choose(&b, undeclared), -EAGAIN);
	running->declared = true;
	assert_int_equal(box_choose(&b, undeclared), 0);
	ledger_finish(&b.ledger);
}

static void test_exclusive_mode_takes_one_job(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, 1);
	const struct gd_gpu_process other[] = {{.pid = 4711, .memory_bytes = GB, .memory_known = 1}};
	b.gpus[0].exclusive = true;
	assert_int_equal(box_choose(&b, need_of(GB, 1)), 0);
	box_run(&b, 7, 0, GB);
	assert_int_equal(box_choose(&b, need_of(GB, 1)), -EAGAIN);
	assert_int_equal(b.verdicts[0].reason, PLACEMENT_EXCLUSIVE);
	b.in.num_jobs = 0;
	b.gpus[0].processes = process_pointers(other, 1);
	b.gpus[0].num_processes = 1;
	assert_int_equal(box_choose(&b, need_of(GB, 1)), -EAGAIN);
	box_says(&b, 0, need_of(GB, 1),
		"GPU 0: in exclusive compute mode, which allows one process, and in use; "
		"1.0 GiB held by pid 4711 (alice, python)");
	ledger_finish(&b.ledger);
}

static void test_unhealthy_and_quarantined_cards_are_left_out(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, 4);
	b.gpus[0].health = GD_GPU_HEALTH_LOST;
	b.gpus[1].health = GD_GPU_HEALTH_NOT_ANSWERING;
	b.notes[2] = (struct ledger_note){.quarantined = true, .why = "job 5 cannot be killed"};
	struct placement_need need = need_of(GB, 1);
	assert_int_equal(box_choose(&b, need), 0);
	assert_int_equal(b.chosen[0], 3);
	box_says(&b, 0, need, "GPU 0: fell off the bus");
	box_says(&b, 1, need, "GPU 1: its driver does not answer");
	box_says(&b, 2, need, "GPU 2: out of use: job 5 cannot be killed");
	/* A card that may answer again is worth waiting for; a lost card is not, nor one whose job may never die. */
	assert_int_equal(box_choose(&b, need_of(GB, 2)), -EAGAIN);
	assert_int_equal(box_choose(&b, need_of(GB, 3)), -ENODEV);
	ledger_finish(&b.ledger);
}

static void test_mig_instances_take_single_jobs_and_their_card_none(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, 4);
	b.gpus[0].mig_enabled = true;
	b.gpus[1].index = b.gpus[2].index = 0;
	b.gpus[1].mig_index = 0;
	b.gpus[2].mig_index = 1;
	b.gpus[3].memory_free_bytes = GB;
	assert_int_equal(box_choose(&b, need_of(2 * GB, 1)), 0);
	assert_int_equal(b.chosen[0], 1);
	assert_int_equal(b.verdicts[0].reason, PLACEMENT_SPLIT);
	assert_int_equal(box_choose(&b, need_of(0, 2)), -ENODEV);
	box_says(&b, 2, need_of(0, 2), "GPU 0 MIG 1: a MIG instance; a job on several GPUs needs whole GPUs");
	ledger_finish(&b.ledger);
}

static void test_job_on_several_gpus_gets_them_from_one_vendor(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, 3);
	b.gpus[0].vendor = GD_VENDOR_AMD;
	b.gpus[1].memory_free_bytes = b.gpus[2].memory_free_bytes = 10 * GB;
	assert_int_equal(box_choose(&b, need_of(GB, 2)), 0);
	assert_int_equal(b.chosen[0], 1);
	assert_int_equal(b.chosen[1], 2);
	b.gpus[2].memory_free_bytes = 0;
	assert_int_equal(box_choose(&b, need_of(GB, 2)), -EAGAIN);
	box_says(&b, 0, need_of(GB, 2), "GPU 0: has room, 24.0 GiB free; the job needs 2 GPUs of one vendor");
	assert_int_equal(box_choose(&b, need_of(GB, 3)), -ENODEV);
	ledger_finish(&b.ledger);
}

static void test_unknown_memory_takes_one_job_at_a_time(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, 1);
	b.gpus[0].known = 0;
	assert_int_equal(box_choose(&b, need_of(8 * GB, 1)), 0);
	box_run(&b, 7, 0, 8 * GB);
	assert_int_equal(box_choose(&b, need_of(GB, 1)), -EAGAIN);
	assert_int_equal(b.verdicts[0].reason, PLACEMENT_MEMORY_UNKNOWN);
	ledger_finish(&b.ledger);
}

static void test_reserved_gpus_are_kept_from_later_jobs(void **state)
{
	(void)state;
	struct box b;
	struct placement_reservation r = {0};
	struct placement_need wide = need_of(20 * GB, 2), small = need_of(GB, 1);
	box_init(&b, 3);
	for (int g = 0; g < 3; g++)
		box_run(&b, (uint64_t)g + 1, g, 20 * GB);
	b.in.num_jobs = 2; /* GPU 2 is free */
	assert_int_equal(box_choose_for(&b, 50, wide, &r), -EAGAIN);
	assert_int_equal(placement_reserve(&r, &b.ledger, 50, &wide), 0);
	assert_true(r.active);
	assert_int_equal(r.num_gpus, 2);
	assert_int_equal(r.gpus[0], 2); /* where it fits… */
	assert_int_equal(r.gpus[1], 0); /* …then where the least work has to end */
	assert_int_equal(box_choose_for(&b, 51, small, &r), 0);
	assert_int_equal(b.chosen[0], 1);
	assert_int_equal(b.verdicts[2].reason, PLACEMENT_RESERVED);
	box_says(&b, 2, small, "GPU 2: reserved for job 50, which comes first");

	/* Jobs that come first in the next pass are not blocked. */
	placement_rewind(&r);
	assert_int_equal(box_choose_for(&b, 10, small, &r), 0);
	assert_int_equal(b.chosen[0], 2);
	/* A draining card stays reserved, but a card that fits now is better. */
	b.jobs[0] = b.jobs[2]; /* GPU 2 is full now, GPU 0 free */
	box_run(&b, 9, 0, GB);
	b.in.num_jobs = 3;
	assert_int_equal(box_choose_for(&b, 50, wide, &r), -EAGAIN);
	assert_int_equal(placement_reserve(&r, &b.ledger, 50, &wide), 0);
	assert_int_equal(r.gpus[0], 0);
	assert_int_equal(r.gpus[1], 2);
	placement_reservation_finish(&r);
	ledger_finish(&b.ledger);
}

static void test_gpu_that_only_others_can_free_is_not_reserved(void **state)
{
	(void)state;
	struct box b;
	struct placement_reservation r = {0};
	struct placement_need wide = need_of(20 * GB, 2);
	box_init(&b, 2);
	b.gpus[1].memory_free_bytes = GB; /* another user's process */
	assert_int_equal(box_choose_for(&b, 50, wide, &r), -EAGAIN);
	assert_int_equal(placement_reserve(&r, &b.ledger, 50, &wide), 0);
	assert_false(r.active);
	assert_int_equal(box_choose_for(&b, 51, need_of(GB, 1), &r), 0);
	placement_reservation_finish(&r);
	ledger_finish(&b.ledger);
}

/* Otherwise nothing is reserved for the next job, which needs CPUs, and smaller jobs would overtake it forever. */
static void test_first_job_that_needs_no_cpus_reserves_none(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, 2);
	b.in.cpus = 16;
	box_run(&b, 1, 0, 20 * GB)->cpus = 8;
	assert_int_equal(ledger_build(&b.ledger, &b.in), 0);
	struct placement_reservation r = {.active = true, .job = 2};
	struct placement_need first = need_of(8 * GB, 2), second = need_of(GB, 0);
	second.cpus = 16;
	placement_reserve_host(&r, &b.ledger, 2, &first);
	assert_false(r.host_active);
	placement_reserve_host(&r, &b.ledger, 3, &second);
	assert_true(r.host_active);
	assert_int_equal(r.host_job, 3);
	assert_int_equal(r.cpus, 16);
	ledger_finish(&b.ledger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_most_free_first_ties_by_index),
		cmocka_unit_test(test_first_job_that_needs_no_cpus_reserves_none),
		cmocka_unit_test(test_the_memory_line_names_the_largest_holder),
		cmocka_unit_test(test_job_that_can_never_fit_is_reported_at_once),
		cmocka_unit_test(test_cpu_jobs_never_wait),
		cmocka_unit_test(test_gpu_takes_no_more_jobs_than_jobs_per_gpu),
		cmocka_unit_test(test_undeclared_jobs_wait_for_each_other_to_settle),
		cmocka_unit_test(test_exclusive_mode_takes_one_job),
		cmocka_unit_test(test_unhealthy_and_quarantined_cards_are_left_out),
		cmocka_unit_test(test_mig_instances_take_single_jobs_and_their_card_none),
		cmocka_unit_test(test_job_on_several_gpus_gets_them_from_one_vendor),
		cmocka_unit_test(test_unknown_memory_takes_one_job_at_a_time),
		cmocka_unit_test(test_reserved_gpus_are_kept_from_later_jobs),
		cmocka_unit_test(test_gpu_that_only_others_can_free_is_not_reserved),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
