/* SPDX-License-Identifier: MIT */
/* Payloads in both directions: of every size, in place, abandoned, and by workers that die meanwhile. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "recorder.h"
#include "support/board.h"
#include "support/sanitizer.h"
#include "support/wait.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << (SANITIZER_THREAD ? 24 : 30)) /* TSan tracks each byte that is read and written */

static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 4096, MIB, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB, 64 * MIB};
#define NUM_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static size_t size_of(const struct recorder *rec, uint64_t id)
{
	/* Small ones in between, so that large ones share the ring. */
	return id % 3 == 2 ? sizes[id / 3 % NUM_SIZES] : (size_t)(id * 37 % 1000) * (rec->extra != NULL);
}

static int generate(void *context, struct gd_feed *feed)
{
	struct recorder *rec = context;
	if (rec->given == rec->tasks)
		return 0;
	uint64_t id = rec->given++;
	size_t size = size_of(rec, id);
	if (id % 2) {
		unsigned char *data = gd_feed_reserve(feed, size, NULL, NULL);
		if (!data && size > 0)
			return -ENOMEM;
		pattern_fill(data, size, id);
		return 1;
	}
	unsigned char *data = malloc(size ? size : 1);
	if (!data)
		return -ENOMEM;
	pattern_fill(data, size, id);
	int r = gd_feed_emit(feed, data, size, NULL, NULL);
	memset(data, 0, size);
	free(data);
	return r < 0 ? r : 1;
}

/* Answers with as many bytes, of another pattern; half of them written in place. */
static int transform(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	uint64_t id = gd_worker_task_id(w, 0);
	if ((uintptr_t)task->data % 16 != 0)
		return gd_worker_fail(w, -EFAULT, "the task is not aligned");
	if (!pattern_is_filled(task->data, task->size, id))
		return gd_worker_fail(w, -EBADMSG, "task %d is not what was sent", (int)id);
	if (id % 4 < 2) {
		unsigned char *result = gd_worker_result_reserve(w, task->size);
		if (!result)
			return gd_worker_fail(w, -ENOMEM, "no room");
		if ((uintptr_t)result % 16 != 0)
			return gd_worker_fail(w, -EFAULT, "the result is not aligned");
		pattern_fill(result, task->size, id + 1);
		return 0;
	}
	unsigned char *result = malloc(task->size ? task->size : 1);
	if (!result)
		return -ENOMEM;
	pattern_fill(result, task->size, id + 1);
	int r = gd_worker_result(w, result, task->size);
	free(result);
	return r;
}

struct checked {
	unsigned good;
	unsigned bad;
};

static struct checked checked;

static int check(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	if (note->kind != CALLBACK_SUCCESS)
		return 0;
	bool good = event->task.size == size_of(rec, event->id) && event->result.size == event->task.size &&
		    pattern_is_filled(event->task.data, event->task.size, event->id) &&
		    pattern_is_filled(event->result.data, event->result.size, event->id + 1) &&
		    (uintptr_t)event->task.data % 16 == 0 && (uintptr_t)event->result.data % 16 == 0;
	if (good)
		checked.good++;
	else
		checked.bad++;
	return 0;
}

static void run_sizes(struct recorder *rec, uint64_t tasks)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = transform};
	checked = (struct checked){0};
	rec->extra = rec;
	rec->tasks = tasks;
	rec->run.generator = generate;
	rec->on_note = check;
	int r = recorder_run(rec, &ops);
	if (r < 0)
		fail_msg("%s", rec->err.message);
	recorder_assert_complete(rec);
	if (rec->count[CALLBACK_ERROR])
		fail_msg("%s", recorder_note(rec, CALLBACK_ERROR, 0)->message);
	assert_int_equal(checked.bad, 0);
	assert_int_equal(checked.good, tasks);
}

static void test_payloads_of_every_size_arrive_intact(void **state)
{
	run_sizes(*state, 3 * NUM_SIZES * 2);
}

static void test_payloads_of_every_size_arrive_intact_in_order(void **state)
{
	struct recorder *rec = *state;
	rec->options.ordered = true;
	rec->options.queue_size = 4;
	run_sizes(rec, 3 * NUM_SIZES);
}

static void test_payloads_of_every_size_arrive_intact_from_an_inline_generator(void **state)
{
	struct recorder *rec = *state;
	rec->run.inline_generator = true;
	rec->options.queue_size = 7;
	run_sizes(rec, 3 * NUM_SIZES);
}

/* ---- 1 GiB -------------------------------------------------------------- */

static size_t available_bytes(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	size_t kib = 0;
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "MemAvailable:", 13) == 0)
			kib = strtoul(line + 13, NULL, 10);
	if (f)
		fclose(f);
	return kib * 1024;
}

static int generate_gib(void *context, struct gd_feed *feed)
{
	struct recorder *rec = context;
	if (rec->given == 1)
		return 0;
	unsigned char *data = gd_feed_reserve(feed, GIB, NULL, NULL);
	if (!data)
		return -ENOMEM;
	pattern_fill(data, GIB, 0);
	rec->given++;
	return 1;
}

