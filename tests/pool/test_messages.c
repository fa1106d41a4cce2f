/* SPDX-License-Identifier: MIT */
/* gd_worker_send(): bytes from any hook to on_message. TEST_WORKER is a worker program. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "pool/channel.h"
#include "recorder.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static void submit(struct gd_pool *pool, uint64_t number)
{
	assert_int_equal(
		gd_pool_submit(pool, &number, sizeof(number), (void *)(uintptr_t)(number + 1000), NULL, NULL), 0);
}

static int send_number(struct gd_worker *w, uint64_t number)
{
	return gd_worker_send(w, &number, sizeof(number));
}

/* A message of `size` bytes, which pattern_is_filled() can check. */
static int send_pattern(struct gd_worker *w, size_t size, uint64_t number)
{
	void *data = malloc(size + 1);
	if (!data)
		return -ENOMEM;
	pattern_fill(data, size, number);
	int r = gd_worker_send(w, data, size);
	free(data);
	return r;
}

/* ---- Which task, which order -------------------------------------------- */

static int send_three(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	uint64_t number = recorder_number(task);
	for (uint64_t i = 0; i < 3; i++)
		if (send_number(w, number * 10 + i) < 0)
			return -EIO;
	return gd_worker_result(w, task->data, task->size);
}

static void test_messages_come_before_the_end_of_their_task_in_order(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = send_three};
	struct recorder *rec = *state;
	rec->tasks = 100;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_MESSAGE], 300);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 100);
	uint64_t sent[100] = {0};
	for (size_t i = 0; i < rec->num_notes; i++) {
		const struct run_note *n = &rec->notes[i];
		const struct gd_event *e = &n->event;
		if (n->kind == CALLBACK_SUCCESS)
			assert_int_equal(sent[e->id], 3);
		if (n->kind != CALLBACK_MESSAGE)
			continue;
		assert_int_equal(n->result, e->id * 10 + sent[e->id]++);
		assert_int_equal(n->task, e->id);
		assert_ptr_equal(e->tag, (void *)(uintptr_t)(e->id + 1000));
		assert_in_range(e->slot, 0, 1);
		assert_int_equal(e->gpu, e->slot);
		assert_int_equal(e->attempt, 1);
		assert_int_equal(e->failure, GD_FAILURE_NONE);
		assert_true(e->queued_ns <= e->started_ns && e->started_ns <= e->ended_ns);
	}
}

static int setup_and_tell(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	return send_number(w, 1);
}

static int cleanup_and_tell(struct gd_worker *w, void *state)
{
	(void)state;
	return send_number(w, 2);
}

static void test_setup_and_cleanup_send_without_a_task(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(ops), .setup = setup_and_tell, .process = recorder_echo, .cleanup = cleanup_and_tell};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_MESSAGE], 2);
	assert_int_equal(rec->notes[0].kind, CALLBACK_MESSAGE);
	assert_int_equal(rec->notes[0].result, 1);
	assert_int_equal(rec->notes[rec->num_notes - 2].kind, CALLBACK_MESSAGE);
	assert_int_equal(rec->notes[rec->num_notes - 2].result, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct gd_event *e = &recorder_note(rec, CALLBACK_MESSAGE, i)->event;
		assert_true(e->id == UINT64_MAX);
		assert_null(e->tag);
		assert_int_equal(e->task.size, 0);
		assert_int_equal(e->slot, 0);
		assert_int_equal(e->attempt, 0);
		assert_true(e->ended_ns > 0);
	}
}

static int fail_setup_and_tell(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	return send_number(w, 1) < 0 ? -EIO : -ENOENT;
}

static void test_a_setup_that_fails_has_sent_its_message(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(ops), .setup = fail_setup_and_tell, .process = recorder_echo};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	assert_int_equal(recorder_run(rec, &ops), -ENODEV);
	assert_int_equal(rec->count[CALLBACK_MESSAGE], 1);
	assert_int_equal(rec->count[CALLBACK_SETUP_FAIL], 1);
	assert_int_equal(recorder_note(rec, CALLBACK_SETUP_FAIL, 0)->event.code, -ENOENT);
}

static int send_in_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	for (size_t i = 0; i < num_tasks; i++)
		if (send_number(w, recorder_number(&tasks[i])) < 0 ||
			gd_worker_batch_result(w, i, tasks[i].data, tasks[i].size) < 0)
			return -EIO;
	return 0;
}

