/* SPDX-License-Identifier: MIT */
/*
 * Workers that scribble over the memory that they share with the dispatcher.
 * Slot 0 does, in every task that it gets; slot 1 does not. Whatever slot 0 writes, at most its own tasks fail; the
 * rest and the dispatcher survive.
 */
#include "outbox.h"
#include "pool_rig.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

/* ---- The damage --------------------------------------------------------- */

typedef void scribble(struct gd_worker *w, struct outbox *out);

static void fill(void *at, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		((unsigned char *)at)[i] = (unsigned char)rand_r(&seed);
}

static unsigned seed_of(struct gd_worker *w)
{
	return (unsigned)gd_worker_task_id(w, 0) * 7919 + 1;
}

static void ones_over_the_counts(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	memset(out, 0xff, sizeof(*out));
}

static void zeros_over_the_counts(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	memset(out, 0, sizeof(*out));
}

static void garbage_over_the_counts(struct gd_worker *w, struct outbox *out)
{
	fill(out, sizeof(*out), seed_of(w));
}

static void garbage_over_all(struct gd_worker *w, struct outbox *out)
{
	fill(outbox_descs(out), OUTBOX_SIZE - CHANNEL_DESCS(sizeof(*out)), seed_of(w));
	fill(out, sizeof(*out), seed_of(w));
}

static void head_too_far(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	atomic_fetch_add(&out->head, RING_DEPTH + 1);
}

static void head_backwards(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	atomic_fetch_sub(&out->head, 1);
}

static void head_over_old_records(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	atomic_fetch_add(&out->head, 3);
}

static void garbage_records(struct gd_worker *w, struct outbox *out)
{
	fill(outbox_descs(out), RING_DEPTH * sizeof(struct ring_desc), seed_of(w));
	atomic_fetch_add(&out->head, 20);
}

/* Forged records are published instead of the answer. */
#define FAR ((uint64_t)1 << 46)

static void wrong_id(struct gd_worker *w, struct outbox *out)
{
	outbox_publish(out, (struct ring_desc){.kind = RING_DONE, .id = gd_worker_task_id(w, 0) + 1});
}

static void no_such_kind(struct gd_worker *w, struct outbox *out)
{
	outbox_publish(out, (struct ring_desc){.kind = 4711, .id = gd_worker_task_id(w, 0)});
}

static void started_something_else(struct gd_worker *w, struct outbox *out)
{
	outbox_publish(out, (struct ring_desc){.kind = RING_STARTED, .id = gd_worker_task_id(w, 0) + 100000});
}

static void result_outside(struct gd_worker *w, struct outbox *out)
{
	outbox_publish(
		out, (struct ring_desc){.kind = RING_DONE, .id = gd_worker_task_id(w, 0), .offset = FAR, .size = 8});
}

static void result_too_long(struct gd_worker *w, struct outbox *out)
{
	uint64_t id = gd_worker_task_id(w, 0);
	outbox_publish(out, (struct ring_desc){.kind = RING_DONE, .id = id, .offset = 64, .size = UINT64_MAX - 32});
}

static void words_outside(struct gd_worker *w, struct outbox *out)
{
	uint64_t id = gd_worker_task_id(w, 0);
	outbox_publish(out, (struct ring_desc){.kind = RING_DONE, .id = id, .code = -5, .offset = FAR, .size = 8});
}

static void external_words(struct gd_worker *w, struct outbox *out)
{
	outbox_publish(out, (struct ring_desc){.kind = RING_DONE,
				    .id = gd_worker_task_id(w, 0),
				    .code = -5,
				    .flags = RING_EXTERNAL,
				    .offset = FAR,
				    .size = 100});
}

static void external_cleanup_words(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	outbox_publish(out,
		(struct ring_desc){
			.kind = RING_CLEANUP_FAILED, .code = -5, .flags = RING_EXTERNAL, .offset = FAR, .size = 100});
}

static void external_setup_words(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	outbox_publish(out,
		(struct ring_desc){
			.kind = RING_SETUP_FAILED, .code = -5, .flags = RING_EXTERNAL, .offset = FAR, .size = 100});
}

static void parcel_that_never_came(struct gd_worker *w, struct outbox *out)
{
	uint64_t id = gd_worker_task_id(w, 0);
	outbox_publish(out, (struct ring_desc){.kind = RING_DONE, .id = id, .flags = RING_EXTERNAL, .size = 5 << 20});
}

