/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "slurm/submission.h"

#define S NS_PER_S

static struct submission *create(unsigned max_nodes)
{
	struct submission *s = NULL;
	struct submission_settings settings = {.max_nodes = max_nodes, .prefix = "gpuq-q1", .gpus = 4};
	assert_int_equal(submission_create(&settings, &s), 0);
	return s;
}

static void demand(struct submission *s, size_t jobs)
{
	submission_set_demand(s, &(struct submission_demand){.waiting_jobs = jobs, .waiting_gpus = jobs});
}

static enum submission_step_kind next(struct submission *s, uint64_t now_ns, struct submission_step *step)
{
	submission_next(s, now_ns, step);
	return step->kind;
}

/* Submits one pilot and lets it join. */
static void join(struct submission *s, uint64_t now_ns, uint64_t slurm_job, const char *pilot)
{
	struct submission_step step;
	assert_int_equal(next(s, now_ns, &step), SUBMISSION_SUBMIT);
	submission_submitted(s, now_ns, step.name, 0, slurm_job, NULL);
	submission_joined(s, now_ns, slurm_job, pilot, 4);
}

/* Answers the next submission with a refusal. */
static void refuse(struct submission *s, uint64_t now_ns, int result, const char *words)
{
	struct submission_step step;
	assert_int_equal(next(s, now_ns, &step), SUBMISSION_SUBMIT);
	submission_submitted(s, now_ns, step.name, result, 0, words);
}

static void test_pilots_follow_the_waiting_jobs(void **state)
{
	(void)state;
	struct submission *s = create(3);
	struct submission_step step;
	assert_int_equal(next(s, S, &step), SUBMISSION_NONE);
	demand(s, 5); /* 5 GPUs: two pilots of 4 */
	char first[FRAME_NAME_ROOM];
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(next(s, S, &step), SUBMISSION_SUBMIT);
		assert_string_not_equal(step.name, i ? first : "");
		memcpy(first, step.name, sizeof(first));
		assert_int_equal(next(s, S, &step), SUBMISSION_NONE); /* one sbatch at a time */
		submission_submitted(s, S, first, 0, 10 + i, NULL);
	}
	assert_int_equal(next(s, S, &step), SUBMISSION_NONE);
	assert_int_equal(submission_num_pending(s), 2);
	demand(s, 100);
	assert_int_equal(next(s, S, &step), SUBMISSION_SUBMIT);
	submission_submitted(s, S, step.name, 0, 12, NULL);
	assert_int_equal(next(s, S, &step), SUBMISSION_NONE); /* --max-nodes */
	submission_destroy(s);
}

static void test_an_uncertain_sbatch_blocks_until_a_later_listing(void **state)
{
	(void)state;
	struct submission *s = create(3);
	struct submission_step step;
	demand(s, 100);
	assert_int_equal(next(s, S, &step), SUBMISSION_SUBMIT);
	char name[FRAME_NAME_ROOM];
	memcpy(name, step.name, sizeof(name));
	submission_submitted(s, 10 * S, name, -ETIMEDOUT, 0, "timed out");
	assert_int_equal(next(s, 10 * S, &step), SUBMISSION_LIST);
	assert_int_equal(next(s, 100 * S, &step), SUBMISSION_LIST);
	assert_int_equal(next(s, 101 * S, &step), SUBMISSION_NONE);
	struct listed_job job = {.slurm_job = 9, .state = LISTED_PENDING};
	memcpy(job.name, name, sizeof(name));
	struct slurm_listing l = {.ok = false, .jobs = &job, .num_jobs = 1};
	submission_listed(s, 102 * S, 101 * S, &l);
	assert_int_not_equal(next(s, 103 * S, &step), SUBMISSION_SUBMIT);
	l.ok = true;
	submission_listed(s, 104 * S, 5 * S, &l); /* it began before the sbatch had ended */
	assert_int_not_equal(next(s, 104 * S, &step), SUBMISSION_SUBMIT);
	submission_listed(s, 105 * S, 104 * S, &l);
	assert_int_equal(submission_num_pending(s), 1);
	assert_int_equal(next(s, 105 * S, &step), SUBMISSION_SUBMIT);
	submission_destroy(s);
}