static void test_a_batch_sends_without_a_task(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process_batch = send_in_batch};
	struct recorder *rec = *state;
	assert_int_equal(recorder_run(rec, &ops), 0);
	assert_int_equal(rec->count[CALLBACK_MESSAGE], 10);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 10);
	for (size_t i = 0; i < 10; i++)
		assert_true(recorder_note(rec, CALLBACK_MESSAGE, i)->event.id == UINT64_MAX);
}

static void test_messages_count_as_callbacks_of_a_poll(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = send_three};
	struct recorder *rec = *state;
	rec->calls.on_task_start = NULL;
	struct gd_pool *pool = recorder_open(rec, &ops);
	submit(pool, 7);
	int made = 0;
	while (gd_pool_outstanding(pool) > 0) {
		int r = gd_pool_poll(pool, WAIT_MS, 0);
		assert_true(r > 0);
		made += r;
	}
	assert_int_equal(made, 4);
	assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
}

/* ---- Sizes -------------------------------------------------------------- */

static const size_t sizes[] = {
	0, 1, 63, 64, 65, 4096, MIB, CHANNEL_IN_PLACE, CHANNEL_IN_PLACE + 1, 3 * MIB, 20 * MIB, 5, 3 * MIB, 0};
#define NUM_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static int send_sizes(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	for (size_t i = 0; i < NUM_SIZES; i++)
		if (send_pattern(w, sizes[i], i) < 0)
			return -EIO;
	return gd_worker_result(w, task->data, task->size);
}

/* extra: how many messages of each task were intact. */
static int check_sizes(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	size_t *intact = rec->extra;
	if (note->kind != CALLBACK_MESSAGE)
		return 0;
	size_t i = intact[event->id];
	intact[event->id] += i < NUM_SIZES && event->result.size == sizes[i] &&
			     pattern_is_filled(event->result.data, event->result.size, i);
	return 0;
}

static void test_messages_of_any_size_arrive_intact(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = send_sizes};
	struct recorder *rec = *state;
	size_t intact[4] = {0};
	rec->tasks = 4;
	rec->extra = intact;
	rec->on_note = check_sizes;
	assert_int_equal(recorder_run(rec, &ops), 0);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(intact[i], NUM_SIZES);
}

/* ---- With a result that was reserved ------------------------------------ */

#define RESERVED (MIB + 100)
#define BESIDE   2500 /* more than the slots of the ring */

static size_t size_beside(uint64_t i)
{
	return i % 500 == 3 ? 3 * MIB : i % 3 == 0 ? 0 : i % 100;
}

/* Alternately from the beginning of the arena and from its middle. */
static int send_beside_the_result(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	uint64_t number = recorder_number(task);
	char *data = gd_worker_result_reserve(w, RESERVED);
	if (!data)
		return -ENOMEM;
	pattern_fill(data, RESERVED / 2, number);
	for (uint64_t i = 0; i < BESIDE; i++)
		if (send_pattern(w, size_beside(i), i) < 0)
			return -EIO;
	if (!pattern_is_filled(data, RESERVED / 2, number))
		return gd_worker_fail(w, -EIO, "the reserved room was overwritten");
	pattern_fill(data, RESERVED, number);
	return 0;
}

static int check_beside(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	size_t *intact = rec->extra;
	size_t i = intact[event->id];
	if (note->kind == CALLBACK_MESSAGE)
		intact[event->id] += event->result.size == size_beside(i) &&
				     pattern_is_filled(event->result.data, event->result.size, i);
	if (note->kind == CALLBACK_SUCCESS)
		intact[event->id] +=
			event->result.size == RESERVED && pattern_is_filled(event->result.data, RESERVED, event->id);
	return 0;
}

static void test_messages_leave_a_reserved_result_alone(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = send_beside_the_result};
	struct recorder *rec = *state;
	size_t intact[8] = {0};
	rec->tasks = 8;
	rec->extra = intact;
	rec->on_note = check_beside;
	assert_int_equal(recorder_run(rec, &ops), 0);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 8);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(intact[i], BESIDE + 1);
}

/* ---- Space -------------------------------------------------------------- */

#define MANY 100

