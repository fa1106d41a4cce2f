/* SPDX-License-Identifier: MIT */
/* Answers, or missing answers, of a hook to its tasks, and how they arrive. */
#include "pool_rig.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/board.h"
#include "support/sanitizer.h"

#define MOST 64

/* The arguments of the callbacks, by task id. */
static struct {
	size_t starts;
	size_t count;
	struct gd_event events[MOST];
	char result[MOST][8];
	bool aligned[MOST];
} seen;

static bool is_aligned(const void *data)
{
	return (uintptr_t)data % _Alignof(max_align_t) == 0;
}

static int note(void *context, const struct gd_event *event)
{
	(void)context;
	check_true(event->id < MOST);
	seen.count++;
	seen.events[event->id] = *event;
	size_t n = event->result.size < 8 ? event->result.size : 8;
	if (n)
		memcpy(seen.result[event->id], event->result.data, n);
	seen.aligned[event->id] = is_aligned(event->task.data) && is_aligned(event->result.data);
	return 0;
}

static int note_start(void *context, const struct gd_event *event)
{
	(void)context;
	(void)event;
	seen.starts++;
	return 0;
}

static int noting_setup(void **state)
{
	memset(&seen, 0, sizeof(seen));
	int r = pool_rig_setup(state);
	struct pool_rig *rig = *state;
	rig->calls.on_success = rig->calls.on_error = note;
	rig->calls.on_task_start = note_start;
	return r;
}

static void submit(struct pool_rig *rig, const char *bytes)
{
	check_equal(gd_pool_submit(rig->pool, bytes, strlen(bytes), NULL, NULL, NULL), 0);
}

static void drain_and_close(struct pool_rig *rig)
{
	pool_rig_await(rig, pool_rig_is_empty);
	assert_int_equal(gd_pool_close(rig->pool, NULL, 0, NULL), 0);
}

/* ---- No answer ---------------------------------------------------------- */

static int answer_every_third(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	uint64_t id = gd_worker_task_id(w, 0);
	if (id % 3 == 0)
		return gd_worker_result(w, "hello", 5);
	return id % 3 == 1 ? 0 : gd_worker_fail(w, -EIO, "no");
}

static void test_task_without_answer_after_one_with_a_result_has_an_empty_result(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = answer_every_third};
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	pool_rig_open(rig, &ops);
	for (int i = 0; i < 9; i++)
		submit(rig, "x");
	drain_and_close(rig);
	assert_int_equal(seen.count, 9);
	for (int i = 0; i < 9; i++) {
		assert_int_equal(seen.events[i].failure, i % 3 == 2 ? GD_FAILURE_ERROR : GD_FAILURE_NONE);
		assert_int_equal(seen.events[i].result.size, i % 3 == 0 ? 5 : 0);
		assert_int_equal(seen.events[i].code, i % 3 == 2 ? -EIO : 0);
	}
}

/* ---- In a batch --------------------------------------------------------- */

/* A stopped worker finds all of these at once when it continues. */
static void submit_as_batch(struct pool_rig *rig, int slot, int count)
{
	pid_t pid = pool_rig_pid(rig, slot, 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	for (int i = 0; i < count; i++)
		submit(rig, "x");
	assert_int_equal(kill(pid, SIGCONT), 0);
}

static int answer_batch_as_one(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	(void)tasks;
	atomic_store(&board->notes[0], (int)num_tasks);
	/* Allowed for the first task before its answer. */
	atomic_store(&board->notes[1], gd_worker_result(w, "first", 5));
	gd_worker_batch_result(w, 0, "mine", 4);
	atomic_store(&board->notes[2], gd_worker_result_reserve(w, 8) != NULL);
	atomic_store(&board->notes[3], gd_worker_result(w, "again", 5));
	atomic_store(&board->notes[4], gd_worker_batch_result(w, 0, "again", 5));
	return gd_worker_batch_result(w, 2, "third", 5);
}

static void test_task_that_was_answered_cannot_be_answered_again(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .process_batch = answer_batch_as_one, .max_batch = 3};
	struct pool_rig *rig = *state;
	rig->options.gpus = "sim:1";
	pool_rig_open(rig, &ops);
	submit_as_batch(rig, 0, 3);
	drain_and_close(rig);
	assert_int_equal(atomic_load(&board->notes[0]), 3);
	assert_int_equal(atomic_load(&board->notes[1]), 0);
	assert_int_equal(atomic_load(&board->notes[2]), 0);
	assert_int_equal(atomic_load(&board->notes[3]), -EINVAL);
	assert_int_equal(atomic_load(&board->notes[4]), -EINVAL);
	assert_int_equal(seen.count, 3);
	assert_string_equal(seen.result[0], "mine");
	assert_int_equal(seen.events[1].result.size, 0);
	assert_string_equal(seen.result[2], "third");
}

/* Answers with the batch size; the first task waits for its pipe. */
static int say_how_many(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	(void)tasks;
	if (gd_worker_task_id(w, 0) == 0) {
		FILE *gate = fopen(gd_worker_setting(w, "gate", ""), "re");
		if (!gate || fgetc(gate) != 'g')
			return gd_worker_fail(w, -EIO, "no gate");
		fclose(gate);
		poll(NULL, 0, 10); /* long enough that nothing is prefetched, except for a batch */
	}
	char many = (char)num_tasks;
	for (size_t i = 0; i < num_tasks; i++)
		if (gd_worker_batch_result(w, i, &many, 1) < 0)
			return -EIO;
	return 0;
}