static void test_pilots_that_fail_at_once_back_off(void **state)
{
	(void)state;
	struct submission *s = create(1);
	struct submission_step step;
	char words[FRAME_WORDS_ROOM];
	demand(s, 1);
	join(s, S, 10, "p1");
	submission_gone(s, 2 * S, "p1", false, "no TCP to the login node");
	assert_int_equal(next(s, 3 * S, &step), SUBMISSION_NONE);
	assert_int_equal(step.wake_ns, 7 * S);
	assert_non_null(strstr(submission_words(s, 3 * S, words), "no TCP to the login node"));
	join(s, 7 * S, 11, "p2");
	submission_gone(s, 8 * S, "p2", false, "no TCP");
	assert_int_equal(next(s, 17 * S, &step), SUBMISSION_NONE);
	join(s, 18 * S, 12, "p3");
	submission_set_busy(s, 18 * S, "p3", 1);
	submission_gone(s, 19 * S, "p3", false, NULL);
	join(s, 19 * S, 13, "p4"); /* it had work */
	submission_gone(s, 20 * S, "p4", true, NULL);
	join(s, 20 * S, 14, "p5"); /* preempted */
	submission_destroy(s);
}

/* A slurmctld that lost its state kills all of them at once. */
static void test_pilots_that_fail_together_count_once(void **state)
{
	(void)state;
	struct submission *s = create(8);
	struct submission_step step;
	char name[8];
	demand(s, 32);
	for (unsigned i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "p%u", i);
		join(s, S, 10 + i, name);
	}
	for (unsigned i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "p%u", i);
		submission_gone(s, 2 * S + i, name, false, "dead (lease)");
	}
	assert_int_equal(next(s, 3 * S, &step), SUBMISSION_NONE);
	assert_int_equal(step.wake_ns, 7 * S);
	assert_int_equal(next(s, 7 * S, &step), SUBMISSION_SUBMIT);
	submission_destroy(s);
}

static void test_a_pilot_that_never_reaches_the_coordinator_backs_off(void **state)
{
	(void)state;
	struct submission *s = create(1);
	struct submission_step step;
	demand(s, 1);
	assert_int_equal(next(s, S, &step), SUBMISSION_SUBMIT);
	submission_submitted(s, S, step.name, 0, 10, NULL);
	struct listed_job job = {.slurm_job = 10, .state = LISTED_TERMINAL};
	memcpy(job.name, step.name, sizeof(job.name));
	struct slurm_listing l = {.ok = true, .jobs = &job, .num_jobs = 1};
	submission_listed(s, 3 * S, 2 * S, &l);
	assert_int_equal(submission_num_pending(s), 0);
	assert_int_equal(next(s, 3 * S, &step), SUBMISSION_NONE);
	assert_int_equal(next(s, 8 * S, &step), SUBMISSION_SUBMIT);
	submission_destroy(s);
}

static void test_an_idle_pilot_is_released(void **state)
{
	(void)state;
	struct submission *s = create(2);
	struct submission_step step;
	demand(s, 1);
	join(s, S, 10, "p1");
	submission_set_busy(s, S, "p1", 1);
	demand(s, 0);
	assert_int_equal(next(s, 100 * S, &step), SUBMISSION_NONE);
	submission_set_busy(s, 100 * S, "p1", 0);
	assert_int_equal(next(s, 129 * S, &step), SUBMISSION_NONE);
	assert_int_equal(step.wake_ns, 130 * S);
	assert_int_equal(next(s, 130 * S, &step), SUBMISSION_RELEASE);
	assert_string_equal(step.name, "p1");
	assert_int_equal(next(s, 131 * S, &step), SUBMISSION_NONE);
	submission_destroy(s);
}

static void test_pending_pilots_are_cancelled_at_exit_and_when_nothing_waits(void **state)
{
	(void)state;
	struct submission *s = create(2);
	struct submission_step step;
	demand(s, 8);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(next(s, S, &step), SUBMISSION_SUBMIT);
		submission_submitted(s, S, step.name, 0, 10 + i, NULL);
	}
	demand(s, 2);
	assert_int_equal(next(s, 2 * S, &step), SUBMISSION_CANCEL);
	assert_int_equal(step.slurm_job, 11);
	assert_int_equal(next(s, 2 * S, &step), SUBMISSION_NONE);
	submission_set_leaving(s, true);
	assert_int_equal(next(s, 3 * S, &step), SUBMISSION_CANCEL);
	assert_int_equal(step.slurm_job, 10);
	assert_int_equal(next(s, 3 * S, &step), SUBMISSION_NONE);
	submission_destroy(s);
}

static void test_a_pilot_on_which_no_waiting_job_fits_is_released_and_counts_as_a_failure(void **state)
{
	(void)state;
	struct submission *s = NULL;
	struct submission_settings settings = {.max_nodes = 1, .prefix = "gpuq-q1", .gpus = 4, .give_up = 2};
	struct submission_step step;
	char words[FRAME_WORDS_ROOM];
	assert_int_equal(submission_create(&settings, &s), 0);
	demand(s, 1);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t begin = (1 + 100 * i) * S;
		assert_false(submission_has_given_up(s));
		join(s, begin, 10 + i, "p1");
		assert_int_equal(next(s, begin + 29 * S, &step), SUBMISSION_NONE);
		assert_int_equal(next(s, begin + 30 * S, &step), SUBMISSION_RELEASE);
		submission_gone(s, begin + 31 * S, "p1", false, NULL);
		assert_int_equal(next(s, begin + 32 * S, &step), SUBMISSION_NONE);
	}
	assert_true(submission_has_given_up(s));
	assert_int_equal(next(s, 10000 * S, &step), SUBMISSION_NONE);
	assert_string_equal(
		submission_words(s, 10000 * S, words), "no more pilots are submitted: no pending job fits on it");
	submission_destroy(s);
}

