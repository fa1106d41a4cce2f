/* SPDX-License-Identifier: MIT */
/* Which task goes where and when: order, retries, one long task among short ones, slow callbacks. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"

/* ---- Order -------------------------------------------------------------- */

static int uneven(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	/* Every seventh takes its time, so that the others overtake it. */
	if (lab_number(task) % 7 == 0)
		poll(NULL, 0, 2);
	return lab_echo(w, state, task);
}

static void assert_in_order(const struct lab *lab)
{
	uint64_t next = 0;
	for (size_t i = 0; i < lab->num_notes; i++)
		if (lab->notes[i].kind <= LAB_TIMEOUT)
			assert_int_equal(lab->notes[i].event.id, next++);
	assert_int_equal(next, lab->stats.submitted);
}

static void test_ordered_callbacks_come_in_the_order_of_the_ids(void **state)
{
	static const struct gd_worker_ops ops = {.process = uneven};
	struct lab *lab = *state;
	lab->options.gpus = "sim:4";
	lab->options.ordered = true;
	lab->tasks = 700;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_in_order(lab);
	for (size_t i = 0; i < lab->num_notes; i++)
		if (lab->notes[i].kind == LAB_SUCCESS)
			assert_int_equal(lab->notes[i].result, lab->notes[i].event.id);
}

static int fail_every_fifth_once(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (lab_number(task) % 5 == 0 && gd_worker_attempt(w, 0) == 1)
		return gd_fail(w, -EIO, "not yet");
	return uneven(w, state, task);
}

static void test_ordered_holds_with_retries(void **state)
{
	static const struct gd_worker_ops ops = {.process = fail_every_fifth_once};
	struct lab *lab = *state;
	lab->options.ordered = true;
	lab->options.retries = 1;
	lab->options.queue_size = 3;
	lab->tasks = 300;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_in_order(lab);
	assert_int_equal(lab->count[LAB_SUCCESS], 300);
	assert_int_equal(lab->stats.retries, 60);
}

/* The first task waits until the generator can give no more: it waits for the first one's callback. */
static int first_waits(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (lab_number(task) == 0)
		lab_pass(0);
	return lab_echo(w, state, task);
}

static void count_given(struct lab *lab)
{
	/* Room for queue_size and one in each worker's hands. */
	if (lab->given + 1 == (uint64_t)lab->options.queue_size + 2)
		lab_open(0);
}

static void test_ordered_holds_the_generator_back(void **state)
{
	static const struct gd_worker_ops ops = {.process = first_waits};
	struct lab *lab = *state;
	lab->options.ordered = true;
	lab->options.queue_size = 20;
	lab->tasks = 100;
	lab->on_give = count_given;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_in_order(lab);
}

/* ---- Retries ------------------------------------------------------------ */

static int fail_first_attempts(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	/* With both of them ready, or there is no other worker to go to. */
	atomic_fetch_or(&lab_shared->words[0], 1u << gd_worker_slot(w));
	while (atomic_load(&lab_shared->words[0]) != 3)
		poll(NULL, 0, 1);
	int attempt = gd_worker_attempt(w, 0);
	if (attempt <= (int)(lab_number(task) % 4))
		return gd_fail(w, -EAGAIN, "attempt %d", attempt);
	uint64_t slot = (uint64_t)gd_worker_slot(w);
	return gd_result(w, &slot, sizeof(slot));
}

static void test_a_failed_task_is_tried_again_on_another_worker(void **state)
{
	static const struct gd_worker_ops ops = {.process = fail_first_attempts};
	struct lab *lab = *state;
	lab->options.retries = 2;
	lab->tasks = 80;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	/* 0, 1 and 2 failures are survived, 3 are not. */
	assert_int_equal(lab->count[LAB_SUCCESS], 60);
	assert_int_equal(lab->count[LAB_ERROR], 20);
	assert_int_equal(lab->stats.retries, 20 * (0 + 1 + 2 + 2));
	assert_int_equal(lab->stats.completed, 60);
	assert_int_equal(lab->stats.failed, 20);
	int last_slot[80], last_attempt[80] = {0};
	for (size_t i = 0; i < lab->num_notes - 1; i++) {
		const struct lab_note *n = &lab->notes[i];
		uint64_t id = n->event.id;
		int failures = (int)(id % 4);
		if (n->kind == LAB_START) {
			/* Once per attempt, and never twice in a row on the same worker. */
			assert_int_equal(n->event.attempt, last_attempt[id] + 1);
			if (last_attempt[id] > 0)
				assert_int_not_equal(n->event.slot, last_slot[id]);
			last_attempt[id] = n->event.attempt;
			last_slot[id] = n->event.slot;
			continue;
		}
		assert_int_equal(n->event.attempt, last_attempt[id]);
		assert_int_equal(n->event.slot, last_slot[id]);
		if (failures < 3) {
			assert_int_equal(n->kind, LAB_SUCCESS);
			assert_int_equal(n->event.attempt, failures + 1);
		} else {
			assert_int_equal(n->kind, LAB_ERROR);
			assert_int_equal(n->event.attempt, 3);
			assert_string_equal(n->message, "attempt 3");
		}
	}
}