/* argument: the size; sent messages are counted on the board. */
static int send_many(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	size_t size = (size_t)recorder_number(task);
	for (uint64_t i = 0; i < MANY; i++) {
		if (send_pattern(w, size, i) < 0)
			return -EIO;
		atomic_fetch_add(&board->begun, 1);
	}
	return 0;
}

/* Without a poll, the worker sends what fits and sleeps. */
static void assert_sender_waits(struct recorder *rec, size_t size, int at_least, int at_most)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = send_many};
	rec->options.gpus = "sim:1";
	rec->calls.on_task_start = NULL;
	struct gd_pool *pool = recorder_open(rec, &ops);
	assert_int_equal(gd_pool_wait_ready(pool, WAIT_MS), 1);
	submit(pool, size);
	board_await(&board->begun, at_least);
	struct gd_worker_stats stats;
	assert_int_equal(gd_pool_worker_stats(pool, 0, &stats, sizeof(stats)), 0);
	process_await_asleep((pid_t)stats.pid);
	assert_in_range(atomic_load(&board->begun), at_least, at_most);
	recorder_drain(pool);
	assert_int_equal(rec->count[CALLBACK_MESSAGE], MANY);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 1);
	assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
}

static void test_a_sender_waits_for_room_in_its_outbox(void **state)
{
	assert_sender_waits(*state, 100 * KIB, (int)(CHANNEL_ARENA / (101 * KIB)), (int)(CHANNEL_ARENA / (100 * KIB)));
}

static void test_a_sender_of_large_messages_waits_for_each_of_them(void **state)
{
	assert_sender_waits(*state, 3 * MIB, 1, 1);
}

static int slow(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	if (note->kind == CALLBACK_MESSAGE)
		poll(NULL, 0, 100 * rec->pace);
	return 0;
}

/* Eight messages of 1 MiB, where only three fit. */
static int send_eight(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		if (send_pattern(w, MIB, i) < 0)
			return -EIO;
	return gd_worker_result(w, task->data, task->size);
}

static void test_waiting_for_slow_callbacks_is_not_the_tasks_time(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = send_eight};
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	rec->options.task_timeout_ms = 300;
	rec->options.grace_ms = 50;
	rec->tasks = 1;
	rec->on_note = slow;
	rec->paced = true;
	recorder_run_until(rec, &ops, recorder_all_succeeded);
	assert_int_equal(rec->count[CALLBACK_MESSAGE], 8);
}

static void test_messages_without_a_callback_are_dropped(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = send_sizes};
	struct recorder *rec = *state;
	rec->calls.on_message = NULL;
	rec->calls.on_task_start = NULL;
	struct gd_pool *pool = recorder_open(rec, &ops);
	assert_int_equal(gd_pool_wait_ready(pool, WAIT_MS), 2);
	int fds = process_count_fds();
	for (uint64_t i = 0; i < 4; i++)
		submit(pool, i);
	recorder_drain(pool);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 4);
	assert_int_equal(process_count_fds(), fds);
	assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
}

/* ---- Floods ------------------------------------------------------------- */

/* Slot 0 never stops sending, until it is cancelled. */
static int flood(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	if (gd_worker_slot(w) != 0)
		return gd_worker_result(w, task->data, task->size);
	atomic_store(&board->begun, 1);
	while (!gd_worker_cancelled(w, 0))
		if (send_number(w, 0) < 0)
			return -EIO;
	return -ECANCELED;
}

static void test_a_flood_starves_neither_other_workers_nor_the_stop(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = flood};
	struct recorder *rec = *state;
	for (int with_callback = 0; with_callback < 2; with_callback++) {
		recorder_restart(rec);
		board_renew();
		if (!with_callback)
			rec->calls.on_message = NULL;
		struct gd_pool *pool = recorder_open(rec, &ops);
		assert_int_equal(gd_pool_wait_ready(pool, WAIT_MS), 2);
		for (uint64_t i = 0; i < 300; i++)
			submit(pool, i);
		uint64_t deadline_ns = wait_deadline_ns();
		while (gd_pool_outstanding(pool) > 1) {
			wait_check(deadline_ns, "the other worker's tasks");
			assert_true(gd_pool_poll(pool, 100, 0) >= 0);
		}
		assert_int_equal(rec->count[CALLBACK_SUCCESS], 299);
		gd_pool_stop(pool);
		gd_pool_stop(pool);
		while (gd_pool_outstanding(pool) > 0) {
			wait_check(deadline_ns, "the flooding task's end");
			gd_pool_poll(pool, 100, 0);
		}
		assert_int_equal(rec->count[CALLBACK_CANCELLED], 1);
		assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
		callbacks_install(&rec->callbacks, &rec->calls);
	}
}

