/* SPDX-License-Identifier: MIT */
/* gd_dispatcher_run(): the input of workers, the arguments of callbacks, and when they are called. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "recorder.h"
#include "support/board.h"

static const struct gd_worker_ops echo = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};

/* ---- Input of workers --------------------------------------------------- */

/* A worker's data about itself, in one result. */
struct self {
	int gpu, device, slot, attempt;
	int64_t seed;
	uint64_t id;
	pid_t pid;
	char gpu_variable[16], cuda[16], model[16], other[16];
};

static void copy_text(char to[16], const char *text)
{
	snprintf(to, 16, "%s", text ? text : "(unset)");
}

static int tell(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	struct self self = {
		.gpu = gd_worker_gpu(w),
		.device = gd_worker_device(w),
		.slot = gd_worker_slot(w),
		.attempt = gd_worker_attempt(w, 0),
		.seed = gd_worker_seed(w),
		.id = gd_worker_task_id(w, 0),
		.pid = getpid(),
	};
	copy_text(self.gpu_variable, getenv("GPUQ_GPU"));
	copy_text(self.cuda, getenv("CUDA_VISIBLE_DEVICES"));
	copy_text(self.model, gd_worker_setting(w, "model", "none"));
	copy_text(self.other, gd_worker_setting(w, "other", "none"));
	/* Each worker gets one of the first four tasks: no task ends before all have begun. */
	if (self.id < 4) {
		atomic_fetch_add(&board->words[0], 1);
		while (atomic_load(&board->words[0]) < 4)
			poll(NULL, 0, 1);
	}
	return gd_worker_result(w, &self, sizeof(self));
}

static const struct gd_worker_ops teller = {.size = sizeof(struct gd_worker_ops), .process = tell};

struct selves {
	struct self all[16];
	bool equal[16]; /* the event and the worker report the same */
};

static int keep_self(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	struct selves *s = rec->extra;
	if (note->kind != CALLBACK_SUCCESS || event->id >= 16)
		return 0;
	memcpy(&s->all[event->id], event->result.data, sizeof(struct self));
	const struct self *self = &s->all[event->id];
	s->equal[event->id] = self->gpu == event->gpu && self->slot == event->slot && self->attempt == event->attempt &&
			      self->id == event->id;
	return 0;
}

static void test_a_worker_knows_its_gpu_and_sees_no_other(void **state)
{
	struct recorder *rec = *state;
	struct selves selves = {0};
	const int gpu_ids[] = {3, 0, 2, 0};
	setenv("GPUQ_GPUS", "sim:4", 1);
	rec->options.gpus = NULL;
	rec->options.gpu_ids = gpu_ids;
	rec->options.num_gpu_ids = 4;
	rec->options.base_seed = 100;
	rec->tasks = 4;
	rec->extra = &selves;
	rec->on_note = keep_self;
	assert_int_equal(recorder_run(rec, &teller), 0);
	recorder_assert_complete(rec);
	bool slots[4] = {0};
	for (int i = 0; i < 4; i++) {
		const struct self *s = &selves.all[i];
		assert_true(selves.equal[i]);
		assert_false(slots[s->slot]);
		slots[s->slot] = true;
		char number[16];
		snprintf(number, sizeof(number), "%d", gpu_ids[s->slot]);
		assert_int_equal(s->gpu, gpu_ids[s->slot]);
		assert_int_equal(s->device, 0);
		/* The second worker of GPU 0 has its own seed. */
		assert_true(s->seed == 100 + gpu_ids[s->slot] + (s->slot == 3 ? 4 : 0));
		assert_string_equal(s->gpu_variable, number);
		assert_string_equal(s->cuda, number);
		for (int k = 0; k < i; k++)
			assert_int_not_equal(s->pid, selves.all[k].pid);
		assert_int_not_equal(s->pid, getpid());
	}
	assert_int_equal(rec->stats.workers, 4);
}

static void test_seed_is_42_plus_the_gpu_by_default(void **state)
{
	struct recorder *rec = *state;
	struct selves selves = {0};
	rec->tasks = 6;
	atomic_store(&board->words[0], 4);
	rec->extra = &selves;
	rec->on_note = keep_self;
	assert_int_equal(recorder_run(rec, &teller), 0);
	for (int i = 0; i < 6; i++)
		assert_true(selves.all[i].seed == 42 + selves.all[i].gpu);
}