static void test_with_one_worker_it_is_tried_again_there(void **state)
{
	static const struct gd_worker_ops ops = {.process = fail_first_attempts};
	struct lab *lab = *state;
	lab->options.gpus = "sim:1";
	atomic_store(&lab->shared->words[0], 3);
	lab->options.retries = 3;
	lab->tasks = 8;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_int_equal(lab->count[LAB_SUCCESS], 8);
}

/* ---- One long task among short ones ------------------------------------- */

static int one_is_long(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (lab_number(task) == *(const uint64_t *)&lab_shared->words[1])
		atomic_store(&lab_shared->words[0], lab_pass(0) ? 1 : 2);
	return lab_echo(w, state, task);
}

static int open_after_all_others(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	(void)note;
	(void)event;
	if (lab->count[LAB_SUCCESS] + lab->count[LAB_ERROR] == lab->tasks - 1)
		lab_open(0);
	return 0;
}

static void test_one_long_task_holds_back_no_other(void **state)
{
	static const struct gd_worker_ops ops = {.process = one_is_long};
	/* The first of all; one in the middle, behind which much was handed out ahead; the last. */
	static const uint64_t long_ones[] = {0, 1500, 2999};
	for (size_t i = 0; i < 3; i++) {
		struct lab *lab = *state;
		atomic_store(&lab->shared->words[0], 0);
		atomic_store(&lab->shared->words[1], long_ones[i]);
		lab->num_notes = lab->given = 0;
		memset(lab->count, 0, sizeof(lab->count));
		lab->tasks = 3000;
		lab->options.queue_size = 4000;
		lab->on_note = open_after_all_others;
		assert_int_equal(lab_run(lab, &ops), 0);
		lab_assert_complete(lab);
		/* It was let go by the callbacks of all the others, not by the clock. */
		assert_int_equal(lab->shared->words[0], 1);
	}
}

static int long_and_failing(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (lab_number(task) == 0)
		return one_is_long(w, state, task);
	/* Once the long one runs, so that there is only one worker left. */
	if (lab_number(task) == 5 && gd_worker_attempt(w, 0) == 1)
		return gd_fail(w, -EIO, "elsewhere, please");
	return lab_echo(w, state, task);
}

static int open_after_all_but_two(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	(void)note;
	(void)event;
	if (lab->count[LAB_SUCCESS] == lab->tasks - 2)
		lab_open(0);
	return 0;
}

/* The one that is to be tried elsewhere waits for the long one; those behind it do not. */
static void test_a_retry_that_waits_for_another_worker_holds_back_no_other(void **state)
{
	static const struct gd_worker_ops ops = {.process = long_and_failing};
	struct lab *lab = *state;
	lab->options.retries = 1;
	lab->options.queue_size = 8; /* so that they are not all handed out before it fails */
	lab->tasks = 200;
	lab->on_note = open_after_all_but_two;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_int_equal(lab->shared->words[0], 1);
	assert_int_equal(lab->count[LAB_SUCCESS], 200);
}

/* ---- Backpressure ------------------------------------------------------- */

static int large_generator(void *context, struct gd_feed *feed)
{
	struct lab *lab = context;
	if (lab->given == lab->tasks)
		return 0;
	char *task = gd_emit_reserve(feed, 65536, NULL);
	if (!task)
		return -ENOMEM;
	memset(task, 1, 65536);
	lab->given++;
	return 1;
}

struct measured {
	size_t early_kib;
	uint64_t most_ahead;
};

static int slow_and_measuring(struct lab *lab, const struct lab_note *note, const struct gd_event *event)
{
	struct measured *m = lab->extra;
	(void)event;
	if (note->kind != LAB_SUCCESS)
		return 0;
	uint64_t ahead = lab->given - lab->count[LAB_SUCCESS];
	if (ahead > m->most_ahead)
		m->most_ahead = ahead;
	if (lab->count[LAB_SUCCESS] == 400)
		m->early_kib = lab_status("VmHWM");
	if (lab->count[LAB_SUCCESS] % 50 == 0)
		poll(NULL, 0, 5);
	return 0;
}

#if LAB_ASAN
/* What was freed would be kept in quarantine, up to 256 MiB of it. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=4";
}
#endif

static void test_memory_stays_bounded_when_callbacks_are_slow(void **state)
{
	static const struct gd_worker_ops ops = {.process = lab_echo};
	struct lab *lab = *state;
	struct measured m = {0};
	lab->source.generator = large_generator;
	lab->options.queue_size = 64;
	lab->options.on_task_start = NULL;
	lab->tasks = 4000; /* 250 MiB in, 250 MiB out */
	lab->on_note = slow_and_measuring;
	lab->extra = &m;
	assert_int_equal(lab_run(lab, &ops), 0);
	lab_assert_complete(lab);
	assert_true(m.early_kib > 0);
	assert_true(lab_status("VmHWM") < m.early_kib + 32 * 1024);
	/* One more is in the generator's own hands. */
	assert_true(m.most_ahead <= 64 + 2 + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_ordered_callbacks_come_in_the_order_of_the_ids, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_ordered_holds_with_retries, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_ordered_holds_the_generator_back, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(
			test_a_failed_task_is_tried_again_on_another_worker, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_with_one_worker_it_is_tried_again_there, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(test_one_long_task_holds_back_no_other, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(
			test_a_retry_that_waits_for_another_worker_holds_back_no_other, lab_setup, lab_teardown),
		cmocka_unit_test_setup_teardown(
			test_memory_stays_bounded_when_callbacks_are_slow, lab_setup, lab_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