static void failure_parcel_that_never_came(struct gd_worker *w, struct outbox *out)
{
	outbox_publish(out, (struct ring_desc){.kind = RING_DONE,
				    .id = gd_worker_task_id(w, 0),
				    .code = -5,
				    .flags = RING_EXTERNAL,
				    .size = 100});
}

static void setup_parcel_that_never_came(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	outbox_publish(
		out, (struct ring_desc){.kind = RING_SETUP_FAILED, .code = -5, .flags = RING_EXTERNAL, .size = 100});
}

static void cleanup_parcel_that_never_came(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	outbox_publish(
		out, (struct ring_desc){.kind = RING_CLEANUP_FAILED, .code = -5, .flags = RING_EXTERNAL, .size = 100});
}

static void words_too_long(struct gd_worker *w, struct outbox *out)
{
	outbox_publish(
		out, (struct ring_desc){.kind = RING_DONE, .id = gd_worker_task_id(w, 0), .code = -5, .words = 1024});
}

static void words_without_end(struct gd_worker *w, struct outbox *out)
{
	uint64_t id = gd_worker_task_id(w, 0);
	outbox_publish(
		out, (struct ring_desc){.kind = RING_DONE, .id = id, .code = -5, .words = UINT32_MAX, .size = 8});
}

static void words_over_the_end(struct gd_worker *w, struct outbox *out)
{
	outbox_publish(out, (struct ring_desc){.kind = RING_DONE,
				    .id = gd_worker_task_id(w, 0),
				    .code = -5,
				    .flags = RING_EXTERNAL,
				    .offset = CHANNEL_ARENA - 64,
				    .words = 100});
}

static void payload_over_the_end(struct gd_worker *w, struct outbox *out)
{
	outbox_publish(out, (struct ring_desc){.kind = RING_DONE,
				    .id = gd_worker_task_id(w, 0),
				    .code = -5,
				    .words = 10,
				    .size = CHANNEL_ARENA - 32});
}

static void message_about_something_else(struct gd_worker *w, struct outbox *out)
{
	outbox_publish(out, (struct ring_desc){.kind = RING_MESSAGE, .id = gd_worker_task_id(w, 0) + 1});
}

static void message_outside(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	outbox_publish(out, (struct ring_desc){.kind = RING_MESSAGE, .id = RING_NO_TASK, .offset = FAR, .size = 8});
}

static void message_too_long(struct gd_worker *w, struct outbox *out)
{
	uint64_t id = gd_worker_task_id(w, 0);
	outbox_publish(out, (struct ring_desc){.kind = RING_MESSAGE, .id = id, .offset = 64, .size = UINT64_MAX - 32});
}

static void message_parcel_that_never_came(struct gd_worker *w, struct outbox *out)
{
	uint64_t id = gd_worker_task_id(w, 0);
	outbox_publish(
		out, (struct ring_desc){.kind = RING_MESSAGE, .id = id, .flags = RING_EXTERNAL, .size = 5 << 20});
}

static void messages_of_its_own_making(struct gd_worker *w, struct outbox *out)
{
	for (int i = 0; i < 100; i++)
		outbox_publish(out,
			(struct ring_desc){.kind = RING_MESSAGE, .id = i % 2 ? RING_NO_TASK : gd_worker_task_id(w, 0)});
}

static void times_from_nowhere(struct gd_worker *w, struct outbox *out)
{
	outbox_publish(out, (struct ring_desc){.kind = RING_DONE,
				    .id = gd_worker_task_id(w, 0),
				    .start_ns = UINT64_MAX,
				    .end_ns = UINT64_MAX - 1});
}

static void code_from_nowhere(struct gd_worker *w, struct outbox *out)
{
	outbox_publish(out, (struct ring_desc){.kind = RING_DONE, .id = gd_worker_task_id(w, 0), .code = INT32_MIN});
}

static void ready_again_and_again(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	for (int i = 0; i < 100; i++)
		outbox_publish(out, (struct ring_desc){.kind = RING_READY});
}

static void cleaned_in_between(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	outbox_publish(out, (struct ring_desc){.kind = RING_CLEANED});
}

static void begun_too_far(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	atomic_store(&out->begun, UINT64_MAX);
}

static void begun_nothing(struct gd_worker *w, struct outbox *out)
{
	(void)w;
	atomic_store(&out->begun, 0);
	atomic_store(&out->begun_ns, UINT64_MAX);
}