static int check_gib(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	if (note->kind == CALLBACK_SUCCESS && event->task.size == GIB && event->result.size == GIB &&
		pattern_is_filled(event->result.data, GIB, 1))
		rec->extra = rec;
	return 0;
}

static void test_payload_of_1_gib_arrives_intact(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = transform};
	struct recorder *rec = *state;
	if (available_bytes() < 6 * GIB) {
		print_message("less than 6 GiB of memory are available\n");
		skip();
	}
	rec->run.generator = generate_gib;
	rec->on_note = check_gib;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_non_null(rec->extra);
}

/* ---- Drafts ------------------------------------------------------------- */

/* Polls until the workers are ready. */
static void await_ready(struct gd_pool *p)
{
	for (int ready = 0; ready < 1;) {
		gd_pool_poll(p, 10, 0);
		struct gd_stats stats;
		gd_pool_stats(p, &stats, sizeof(stats));
		ready = 1;
		for (size_t i = 0; i < stats.workers; i++) {
			struct gd_worker_stats w;
			assert_int_equal(gd_pool_worker_stats(p, (int)i, &w, sizeof(w)), 0);
			ready &= w.state == GD_WORKER_STATE_IDLE && w.pid > 0;
		}
	}
}

static const struct gd_worker_ops echo = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};

static void test_a_draft_is_committed_smaller_or_abandoned(void **state)
{
	struct recorder *rec = *state;
	static const size_t reserved[] = {16, 100000, 3 * MIB, 2 * MIB};
	struct gd_pool *p = recorder_open(rec, &echo);
	for (int ready = 0; ready < 2; ready++) {
		/* Before the workers are ready the draft is in other memory, after that in an inbox. */
		for (size_t i = 0; i < 4; i++) {
			struct gd_draft *d;
			void *data;
			uint64_t id = 99;
			assert_int_equal(gd_pool_reserve(p, reserved[i], NOWAIT, &d, &data), 0);
			assert_int_equal(gd_pool_outstanding(p), 1);
			gd_draft_abandon(d);
			assert_int_equal(gd_pool_outstanding(p), 0);
			assert_int_equal(gd_pool_reserve(p, reserved[i], NOWAIT, &d, &data), 0);
			memset(data, 7, reserved[i]);
			uint64_t number = i + 10;
			memcpy(data, &number, sizeof(number));
			assert_int_equal(gd_draft_commit(d, 8 + i, NULL, &id), 0);
			assert_int_equal(id, i + 4 * (size_t)ready); /* abandoned drafts have no number */
			recorder_drain(p);
			const struct run_note *n = recorder_note(rec, CALLBACK_SUCCESS, i + 4 * (size_t)ready);
			assert_non_null(n);
			assert_int_equal(n->event.task.size, 8 + i);
			assert_int_equal(n->event.result.size, 8 + i);
			assert_int_equal(n->result, number);
		}
		await_ready(p);
	}
	/* More than was reserved: refused and dropped. */
	struct gd_draft *d;
	void *data;
	assert_int_equal(gd_pool_reserve(p, 10, NULL, &d, &data), 0);
	assert_int_equal(gd_draft_commit(d, 11, NULL, NULL), -EINVAL);
	assert_int_equal(gd_pool_outstanding(p), 0);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

/* While the draft is open in a worker's inbox, nothing else is put there, but the other one works. */
static void test_open_draft_delays_no_other_task(void **state)
{
	struct recorder *rec = *state;
	struct gd_pool *p = recorder_open(rec, &echo);
	await_ready(p);
	struct gd_draft *d;
	void *data;
	assert_int_equal(gd_pool_reserve(p, 100, NULL, &d, &data), 0);
	for (uint64_t i = 0; i < 50; i++)
		assert_int_equal(gd_pool_submit(p, &i, sizeof(i), NULL, NULL, NULL), 0);
	while (rec->count[CALLBACK_SUCCESS] < 50)
		assert_true(gd_pool_poll(p, WAIT_MS, 0) > 0);
	memset(data, 0, 100);
	assert_int_equal(gd_draft_commit(d, 100, NULL, NULL), 0);
	while (rec->count[CALLBACK_SUCCESS] < 51)
		assert_true(gd_pool_poll(p, WAIT_MS, 0) > 0);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

static int answer_or_die(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (recorder_number(task) == 666)
		raise(SIGKILL);
	return recorder_echo(w, state, task);
}

static const struct gd_worker_ops mortal = {.size = sizeof(struct gd_worker_ops), .process = answer_or_die};

/* Kills the only worker, polls until the next one is ready. */
static void replace_worker(struct gd_pool *p)
{
	struct gd_worker_stats w;
	assert_int_equal(gd_pool_worker_stats(p, 0, &w, sizeof(w)), 0);
	assert_int_equal(kill((pid_t)w.pid, SIGKILL), 0);
	for (struct gd_worker_stats now = w; now.restarts == w.restarts || now.state != GD_WORKER_STATE_IDLE;) {
		gd_pool_poll(p, 10, 0);
		assert_int_equal(gd_pool_worker_stats(p, 0, &now, sizeof(now)), 0);
	}
}

static void test_draft_in_the_inbox_of_a_worker_that_dies_stays_usable(void **state)
{
	struct recorder *rec = *state;
	rec->options.gpus = "sim:1";
	struct gd_pool *p = recorder_open(rec, &mortal);
	await_ready(p);
	for (int abandon = 0; abandon < 2; abandon++) {
		struct gd_draft *d;
		uint64_t *data;
		assert_int_equal(gd_pool_reserve(p, 64, NULL, &d, (void **)&data), 0);
		data[0] = 41;
		replace_worker(p);
		data[0]++; /* still there */
		if (abandon)
			gd_draft_abandon(d);
		else
			assert_int_equal(gd_draft_commit(d, 8, NULL, NULL), 0);
		recorder_drain(p);
	}
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 1);
	assert_int_equal(recorder_note(rec, CALLBACK_SUCCESS, 0)->result, 42);
	assert_int_equal(recorder_note(rec, CALLBACK_SUCCESS, 0)->event.attempt, 1);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

struct committer {
	struct gd_draft *draft;
	int result;
};

static void *commit_when_told(void *argument)
{
	struct committer *c = argument;
	if (board_pass_gate(0))
		c->result = gd_draft_commit(c->draft, 8, NULL, NULL);
	board_open_gate(1);
	return NULL;
}

/* The other thread commits while the worker's end is handled: in the callback of the task that died. */
static int let_commit(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)rec;
	(void)event;
	if (note->kind == CALLBACK_ERROR) {
		board_open_gate(0);
		board_pass_gate(1);
	}
	return 0;
}

static void test_a_draft_committed_while_the_dead_are_called_back_is_not_lost(void **state)
{
	struct recorder *rec = *state;
	struct committer c = {.result = 1};
	uint64_t deadly = 666;
	uint64_t *data;
	pthread_t thread;
	rec->options.gpus = "sim:1";
	rec->calls.on_task_start = NULL;
	rec->on_note = let_commit;
	struct gd_pool *p = recorder_open(rec, &mortal);
	await_ready(p);
	/* One short task first: only then is more than one handed to a worker. */
	assert_int_equal(gd_pool_submit(p, &c, 8, NULL, NULL, NULL), 0);
	recorder_drain(p);
	assert_int_equal(gd_pool_submit(p, &deadly, 8, NULL, NULL, NULL), 0);
	assert_int_equal(gd_pool_reserve(p, 8, NULL, &c.draft, (void **)&data), 0);
	*data = 42;
	assert_int_equal(pthread_create(&thread, NULL, commit_when_told, &c), 0);
	recorder_drain(p);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(c.result, 0);
	assert_int_equal(rec->count[CALLBACK_ERROR], 1);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 2);
	assert_int_equal(recorder_note(rec, CALLBACK_SUCCESS, 1)->result, 42);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

static void *abandon_when_told(void *argument)
{
	struct committer *c = argument;
	if (board_pass_gate(0)) {
		poll(NULL, 0, 50); /* so that the other one waits, usually */
		gd_draft_abandon(c->draft);
	}
	return NULL;
}

static int tell(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)rec;
	(void)event;
	if (note->kind == CALLBACK_SUCCESS)
		board_open_gate(0);
	return 0;
}

