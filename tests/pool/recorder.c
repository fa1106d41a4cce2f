/* SPDX-License-Identifier: MIT */
#include "recorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "support/board.h"
#include "support/sanitizer.h"
#include "support/scratch.h"
#include "support/wait.h"

static char dir[SCRATCH_PATH_SIZE];

/* ---- Callbacks ---------------------------------------------------------- */

uint64_t recorder_number(const struct gd_bytes *bytes)
{
	uint64_t n = 0;
	memcpy(&n, bytes->data ? bytes->data : "", bytes->size < sizeof(n) ? bytes->size : sizeof(n));
	return n;
}

static int note(void *context, enum callback_kind kind, const struct gd_event *event)
{
	struct recorder *rec = context;
	if (array_reserve(rec->notes, &rec->capacity, rec->num_notes + 1) < 0)
		abort();
	struct run_note *n = &rec->notes[rec->num_notes++];
	*n = (struct run_note){.kind = kind, .event = *event};
	n->task = recorder_number(&event->task);
	n->result = recorder_number(&event->result);
	snprintf(n->message, sizeof(n->message), "%s", event->message ? event->message : "(null)");
	n->event.task.data = n->event.result.data = NULL;
	n->event.message = NULL;
	rec->count[kind]++;
	if (!rec->on_note)
		return 0;
	struct run_note copy = *n; /* the array moves if on_note causes more notes */
	return rec->on_note(rec, &copy, event);
}

static void note_exit(void *context, const struct gd_stats *stats)
{
	struct recorder *rec = context;
	rec->exit_stats = *stats;
	note(rec, CALLBACK_EXIT, &(struct gd_event){.message = ""});
}

static void on_progress(void *context, const struct gd_stats *stats)
{
	const struct callbacks *c = context;
	struct recorder *rec = c->context;
	rec->progress++;
	rec->last_progress = *stats;
}

static int give(void *context, struct gd_feed *feed)
{
	struct recorder *rec = context;
	if (rec->given == rec->tasks)
		return 0;
	if (rec->on_give)
		rec->on_give(rec);
	uint64_t n = rec->given++;
	int r = gd_feed_emit(feed, &n, sizeof(n), (void *)(uintptr_t)(n + 1000), NULL);
	return r < 0 ? r : 1;
}

/* ---- A run or a pool ---------------------------------------------------- */

int recorder_setup(void **state)
{
	/* The tests must not depend on the GPUs or settings of the machine. */
	unsetenv("GPUQ_GPUS");
	unsetenv("CUDA_VISIBLE_DEVICES");
	struct recorder *rec = calloc(1, sizeof(*rec));
	if (!rec)
		return -1;
	board_renew();
	rec->tasks = 10;
	rec->pace = 1;
	rec->callbacks = (struct callbacks){.context = rec, .on_event = note, .on_exit = note_exit};
	rec->options = (struct gd_options){.size = sizeof(rec->options),
		.gpus = "sim:2",
		.allow_threads = SANITIZER_THREAD,
		.kill_wait_ms = WAIT_MS};
	callbacks_install(&rec->callbacks, &rec->calls);
	rec->calls.on_progress = on_progress;
	rec->run = (struct gd_run){.size = sizeof(rec->run), .generator = give, .generator_context = rec};
	*state = rec;
	return 0;
}

int recorder_teardown(void **state)
{
	struct recorder *rec = *state;
	gd_dispatcher_destroy(rec->dispatcher);
	free(rec->notes);
	free(rec);
	if (!dir[0])
		return 0;
	int r = scratch_remove(dir);
	dir[0] = '\0';
	return r;
}

const char *recorder_dir(void)
{
	if (!dir[0])
		assert_int_equal(scratch_make(dir), 0);
	return dir;
}

int recorder_run(struct recorder *rec, const struct gd_worker_ops *ops)
{
	rec->options.worker = ops;
	if (!rec->dispatcher) {
		int r = gd_dispatcher_create(&rec->options, &rec->dispatcher, &rec->err);
		if (r < 0)
			return r;
	}
	int r = gd_dispatcher_run(rec->dispatcher, &rec->run, &rec->calls, &rec->err);
	gd_dispatcher_stats(rec->dispatcher, &rec->stats, sizeof(rec->stats));
	return r;
}

static void set_pace(struct recorder *rec, const struct gd_options *options, int pace)
{
	if (!rec->paced || pace == rec->pace)
		return;
	gd_dispatcher_destroy(rec->dispatcher);
	rec->dispatcher = NULL;
	rec->pace = pace;
	rec->options.task_timeout_ms = options->task_timeout_ms * pace;
	rec->options.setup_timeout_ms = options->setup_timeout_ms * pace;
}

void recorder_run_until(struct recorder *rec, const struct gd_worker_ops *ops,
	bool (*undisturbed)(const struct recorder *rec, int result))
{
	const struct gd_options options = rec->options;
	for (int i = 0; i < RECORDER_TRIES; i++) {
		recorder_restart(rec);
		board_renew();
		set_pace(rec, &options, 1 << i / 4);
		int r = recorder_run(rec, ops);
		recorder_assert_complete(rec);
		if (undisturbed(rec, r))
			return;
	}
	fail_msg("all %d runs were disturbed", RECORDER_TRIES);
}

bool recorder_all_succeeded(const struct recorder *rec, int result)
{
	return result == 0 && rec->count[CALLBACK_SUCCESS] == rec->tasks;
}

struct gd_pool *recorder_open(struct recorder *rec, const struct gd_worker_ops *ops)
{
	struct gd_pool *pool = NULL;
	rec->options.worker = ops;
	if (gd_pool_open(&rec->options, &rec->calls, &pool, &rec->err) < 0)
		fail_msg("gd_pool_open: %s", rec->err.message);
	return pool;
}

void recorder_drain(struct gd_pool *pool)
{
	while (gd_pool_outstanding(pool) > 0)
		assert_true(gd_pool_poll(pool, WAIT_MS, 0) > 0);
}

void recorder_restart(struct recorder *rec)
{
	rec->given = rec->num_notes = 0;
	memset(rec->count, 0, sizeof(rec->count));
}

const struct run_note *recorder_note(const struct recorder *rec, enum callback_kind kind, size_t i)
{
	for (size_t k = 0; k < rec->num_notes; k++)
		if (rec->notes[k].kind == kind && i-- == 0)
			return &rec->notes[k];
	return NULL;
}

void recorder_assert_complete(const struct recorder *rec)
{
	unsigned char *ends = calloc(rec->given + 1, 1);
	assert_non_null(ends);
	for (size_t i = 0; i < rec->num_notes; i++) {
		const struct run_note *n = &rec->notes[i];
		if (n->kind > CALLBACK_CANCELLED)
			continue;
		assert_true(n->event.id < rec->given);
		ends[n->event.id]++;
	}
	for (uint64_t id = 0; id < rec->stats.submitted; id++)
		if (ends[id] != 1)
			fail_msg("task %llu ended %d times", (unsigned long long)id, ends[id]);
	free(ends);
	assert_int_equal(rec->count[CALLBACK_EXIT], 1);
	assert_int_equal(rec->notes[rec->num_notes - 1].kind, CALLBACK_EXIT);
}

int recorder_echo(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	return gd_worker_result(w, task->data, task->size);
}

int recorder_no_setup(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	return gd_worker_fail(w, -ENOENT, "no model");
}