static const struct {
	const char *name;
	scribble *scribble;
} scribbles[] = {
#define SCRIBBLE(s)                                                                                                    \
	{                                                                                                              \
#s, s                                                                                                  \
	}
	SCRIBBLE(ones_over_the_counts),
	SCRIBBLE(zeros_over_the_counts),
	SCRIBBLE(garbage_over_the_counts),
	SCRIBBLE(garbage_over_all),
	SCRIBBLE(head_too_far),
	SCRIBBLE(head_backwards),
	SCRIBBLE(head_over_old_records),
	SCRIBBLE(garbage_records),
	SCRIBBLE(wrong_id),
	SCRIBBLE(no_such_kind),
	SCRIBBLE(started_something_else),
	SCRIBBLE(result_outside),
	SCRIBBLE(result_too_long),
	SCRIBBLE(words_outside),
	SCRIBBLE(external_words),
	SCRIBBLE(external_cleanup_words),
	SCRIBBLE(external_setup_words),
	SCRIBBLE(parcel_that_never_came),
	SCRIBBLE(failure_parcel_that_never_came),
	SCRIBBLE(setup_parcel_that_never_came),
	SCRIBBLE(cleanup_parcel_that_never_came),
	SCRIBBLE(words_too_long),
	SCRIBBLE(words_without_end),
	SCRIBBLE(words_over_the_end),
	SCRIBBLE(payload_over_the_end),
	SCRIBBLE(message_about_something_else),
	SCRIBBLE(message_outside),
	SCRIBBLE(message_too_long),
	SCRIBBLE(message_parcel_that_never_came),
	SCRIBBLE(messages_of_its_own_making),
	SCRIBBLE(times_from_nowhere),
	SCRIBBLE(code_from_nowhere),
	SCRIBBLE(ready_again_and_again),
	SCRIBBLE(cleaned_in_between),
	SCRIBBLE(begun_too_far),
	SCRIBBLE(begun_nothing),
};
#define SCRIBBLES (sizeof(scribbles) / sizeof(scribbles[0]))

/* ---- After the damage --------------------------------------------------- */

enum then {
	THEN_ANSWER,
	THEN_DIE,
	THEN_HANG,
	THENS,
};

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	if (gd_worker_slot(w) != 0)
		return pool_rig_reply(w, &job);
	scribbles[job.what].scribble(w, outbox_find());
	atomic_fetch_add(&board->begun, 1);
	if (job.argument == THEN_DIE)
		raise(SIGKILL);
	if (job.argument == THEN_HANG)
		process_hang();
	return pool_rig_reply(w, &job);
}

static bool scribbled(struct pool_rig *rig)
{
	(void)rig;
	return atomic_load(&board->begun) > 0;
}

/* Submits tasks until slot 0 has had one, and then some more. */
static void run_scribble(struct pool_rig *rig, uint32_t which, enum then then)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = process};
	rig->distrusted = 0;
	rig->options.output = GD_OUTPUT_SILENT;
	if (then == THEN_HANG) {
		rig->options.task_timeout_ms = 150; /* enough for the other worker, even on a busy machine */
		rig->options.grace_ms = 10;
		rig->options.cleanup_timeout_ms = 100; /* the worker may have reported that it is done */
	}
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 0, 0);
	pool_rig_pid(rig, 1, 0);
	while (!scribbled(rig)) {
		pool_rig_submit(rig, which, then);
		gd_pool_poll(rig->pool, 0, 0);
	}
	size_t more = then == THEN_HANG ? 3 : 30;
	for (size_t i = 0; i < more; i++)
		pool_rig_submit(rig, which, then);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
	/* On a busy machine an honest worker may be late, too. */
	assert_int_equal(rig->failed_elsewhere, rig->late_elsewhere);
	assert_int_equal(rig->setup_failures, 0);
	assert_true(rig->successes + rig->errors + rig->timeouts == rig->submitted);
}

static void run_all(void **state, enum then then)
{
	for (uint32_t i = 0; i < SCRIBBLES; i++) {
		struct pool_rig *rig = pool_rig_again(state);
		/* Half of them without announced starts, with fewer records. */
		if (i % 2)
			rig->calls.on_task_start = NULL;
		if (getenv("TEST_VERBOSE"))
			print_message("%s\n", scribbles[i].name);
		run_scribble(rig, i, then);
	}
}