/* They were submitted by a coordinator that was killed. */
static void test_pilots_that_were_left_pending_count_and_are_cancelled(void **state)
{
	(void)state;
	struct submission *s = create(2);
	struct submission_step step;
	struct listed_job jobs[2] = {{.slurm_job = 10, .name = "gpuq-q0-1", .state = LISTED_PENDING},
		{.slurm_job = 11, .name = "gpuq-q0-2", .state = LISTED_PENDING}};
	for (int i = 0; i < 4; i++)
		assert_int_equal(submission_adopt(s, S, &jobs[i % 2]), 0);
	assert_int_equal(submission_num_pending(s), 2);
	demand(s, 100);
	assert_int_equal(next(s, S, &step), SUBMISSION_NONE); /* --max-nodes */
	submission_joined(s, 2 * S, 10, "p10", 4);
	assert_int_equal(submission_count(s), 2);
	submission_set_leaving(s, true);
	assert_int_equal(next(s, 3 * S, &step), SUBMISSION_CANCEL);
	assert_int_equal(step.slurm_job, 11);
	submission_destroy(s);
	/* Slurm has accepted them: a refusal now may be temporary. */
	const char *reason;
	s = create(2);
	assert_int_equal(submission_adopt(s, S, &jobs[0]), 0);
	demand(s, 100);
	refuse(s, S, -ENOTSUP, "invalid partition specified: x");
	assert_false(submission_is_refused(s, &reason));
	submission_destroy(s);
}

static void test_work_that_comes_while_pilots_leave_gets_new_ones(void **state)
{
	(void)state;
	struct submission *s = create(1);
	struct submission_step step;
	demand(s, 1);
	join(s, S, 10, "p1");
	submission_set_busy(s, S, "p1", 1);
	submission_set_busy(s, 2 * S, "p1", 0);
	demand(s, 0);
	submission_set_leaving(s, true);
	assert_int_equal(next(s, 2 * S, &step), SUBMISSION_RELEASE);
	demand(s, 1);
	assert_int_equal(next(s, 2 * S, &step), SUBMISSION_NONE);
	submission_set_leaving(s, false);
	submission_gone(s, 3 * S, "p1", false, NULL);
	assert_int_equal(next(s, 3 * S, &step), SUBMISSION_SUBMIT);
	submission_destroy(s);
}

static void test_permanent_refusal_before_the_first_pilot_ends_it(void **state)
{
	(void)state;
	struct submission_step step;
	char words[FRAME_WORDS_ROOM];
	const char *reason;
	struct submission *s = create(1);
	demand(s, 1);
	assert_false(submission_is_refused(s, &reason));
	refuse(s, S, -ENOTSUP, "invalid partition specified: x");
	assert_true(submission_is_refused(s, &reason) && submission_has_given_up(s));
	assert_string_equal(reason, "invalid partition specified: x");
	assert_int_equal(next(s, 10000 * S, &step), SUBMISSION_NONE);
	assert_string_equal(submission_words(s, 2 * S, words),
		"Slurm refuses the options of --slurm: invalid partition specified: x");
	submission_destroy(s);
	/* A less certain refusal counts only after three times in a row. */
	s = create(1);
	demand(s, 1);
	for (unsigned i = 0; i < 3; i++) {
		assert_false(submission_has_given_up(s));
		refuse(s, (1 + 100 * i) * S, -EINVAL, "Requested node configuration is not available");
	}
	assert_true(submission_is_refused(s, &reason));
	submission_destroy(s);
}