static const struct gd_worker_ops executed = {
	.size = sizeof(struct gd_worker_ops), .process_batch = say_how_many, .max_batch = 8};
static const char *const executed_argv[] = {"/proc/self/exe", "--worker", NULL};

static bool one_started(struct pool_rig *rig)
{
	(void)rig;
	return seen.starts >= 1;
}

static void test_executed_workers_have_batches_of_their_own_size(void **state)
{
	struct pool_rig *rig = *state;
	char path[64];
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), ends[0]);
	const struct gd_setting gate = {"gate", path};
	rig->options.settings = &gate;
	rig->options.num_settings = 1;
	rig->options.gpus = "sim:1";
	rig->options.worker_argv = executed_argv;
	pool_rig_open(rig, NULL);
	submit(rig, "x");
	pool_rig_await(rig, one_started);
	for (int i = 0; i < 7; i++)
		submit(rig, "x");
	assert_int_equal(write(ends[1], "g", 1), 1);
	drain_and_close(rig);
	assert_int_equal(seen.count, 8);
	assert_int_equal(seen.result[0][0], 1);
	for (int i = 1; i < 8; i++)
		assert_int_equal(seen.result[i][0], 7); /* as many as fit next to the first */
	close(ends[0]);
	close(ends[1]);
}

/* ---- Held back ---------------------------------------------------------- */

static int first_waits(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	if (gd_worker_task_id(w, 0) == 0)
		board_await(&board->go, 1);
	double number = 1;
	return gd_worker_result(w, &number, sizeof(number));
}

static bool others_answered(struct pool_rig *rig)
{
	return pool_rig_worker(rig, 0).completed + pool_rig_worker(rig, 1).completed == 3;
}

static void test_held_results_are_aligned_for_any_type(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = first_waits};
	struct pool_rig *rig = *state;
	rig->options.ordered = true;
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 0, 0);
	pool_rig_pid(rig, 1, 0);
	submit(rig, "x");
	submit(rig, "xyz");
	submit(rig, "x");
	submit(rig, "a task of 19 bytes.");
	pool_rig_await(rig, others_answered);
	assert_int_equal(seen.count, 0);
	atomic_store(&board->go, 1);
	drain_and_close(rig);
	assert_int_equal(seen.count, 4);
	for (int i = 0; i < 4; i++)
		assert_true(seen.aligned[i]);
}

#define LARGE_TASK ((size_t)16 << 20)

static int empty_result(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	if (gd_worker_task_id(w, 0) == 0)
		board_await(&board->go, 1);
	return 0;
}

/* Leaves too little address space for a copy of a large task, which is held back with its result. */
static void limit_addresses(struct rlimit *ret_old)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	assert_int_equal(getrlimit(RLIMIT_AS, ret_old), 0);
	struct rlimit few = *ret_old;
	few.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + LARGE_TASK / 2;
	assert_int_equal(setrlimit(RLIMIT_AS, &few), 0);
}

static void submit_large(struct pool_rig *rig, size_t size)
{
	void *bytes = calloc(1, size);
	assert_non_null(bytes);
	assert_int_equal(gd_pool_submit(rig->pool, bytes, size, NULL, NOWAIT, NULL), 0);
	free(bytes);
}

static void test_results_that_cannot_be_held_leave_their_room_to_others(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = empty_result};
	struct pool_rig *rig = *state;
	struct rlimit old;
	if (SANITIZER_ADDRESS) /* which needs the whole address space */
		skip();
	rig->options.ordered = true;
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 0, 0);
	pool_rig_pid(rig, 1, 0);
	submit(rig, "x");
	/* Each larger than all before it, so their freed memory is not enough for its copy. */
	for (int i = 0; i < 3; i++)
		submit_large(rig, LARGE_TASK << i);
	limit_addresses(&old);
	pool_rig_await(rig, others_answered);
	atomic_store(&board->go, 1);
	pool_rig_await(rig, pool_rig_is_empty);
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
	assert_int_equal(seen.count, 4);
	for (int i = 1; i < 4; i++)
		assert_int_equal(seen.events[i].failure, GD_FAILURE_NOT_CARRIED);
	submit_large(rig, LARGE_TASK);
	drain_and_close(rig);
	assert_int_equal(seen.events[4].failure, GD_FAILURE_NONE);
}

#define ANSWER(test) cmocka_unit_test_setup_teardown(test, noting_setup, pool_rig_teardown)

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--worker") == 0)
		return gd_worker_main(&executed);
	const struct CMUnitTest tests[] = {
		ANSWER(test_task_without_answer_after_one_with_a_result_has_an_empty_result),
		ANSWER(test_task_that_was_answered_cannot_be_answered_again),
		ANSWER(test_executed_workers_have_batches_of_their_own_size),
		ANSWER(test_held_results_are_aligned_for_any_type),
		ANSWER(test_results_that_cannot_be_held_leave_their_room_to_others),
	};
	return cmocka_run_group_tests_name("pool answers", tests, NULL, NULL);
}