static void test_seed_zero_can_be_asked_for(void **state)
{
	struct recorder *rec = *state;
	struct selves selves = {0};
	rec->tasks = 6;
	atomic_store(&board->words[0], 4);
	rec->options.has_base_seed = 1;
	rec->extra = &selves;
	rec->on_note = keep_self;
	for (int run = 0; run < 2; run++) {
		rec->given = 0;
		assert_int_equal(recorder_run(rec, &teller), 0);
		for (int i = 0; i < 6; i++)
			assert_true(selves.all[i].seed == selves.all[i].gpu);
	}
}

static void test_settings_reach_every_worker(void **state)
{
	struct recorder *rec = *state;
	struct selves selves = {0};
	char value[] = "large";
	const struct gd_setting settings[] = {{"model", value}, {"batch", "8"}};
	rec->options.settings = settings;
	rec->options.num_settings = 2;
	rec->options.workers_per_gpu = 2;
	rec->options.worker = &teller;
	rec->tasks = 4;
	rec->extra = &selves;
	rec->on_note = keep_self;
	assert_int_equal(gd_dispatcher_create(&rec->options, &rec->dispatcher, &rec->err), 0);
	memset(value, 'x', strlen(value)); /* they were copied */
	assert_int_equal(recorder_run(rec, &teller), 0);
	for (int i = 0; i < 4; i++) {
		assert_string_equal(selves.all[i].model, "large");
		assert_string_equal(selves.all[i].other, "none");
	}
	assert_int_equal(rec->stats.workers, 4);
}

/* ---- setup, process, cleanup -------------------------------------------- */

static int count_setup(struct gd_worker *w, void **ret_state)
{
	atomic_fetch_add(&board->words[gd_worker_slot(w)], 1);
	*ret_state = calloc(1, sizeof(uint64_t));
	return *ret_state ? 0 : -ENOMEM;
}

static int count_tasks(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)task;
	/* The run does not end before both are ready. */
	board_meet(&board->words[30], gd_worker_slot(w), 2);
	uint64_t n = ++*(uint64_t *)state;
	return gd_worker_result(w, &n, sizeof(n));
}

static int count_cleanup(struct gd_worker *w, void *state)
{
	atomic_fetch_add(&board->words[10 + gd_worker_slot(w)], 1);
	atomic_fetch_add(&board->words[20], *(uint64_t *)state);
	free(state);
	return 0;
}

static void test_setup_once_then_tasks_then_cleanup_once(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops),
		.setup = count_setup,
		.process = count_tasks,
		.cleanup = count_cleanup};
	struct recorder *rec = *state;
	rec->tasks = 500;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	for (int slot = 0; slot < 2; slot++) {
		assert_int_equal(board->words[slot], 1);
		assert_int_equal(board->words[10 + slot], 1);
	}
	/* State is kept from task to task: each worker counted its own tasks, together all. */
	assert_int_equal(board->words[20], 500);
}

/* ---- Callbacks ---------------------------------------------------------- */

static void test_ids_follow_the_generator_and_every_field_is_filled(void **state)
{
	struct recorder *rec = *state;
	rec->tasks = 300;
	uint64_t before = clock_now_ns();
	assert_int_equal(recorder_run(rec, &echo), 0);
	uint64_t after = clock_now_ns();
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 300);
	assert_int_equal(rec->count[CALLBACK_START], 300);
	unsigned char started[300] = {0};
	for (size_t i = 0; i < rec->num_notes - 1; i++) {
		const struct run_note *n = &rec->notes[i];
		const struct gd_event *e = &n->event;
		assert_int_equal(n->task, e->id); /* the n-th yielded task has id n */
		assert_int_equal(e->task.size, 8);
		assert_ptr_equal(e->tag, (void *)(uintptr_t)(e->id + 1000));
		assert_in_range(e->slot, 0, 1);
		assert_int_equal(e->gpu, e->slot);
		assert_int_equal(e->attempt, 1);
		assert_int_equal(e->failure, GD_FAILURE_NONE);
		assert_int_equal(e->code, 0);
		assert_int_equal(e->signal, 0);
		assert_string_equal(n->message, "");
		assert_true(e->queued_ns >= before && e->queued_ns <= e->started_ns);
		if (n->kind == CALLBACK_START) {
			assert_int_equal(started[e->id], 0);
			assert_true(e->started_ns <= after);
			assert_true(e->ended_ns == 0);
			started[e->id] = 1;
		} else {
			assert_int_equal(n->kind, CALLBACK_SUCCESS);
			assert_int_equal(started[e->id], 1);
			assert_int_equal(n->result, e->id);
			assert_true(e->started_ns <= e->ended_ns && e->ended_ns <= after);
		}
	}
}