static void test_refusal_for_now_is_retried_without_limit(void **state)
{
	(void)state;
	static const int results[] = {-EAGAIN, -ETIMEDOUT};
	struct submission_settings settings = {.max_nodes = 2, .prefix = "gpuq-q1", .gpus = 4, .give_up = 2};
	struct submission_step step;
	char words[FRAME_WORDS_ROOM];
	for (size_t r = 0; r < 2; r++) {
		struct submission *s = NULL;
		uint64_t now = S, waits[] = {5, 10, 20, 40, 60, 60, 60};
		assert_int_equal(submission_create(&settings, &s), 0);
		demand(s, 8);
		for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
			refuse(s, now, results[r], "QOSMaxSubmitJobPerUserLimit");
			if (results[r] == -ETIMEDOUT)
				submission_listed(s, now + 1, now + 1, &(struct slurm_listing){.ok = true});
			assert_int_equal(next(s, now + waits[i] * S - 1, &step), SUBMISSION_NONE);
			assert_non_null(strstr(submission_words(s, now + S, words),
				"Slurm accepts no pilots for now (QOSMaxSubmitJobPerUserLimit)"));
			now += waits[i] * S;
		}
		join(s, now, 10, "p1");
		refuse(s, now, results[r], "QOSMaxSubmitJobPerUserLimit"); /* the wait starts again */
		assert_int_equal(
			next(s, now + 4 * S, &step), results[r] == -ETIMEDOUT ? SUBMISSION_LIST : SUBMISSION_NONE);
		if (results[r] == -EAGAIN)
			assert_int_equal(next(s, now + 5 * S, &step), SUBMISSION_SUBMIT);
		assert_false(submission_has_given_up(s));
		submission_destroy(s);
	}
}

static void test_permanent_refusal_after_the_first_pilot_is_retried(void **state)
{
	(void)state;
	struct submission_settings settings = {.max_nodes = 2, .prefix = "gpuq-q1", .gpus = 4, .give_up = 4};
	struct submission *s = NULL;
	const char *reason;
	assert_int_equal(submission_create(&settings, &s), 0);
	demand(s, 8);
	join(s, S, 10, "p1");
	submission_set_busy(s, S, "p1", 1);
	for (unsigned i = 1; i < 10; i++)
		refuse(s, 100 * i * S, -ENOTSUP, "invalid partition specified: x"); /* one pilot works */
	assert_false(submission_has_given_up(s));
	submission_gone(s, 1000 * S, "p1", true, NULL);
	refuse(s, 1001 * S, -ENOTSUP, "invalid partition specified: x");
	assert_true(submission_has_given_up(s));
	assert_false(submission_is_refused(s, &reason));
	submission_destroy(s);
}

static void test_pilot_that_slurm_will_never_start_is_cancelled(void **state)
{
	(void)state;
	struct submission *s = create(1);
	struct submission_step step;
	const char *reason;
	demand(s, 1);
	assert_int_equal(next(s, S, &step), SUBMISSION_SUBMIT);
	submission_submitted(s, S, step.name, 0, 10, NULL);
	struct listed_job job = {.slurm_job = 10, .state = LISTED_PENDING, .reason = "Resources"};
	memcpy(job.name, step.name, sizeof(job.name));
	struct slurm_listing l = {.ok = true, .jobs = &job, .num_jobs = 1};
	submission_listed(s, 3 * S, 2 * S, &l);
	assert_false(submission_is_refused(s, &reason));
	snprintf(job.reason, sizeof(job.reason), "PartitionTimeLimit");
	submission_listed(s, 4 * S, 3 * S, &l);
	assert_true(submission_is_refused(s, &reason));
	assert_string_equal(reason, "PartitionTimeLimit");
	assert_int_equal(next(s, 4 * S, &step), SUBMISSION_CANCEL);
	assert_int_equal(step.slurm_job, 10);
	assert_int_equal(next(s, 4 * S, &step), SUBMISSION_NONE);
	job.state = LISTED_TERMINAL;
	submission_listed(s, 6 * S, 5 * S, &l);
	assert_int_equal(submission_count(s), 0);
	assert_string_equal(reason, "PartitionTimeLimit");
	submission_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pilots_follow_the_waiting_jobs),
		cmocka_unit_test(test_an_uncertain_sbatch_blocks_until_a_later_listing),
		cmocka_unit_test(test_pilots_that_fail_at_once_back_off),
		cmocka_unit_test(test_pilots_that_fail_together_count_once),
		cmocka_unit_test(test_a_pilot_that_never_reaches_the_coordinator_backs_off),
		cmocka_unit_test(test_an_idle_pilot_is_released),
		cmocka_unit_test(test_pending_pilots_are_cancelled_at_exit_and_when_nothing_waits),
		cmocka_unit_test(test_a_pilot_on_which_no_waiting_job_fits_is_released_and_counts_as_a_failure),
		cmocka_unit_test(test_pilots_that_were_left_pending_count_and_are_cancelled),
		cmocka_unit_test(test_permanent_refusal_before_the_first_pilot_ends_it),
		cmocka_unit_test(test_refusal_for_now_is_retried_without_limit),
		cmocka_unit_test(test_permanent_refusal_after_the_first_pilot_is_retried),
		cmocka_unit_test(test_pilot_that_slurm_will_never_start_is_cancelled),
		cmocka_unit_test(test_work_that_comes_while_pilots_leave_gets_new_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