static void test_worker_that_keeps_overwriting_its_memory_fails_only_its_own_tasks(void **state)
{
	run_all(state, THEN_ANSWER);
}

static void test_scribbler_that_dies_fails_only_its_own_tasks(void **state)
{
	run_all(state, THEN_DIE);
}

static void test_scribbler_that_hangs_fails_only_its_own_tasks(void **state)
{
	run_all(state, THEN_HANG);
}

/* ---- The timeout does not trust the worker ------------------------------ */

static int lie_and_hang(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	struct outbox *out = outbox_find();
	if (job.what == 0)
		return pool_rig_reply(w, &job);
	if (job.what == 1)
		atomic_store(&out->ended, UINT64_MAX);
	if (job.what == 2)
		atomic_store(&out->ended, 0);
	if (job.what == 3)
		atomic_store(&out->begun_ns, UINT64_MAX);
	if (job.what == 4)
		atomic_store(&out->wanted, 1);
	if (job.what == 5)
		atomic_fetch_add(&out->ended, 1);
	process_hang();
}

static void test_a_false_progress_report_does_not_prevent_the_timeout(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = lie_and_hang};
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.task_timeout_ms = 60;
	rig->options.grace_ms = 10;
	pool_rig_open(rig, &ops);
	for (uint32_t lie = 1; lie <= 5; lie++) {
		pool_rig_submit_many(rig, 5);
		pool_rig_drain(rig);
		pool_rig_submit(rig, lie, 0);
		pool_rig_drain(rig);
		/* Not counted: on a busy machine an honest worker may be late, too. */
		assert_int_equal(rig->failure.event.failure, GD_FAILURE_TIMED_OUT);
		assert_int_equal(rig->failure.event.id, rig->submitted - 1);
	}
	assert_int_equal(rig->errors, 0);
	assert_int_equal(pool_rig_close(rig), 0);
}

static gd_callback *tell_start;

/* While this callback runs the record of the start is not consumed: the worker has published more than was read. */
static int stay_until_it_is_killed(void *context, const struct gd_event *event)
{
	int r = tell_start(context, event);
	board_await(&board->begun, 1);
	check_true(process_await_gone(atomic_load(&board->pids[0]), WAIT_MS));
	return r;
}

static int end_too_many_and_hang(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w;
	(void)state;
	(void)task;
	atomic_fetch_add(&outbox_find()->ended, 1);
	board_add_pid(getpid());
	atomic_store(&board->begun, 1);
	process_hang();
}

static void test_a_false_progress_report_does_not_prevent_the_timeout_while_a_callback_runs(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process = end_too_many_and_hang};
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.task_timeout_ms = 60;
	rig->options.grace_ms = 10;
	tell_start = rig->calls.on_task_start;
	rig->calls.on_task_start = stay_until_it_is_killed;
	pool_rig_open(rig, &ops);
	pool_rig_submit(rig, 0, 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->timeouts, 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

static bool has_begun(struct pool_rig *rig)
{
	(void)rig;
	return atomic_load(&board->begun) == 1;
}

static void test_a_false_progress_report_does_not_prevent_the_kill_after_a_stop(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process = end_too_many_and_hang};
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	rig->options.grace_ms = 10;
	pool_rig_open(rig, &ops);
	pool_rig_submit(rig, 0, 0);
	pool_rig_await(rig, has_begun);
	gd_pool_stop(rig->pool);
	gd_pool_stop(rig->pool);
	pool_rig_drain(rig);
	assert_int_equal(rig->by_failure[GD_FAILURE_CANCELLED], 1);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- In setup ----------------------------------------------------------- */

static int scribble_in_setup(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	if (gd_worker_slot(w) == 0)
		scribbles[board->notes[0]].scribble(w, outbox_find());
	if (gd_worker_slot(w) == 0 && board->notes[1])
		_exit(0); /* so that it is not overwritten */
	return 0;
}

static void test_scribbler_in_setup_affects_only_its_own_slot(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = scribble_in_setup, .process = pool_rig_just_reply};
	for (size_t i = 0; i < 2 * SCRIBBLES; i++) {
		struct pool_rig *rig = pool_rig_again(state);
		atomic_store(&board->notes[0], (int)(i / 2));
		atomic_store(&board->notes[1], (int)(i % 2));
		rig->distrusted = 0;
		pool_rig_open(rig, &ops);
		pool_rig_submit_many(rig, 30);
		pool_rig_drain(rig);
		assert_int_equal(pool_rig_close(rig), 0);
		assert_int_equal(rig->failed_elsewhere, 0);
	}
}