static int fail_some(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	uint64_t n = recorder_number(task);
	if (n % 3 == 1)
		return gd_worker_fail(w, -EIO, "task %d is not to my liking", (int)n);
	if (n % 3 == 2)
		return -ERANGE;
	return recorder_echo(w, state, task);
}

static void test_an_error_carries_what_the_worker_said(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = fail_some};
	struct recorder *rec = *state;
	rec->tasks = 30;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 10);
	assert_int_equal(rec->count[CALLBACK_ERROR], 20);
	for (size_t i = 0; i < 20; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_ERROR, i);
		char words[64];
		snprintf(words, sizeof(words), "task %d is not to my liking", (int)n->event.id);
		assert_int_equal(n->event.failure, GD_FAILURE_ERROR);
		assert_int_equal(n->event.code, n->event.id % 3 == 1 ? -EIO : -ERANGE);
		if (n->event.id % 3 == 1)
			assert_string_equal(n->message, words);
		else
			check_contains(n->message, "process returned -34: Numerical result out of range");
		assert_int_equal(n->event.result.size, 0);
		assert_int_equal(n->task, n->event.id);
	}
	/* Only its task failed: the workers are still the first ones. */
	assert_int_equal(rec->stats.restarts, 0);
}

static int answer_now_and_then(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	return recorder_number(task) % 2 ? 0 : recorder_echo(w, state, task);
}

static void test_a_task_without_a_result_has_an_empty_one(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = answer_now_and_then};
	struct recorder *rec = *state;
	rec->tasks = 100;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 100);
	for (size_t i = 0; i < 100; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_SUCCESS, i);
		assert_int_equal(n->event.result.size, n->event.id % 2 ? 0 : 8);
	}
}

static void test_run_works_without_optional_callbacks(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = fail_some};
	struct recorder *rec = *state;
	rec->calls.on_error = NULL;
	rec->calls.on_task_start = NULL;
	rec->calls.on_progress = NULL;
	rec->calls.on_exit = NULL;
	rec->tasks = 300;
	assert_int_equal(recorder_run(rec, &ops), 0);
	assert_int_equal(rec->num_notes, 100);
	assert_int_equal(rec->stats.failed, 200);
}

/* ---- on_exit and on_progress -------------------------------------------- */

struct gone {
	pid_t pids[8];
	size_t num_pids;
	bool all_gone; /* in on_exit */
};

static int collect_pids(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	struct gone *g = rec->extra;
	(void)event;
	if (note->kind == CALLBACK_SUCCESS || note->kind == CALLBACK_ERROR) {
		pid_t pid = (pid_t)note->result;
		bool known = pid == 0;
		for (size_t i = 0; i < g->num_pids; i++)
			known |= g->pids[i] == pid;
		if (!known && g->num_pids < 8)
			g->pids[g->num_pids++] = pid;
	}
	if (note->kind == CALLBACK_EXIT) {
		g->all_gone = true;
		for (size_t i = 0; i < g->num_pids; i++)
			g->all_gone &= kill(g->pids[i], 0) < 0 && errno == ESRCH;
	}
	return 0;
}

static int answer_pid(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	uint64_t pid = (uint64_t)getpid();
	board_meet(&board->words[0], gd_worker_slot(w), 2);
	return gd_worker_result(w, &pid, sizeof(pid));
}

static void test_on_exit_comes_once_after_the_workers_are_gone(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = answer_pid};
	struct recorder *rec = *state;
	struct gone gone = {0};
	rec->extra = &gone;
	rec->on_note = collect_pids;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(gone.num_pids, 2);
	assert_true(gone.all_gone);
	assert_int_equal(rec->exit_stats.completed, 10);
	assert_true(rec->exit_stats.end_ns >= rec->exit_stats.start_ns);
	assert_memory_equal(&rec->exit_stats, &rec->stats, sizeof(rec->stats));
}

