/* SPDX-License-Identifier: MIT */
/* on_wait: a hook for bindings that release a lock while the worker waits. */
#include "pool_rig.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "support/board.h"
#include "support/wait.h"

enum { ANSWER, GATE, FILL };

#define LARGE ((size_t)3 << 19) /* three of them do not fit into the outbox */

/* Counters of the worker on the board. */
enum { WAITS, WAITS_INSIDE };
enum { WAITS_AT_END_OF_GATE, WAITS_AT_NEXT };

static bool inside; /* of gd_worker_batch_result() */

static void note_wait(struct gd_worker *w)
{
	(void)w;
	atomic_fetch_add(&board->notes[inside ? WAITS_INSIDE : WAITS], 1);
}

static int fill(struct gd_worker *w, size_t i)
{
	char *data = calloc(1, LARGE);
	if (!data)
		return -1;
	inside = true;
	int r = gd_worker_batch_result(w, i, data, LARGE);
	inside = false;
	free(data);
	return r;
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t count)
{
	static bool after_gate;
	(void)state;
	if (after_gate)
		atomic_store(&board->words[WAITS_AT_NEXT], (uint64_t)atomic_load(&board->notes[WAITS]));
	after_gate = false;
	for (size_t i = 0; i < count; i++) {
		struct rig_job job = pool_rig_job(&tasks[i]);
		uint64_t answer = pool_rig_answer(job.number);
		atomic_fetch_add(&board->begun, 1);
		if (job.what == GATE) {
			board_pass_gate(0);
			after_gate = true;
			atomic_store(&board->words[WAITS_AT_END_OF_GATE], (uint64_t)atomic_load(&board->notes[WAITS]));
		}
		int r = job.what == FILL ? fill(w, i) : gd_worker_batch_result(w, i, &answer, sizeof(answer));
		if (r < 0)
			return r;
	}
	return 0;
}

static const struct gd_worker_ops ops = {
	.size = sizeof(struct gd_worker_ops), .process_batch = process, .max_batch = 32, .on_wait = note_wait};

static void open_one(struct pool_rig *rig)
{
	rig->options.gpus = "sim:1";
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 0, 0);
}

static void test_on_wait_is_called_before_each_wait_for_a_task(void **state)
{
	struct pool_rig *rig = *state;
	open_one(rig);
	for (int i = 0; i < 10; i++) {
		board_await(&board->notes[WAITS], i + 1);
		pool_rig_submit(rig, ANSWER, 0);
		pool_rig_drain(rig);
	}
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_on_wait_is_not_called_while_there_are_tasks(void **state)
{
	struct pool_rig *rig = *state;
	open_one(rig);
	pool_rig_submit(rig, GATE, 0);
	board_await(&board->begun, 1);
	atomic_store(&board->words[WAITS_AT_NEXT], UINT64_MAX);
	for (int i = 0; i < 10; i++)
		pool_rig_submit(rig, ANSWER, 0);
	board_open_gate(0);
	pool_rig_drain(rig);
	assert_int_equal(atomic_load(&board->words[WAITS_AT_NEXT]), atomic_load(&board->words[WAITS_AT_END_OF_GATE]));
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_on_wait_is_called_before_a_wait_for_room(void **state)
{
	struct pool_rig *rig = *state;
	rig->distrusted = 0; /* its results are only large */
	open_one(rig);
	for (int i = 0; i < 4; i++)
		pool_rig_submit(rig, FILL, 0);
	board_await(&board->notes[WAITS_INSIDE], 1); /* no poll meanwhile */
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 4);
	assert_int_equal(pool_rig_close(rig), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_on_wait_is_called_before_each_wait_for_a_task),
		pool_rig_test(test_on_wait_is_not_called_while_there_are_tasks),
		pool_rig_test(test_on_wait_is_called_before_a_wait_for_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