/* A poll waits for the last task, which is then abandoned. */
static void test_abandoning_the_last_draft_ends_a_poll_that_waits(void **state)
{
	struct recorder *rec = *state;
	struct committer c = {0};
	void *data;
	pthread_t thread;
	rec->on_note = tell;
	struct gd_pool *p = recorder_open(rec, &echo);
	await_ready(p);
	assert_int_equal(gd_pool_reserve(p, 8, NULL, &c.draft, &data), 0);
	uint64_t task = 1;
	assert_int_equal(gd_pool_submit(p, &task, 8, NULL, NULL, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, abandon_when_told, &c), 0);
	while (gd_pool_outstanding(p) > 0)
		assert_true(gd_pool_poll(p, -1, 0) >= 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_payloads_of_every_size_arrive_intact),
		recorder_test(test_payloads_of_every_size_arrive_intact_in_order),
		recorder_test(test_payloads_of_every_size_arrive_intact_from_an_inline_generator),
		recorder_test(test_payload_of_1_gib_arrives_intact),
		recorder_test(test_a_draft_is_committed_smaller_or_abandoned),
		recorder_test(test_open_draft_delays_no_other_task),
		recorder_test(test_draft_in_the_inbox_of_a_worker_that_dies_stays_usable),
		recorder_test(test_a_draft_committed_while_the_dead_are_called_back_is_not_lost),
		recorder_test(test_abandoning_the_last_draft_ends_a_poll_that_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