/* ---- In cleanup --------------------------------------------------------- */

static int scribble_in_cleanup(struct gd_worker *w, void *state)
{
	(void)state;
	if (gd_worker_slot(w) == 0)
		scribbles[board->notes[0]].scribble(w, outbox_find());
	return 0;
}

static void test_scribbler_in_cleanup_affects_only_its_own_slot(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process = pool_rig_just_reply, .cleanup = scribble_in_cleanup};
	for (size_t i = 0; i < SCRIBBLES; i++) {
		struct pool_rig *rig = pool_rig_again(state);
		atomic_store(&board->notes[0], (int)i);
		rig->distrusted = 0;
		rig->options.cleanup_timeout_ms = 500;
		pool_rig_open(rig, &ops);
		pool_rig_pid(rig, 0, 0);
		pool_rig_submit_many(rig, 10);
		pool_rig_drain(rig);
		assert_int_equal(pool_rig_close(rig), 0);
		assert_int_equal(rig->errors, 0);
	}
}

/* ---- While the pool reads ----------------------------------------------- */

/* A thread of the worker that never stops writing, so that every read sees another value. */
static void *scribble_on(void *argument)
{
	struct outbox *out = argument;
	unsigned seed = (unsigned)getpid();
	for (;;) {
		size_t at = (size_t)rand_r(&seed) % (sizeof(*out) / 8);
		uint64_t value = (uint64_t)rand_r(&seed) << (rand_r(&seed) % 3 * 20);
		switch (rand_r(&seed) % 4) {
		case 0:
			((volatile uint64_t *)out)[at] = value;
			break;
		case 1:
			atomic_store(&out->head, (uint64_t)(rand_r(&seed) % 40));
			break;
		case 2:
			atomic_store(&out->begun, (uint64_t)(rand_r(&seed) % 40));
			break;
		default:
			fill(ring_at(outbox_descs(out), (uint64_t)rand_r(&seed) % 40), 8 + value % 56, seed);
		}
	}
	return NULL;
}

static int setup_thread(struct gd_worker *w, void **ret_state)
{
	pthread_t thread;
	*ret_state = NULL;
	if (gd_worker_slot(w) == 0 && pthread_create(&thread, NULL, scribble_on, outbox_find()) != 0)
		_exit(93);
	return 0;
}

/* False if the setup of the other worker was late: then no worker may be left. */
static bool run_beside_scribbler(struct pool_rig *rig)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = setup_thread, .process = pool_rig_just_reply};
	rig->distrusted = 0;
	rig->options.task_timeout_ms = 100; /* it may have put itself to sleep */
	rig->options.grace_ms = 10;
	rig->options.setup_timeout_ms = 500;
	rig->options.cleanup_timeout_ms = 100;
	pool_rig_open(rig, &ops);
	pool_rig_submit_many(rig, 300);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
	size_t without_worker = rig->by_failure[GD_FAILURE_NO_WORKER];
	assert_int_equal(rig->failed_elsewhere, rig->late_elsewhere + without_worker);
	return without_worker == 0;
}

static void test_scribbling_without_end_affects_only_its_own_slot(void **state)
{
	for (int i = 0; i < 10; i++)
		pool_rig_try(run_beside_scribbler(pool_rig_again(state)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_worker_that_keeps_overwriting_its_memory_fails_only_its_own_tasks),
		pool_rig_test(test_scribbler_that_dies_fails_only_its_own_tasks),
		pool_rig_test(test_scribbler_that_hangs_fails_only_its_own_tasks),
		pool_rig_test(test_a_false_progress_report_does_not_prevent_the_timeout),
		pool_rig_test(test_a_false_progress_report_does_not_prevent_the_timeout_while_a_callback_runs),
		pool_rig_test(test_a_false_progress_report_does_not_prevent_the_kill_after_a_stop),
		pool_rig_test(test_scribbler_in_setup_affects_only_its_own_slot),
		pool_rig_test(test_scribbler_in_cleanup_affects_only_its_own_slot),
		pool_rig_test(test_scribbling_without_end_affects_only_its_own_slot),
	};
	return cmocka_run_group_tests_name("pool scribble", tests, NULL, NULL);
}