/* ---- Crashes, order, executed workers ----------------------------------- */

static int send_and_die(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	if (recorder_number(task) == 0 && send_pattern(w, 100, 1) == 0 && send_pattern(w, 3 * MIB, 2) == 0)
		raise(SIGKILL);
	return gd_worker_result(w, task->data, task->size);
}

static int check_last_words(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	size_t *intact = rec->extra;
	if (note->kind == CALLBACK_MESSAGE)
		*intact += pattern_is_filled(event->result.data, event->result.size, *intact + 1);
	if (note->kind == CALLBACK_ERROR && *intact != 2)
		*intact = 100;
	return 0;
}

static void test_messages_sent_before_a_crash_are_delivered_before_its_end(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = send_and_die};
	struct recorder *rec = *state;
	size_t intact = 0;
	rec->extra = &intact;
	rec->on_note = check_last_words;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_ERROR], 1);
	assert_int_equal(rec->count[CALLBACK_MESSAGE], 2);
	assert_int_equal(intact, 2);
}

/* Task 0 waits until the message of task 1 was delivered. */
static int send_ahead(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	if (recorder_number(task) == 0 && !board_pass_gate(0))
		return -ETIMEDOUT;
	if (recorder_number(task) == 1 && send_number(w, 1) < 0)
		return -EIO;
	return gd_worker_result(w, task->data, task->size);
}

static int open_gate(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)rec;
	(void)event;
	if (note->kind == CALLBACK_MESSAGE)
		board_open_gate(0);
	return 0;
}

static void test_an_ordered_pool_does_not_hold_messages_back(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = send_ahead};
	struct recorder *rec = *state;
	rec->options.ordered = 1;
	rec->tasks = 2;
	rec->on_note = open_gate;
	assert_int_equal(recorder_run(rec, &ops), 0);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 2);
	assert_int_equal(recorder_note(rec, CALLBACK_SUCCESS, 0)->event.id, 0);
}

static void test_an_executed_worker_sends_messages(void **state)
{
	struct recorder *rec = *state;
	const char *const argv[] = {getenv("TEST_WORKER"), NULL};
	rec->options.worker_argv = argv;
	struct gd_pool *pool = recorder_open(rec, NULL);
	assert_int_equal(gd_pool_submit(pool, "send", 4, NULL, NULL, NULL), 0);
	recorder_drain(pool);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 1);
	assert_int_equal(rec->count[CALLBACK_MESSAGE], 2);
	assert_int_equal(recorder_note(rec, CALLBACK_MESSAGE, 0)->event.result.size, 5);
	assert_int_equal(recorder_note(rec, CALLBACK_MESSAGE, 1)->event.result.size, 3 * MIB);
	assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_messages_come_before_the_end_of_their_task_in_order),
		recorder_test(test_setup_and_cleanup_send_without_a_task),
		recorder_test(test_a_setup_that_fails_has_sent_its_message),
		recorder_test(test_a_batch_sends_without_a_task),
		recorder_test(test_messages_count_as_callbacks_of_a_poll),
		recorder_test(test_messages_of_any_size_arrive_intact),
		recorder_test(test_messages_leave_a_reserved_result_alone),
		recorder_test(test_a_sender_waits_for_room_in_its_outbox),
		recorder_test(test_a_sender_of_large_messages_waits_for_each_of_them),
		recorder_test(test_waiting_for_slow_callbacks_is_not_the_tasks_time),
		recorder_test(test_messages_without_a_callback_are_dropped),
		recorder_test(test_a_flood_starves_neither_other_workers_nor_the_stop),
		recorder_test(test_messages_sent_before_a_crash_are_delivered_before_its_end),
		recorder_test(test_an_ordered_pool_does_not_hold_messages_back),
		recorder_test(test_an_executed_worker_sends_messages),
	};
	return cmocka_run_group_tests_name("pool messages", tests, NULL, NULL);
}