static void test_on_exit_comes_once_even_if_no_worker_or_no_pool_starts(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = recorder_no_setup, .process = recorder_echo};
	struct recorder *rec = *state;
	/* No worker becomes ready. */
	assert_int_equal(recorder_run(rec, &ops), -ENODEV);
	assert_int_equal(rec->count[CALLBACK_EXIT], 1);
	assert_int_equal(rec->count[CALLBACK_SETUP_FAIL], 2);
	assert_string_equal(recorder_note(rec, CALLBACK_SETUP_FAIL, 0)->message, "no model");
	assert_int_equal(recorder_note(rec, CALLBACK_SETUP_FAIL, 0)->event.code, -ENOENT);
	check_contains(rec->err.message, "no worker is left: no model; gd_dispatcher_worker_stats()");
	/* The pool cannot be opened at all. */
	gd_dispatcher_destroy(rec->dispatcher);
	rec->dispatcher = NULL;
	rec->options.gpus = "GPU-nobody";
	assert_int_equal(recorder_run(rec, &ops), -ENODEV);
	assert_int_equal(rec->count[CALLBACK_EXIT], 2);
}

static void test_total_tasks_are_reported_in_the_field_expected(void **state)
{
	struct recorder *rec = *state;
	rec->run.total_tasks = 10;
	assert_int_equal(recorder_run(rec, &echo), 0);
	assert_int_equal(rec->stats.expected, 10);
	assert_int_equal(rec->exit_stats.expected, 10);
	/* At least the final callback is made, with the last figures. */
	assert_true(rec->progress >= 1);
	assert_int_equal(rec->last_progress.expected, 10);
	assert_int_equal(rec->last_progress.completed, 10);
	rec->run.total_tasks = 0;
	rec->given = 0;
	assert_int_equal(recorder_run(rec, &echo), 0);
	assert_int_equal(rec->stats.expected, 0);
}

static int slow_callback(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)rec;
	(void)event;
	if (note->kind == CALLBACK_SUCCESS)
		poll(NULL, 0, 20);
	return 0;
}

static void test_on_progress_is_called_during_the_run(void **state)
{
	struct recorder *rec = *state;
	rec->tasks = 60; /* with 20 ms each: 1.2 s, so about twelve times */
	rec->on_note = slow_callback;
	rec->calls.on_task_start = NULL;
	assert_int_equal(recorder_run(rec, &echo), 0);
	assert_true(rec->progress >= 4);
	assert_true(rec->progress <= 40);
}

/* ---- More than one run -------------------------------------------------- */

static void test_dispatcher_can_run_again_and_again(void **state)
{
	struct recorder *rec = *state;
	for (int run = 0; run < 30; run++) {
		recorder_restart(rec);
		int r = recorder_run(rec, &echo);
		if (r < 0)
			fail_msg("run %d: %s", run, rec->err.message);
		recorder_assert_complete(rec); /* ids from 0 again */
		assert_int_equal(rec->stats.submitted, 10);
	}
}

struct second {
	int result;
	struct gd_error err;
};

static int run_again(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	struct second *s = rec->extra;
	(void)event;
	if (note->kind == CALLBACK_SUCCESS && s->result == 0)
		s->result = gd_dispatcher_run(rec->dispatcher, &rec->run, &rec->calls, &s->err);
	return 0;
}

static void test_two_runs_at_once_are_refused(void **state)
{
	struct recorder *rec = *state;
	struct second second = {0};
	rec->extra = &second;
	rec->on_note = run_again;
	assert_int_equal(recorder_run(rec, &echo), 0);
	recorder_assert_complete(rec);
	assert_int_equal(second.result, -EBUSY);
	check_contains(second.err.message, "already running");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_a_worker_knows_its_gpu_and_sees_no_other),
		recorder_test(test_seed_is_42_plus_the_gpu_by_default),
		recorder_test(test_seed_zero_can_be_asked_for),
		recorder_test(test_settings_reach_every_worker),
		recorder_test(test_setup_once_then_tasks_then_cleanup_once),
		recorder_test(test_ids_follow_the_generator_and_every_field_is_filled),
		recorder_test(test_an_error_carries_what_the_worker_said),
		recorder_test(test_a_task_without_a_result_has_an_empty_one),
		recorder_test(test_run_works_without_optional_callbacks),
		recorder_test(test_on_exit_comes_once_after_the_workers_are_gone),
		recorder_test(test_on_exit_comes_once_even_if_no_worker_or_no_pool_starts),
		recorder_test(test_total_tasks_are_reported_in_the_field_expected),
		recorder_test(test_on_progress_is_called_during_the_run),
		recorder_test(test_dispatcher_can_run_again_and_again),
		recorder_test(test_two_runs_at_once_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
