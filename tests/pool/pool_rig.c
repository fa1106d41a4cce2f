/* SPDX-License-Identifier: MIT */
#include "pool_rig.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/board.h"
#include "support/process.h"
#include "support/sanitizer.h"
#include "support/wait.h"

struct rig_job pool_rig_job(const struct gd_bytes *task)
{
	struct rig_job job;
	memcpy(&job, task->data, sizeof(job));
	return job;
}

int pool_rig_reply(struct gd_worker *w, const struct rig_job *job)
{
	uint64_t answer = pool_rig_answer(job->number);
	return gd_worker_result(w, &answer, sizeof(answer));
}

int pool_rig_just_reply(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	const struct rig_job job = pool_rig_job(task);
	return pool_rig_reply(w, &job);
}

int pool_rig_reply_or_hold(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	atomic_fetch_add(&board->begun, 1);
	if (pool_rig_job(task).what == RIG_JOB_HOLD)
		process_hang();
	return pool_rig_just_reply(w, state, task);
}

int pool_rig_note_setup(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	board_add_pid(getpid());
	atomic_fetch_add(&board->setups, 1);
	return 0;
}

int pool_rig_note_cleanup(struct gd_worker *w, void *state)
{
	(void)w;
	(void)state;
	atomic_fetch_add(&board->cleanups, 1);
	return 0;
}

/* ---- The books ---------------------------------------------------------- */

static void keep(struct kept_event *k, const struct gd_event *event)
{
	k->event = *event;
	snprintf(k->message, sizeof(k->message), "%s", event->message);
	k->event.message = k->message;
}

static void note_end(struct pool_rig *rig, const struct gd_event *event)
{
	check_true(event->id < rig->capacity);
	rig->ends[event->id]++;
	if (event->id < rig->last_id)
		rig->out_of_order = true;
	rig->last_id = event->id;
	rig->by_failure[event->failure]++;
	if (event->failure && event->slot != rig->distrusted)
		rig->failed_elsewhere++;
	if (event->failure == GD_FAILURE_TIMED_OUT && event->slot != rig->distrusted)
		rig->late_elsewhere++;
	if (event->failure)
		keep(&rig->failure, event);
	if (rig->on_end)
		rig->on_end(rig, event);
}

static void note_success(struct pool_rig *rig, const struct gd_event *event)
{
	uint64_t answer = 0;
	check_true(event->failure == GD_FAILURE_NONE);
	note_end(rig, event);
	rig->successes++;
	check_true(event->task.size >= sizeof(struct rig_job));
	if (event->result.size == sizeof(answer))
		memcpy(&answer, event->result.data, sizeof(answer));
	if (event->slot != rig->distrusted && answer != pool_rig_answer(pool_rig_job(&event->task).number))
		rig->wrong++;
}

static int note(void *context, enum callback_kind kind, const struct gd_event *event)
{
	struct pool_rig *rig = context;
	switch (kind) {
	case CALLBACK_SUCCESS:
		note_success(rig, event);
		break;
	case CALLBACK_ERROR:
		note_end(rig, event);
		rig->errors++;
		break;
	case CALLBACK_TIMEOUT:
		check_true(event->failure == GD_FAILURE_TIMED_OUT);
		note_end(rig, event);
		rig->timeouts++;
		break;
	case CALLBACK_CANCELLED:
		check_true(event->failure == GD_FAILURE_CANCELLED);
		note_end(rig, event);
		rig->cancelled++;
		break;
	case CALLBACK_START:
		check_true(event->id < rig->capacity && rig->ends[event->id] == 0);
		rig->starts++;
		break;
	case CALLBACK_MESSAGE:
		rig->messages++;
		break;
	case CALLBACK_SETUP_FAIL:
		rig->setup_failures++;
		keep(&rig->setup_failure, event);
		break;
	case CALLBACK_CLEANUP_FAIL:
		rig->cleanup_failures++;
		keep(&rig->cleanup_failure, event);
		break;
	default:
		check_failed(__FILE__, __LINE__, "an unknown callback");
	}
	return 0;
}

static void note_exit(void *context, const struct gd_stats *stats)
{
	struct pool_rig *rig = context;
	rig->exits++;
	rig->exit_stats = *stats;
}

void pool_rig_check_books(const struct pool_rig *rig)
{
	char words[128];
	for (uint64_t id = 0; id < rig->submitted; id++) {
		if (rig->ends[id] == 1)
			continue;
		snprintf(words, sizeof(words), "task %llu of %llu was called back %d times", (unsigned long long)id,
			(unsigned long long)rig->submitted, rig->ends[id]);
		check_failed(__FILE__, __LINE__, words);
	}
	check_equal(rig->wrong, 0);
	check_equal(rig->successes + rig->errors + rig->timeouts + rig->cancelled, rig->submitted);
}

/* ---- A rig -------------------------------------------------------------- */

struct pool_rig *pool_rig_new(void)
{
	struct pool_rig *rig = calloc(1, sizeof(*rig));
	check_true(rig != NULL);
	rig->distrusted = -1;
	rig->callbacks = (struct callbacks){.context = rig, .on_event = note, .on_exit = note_exit};
	rig->options = (struct gd_options){.size = sizeof(rig->options),
		.gpus = "sim:2",
		.allow_threads = SANITIZER_THREAD,
		.kill_wait_ms = WAIT_MS};
	callbacks_install(&rig->callbacks, &rig->calls);
	return rig;
}

void pool_rig_free(struct pool_rig *rig)
{
	free(rig->ends);
	free(rig);
}

int pool_rig_setup(void **state)
{
	board_renew();
	*state = pool_rig_new();
	return 0;
}

int pool_rig_teardown(void **state)
{
	pool_rig_free(*state);
	return 0;
}

struct pool_rig *pool_rig_again(void **state)
{
	pool_rig_teardown(state);
	pool_rig_setup(state);
	return *state;
}

/* Not array_reserve(): new elements must be zero. */
void pool_rig_reserve(struct pool_rig *rig, size_t num_tasks)
{
	if (num_tasks <= rig->capacity)
		return;
	size_t capacity = rig->capacity ? rig->capacity : 1024;
	while (capacity < num_tasks)
		capacity *= 2;
	unsigned char *ends = realloc(rig->ends, capacity);
	check_true(ends != NULL);
	memset(ends + rig->capacity, 0, capacity - rig->capacity);
	rig->ends = ends;
	rig->capacity = capacity;
}

void pool_rig_open(struct pool_rig *rig, const struct gd_worker_ops *ops)
{
	struct gd_error err = {0};
	rig->options.worker = ops;
	int r = gd_pool_open(&rig->options, &rig->calls, &rig->pool, &err);
	if (r < 0)
		check_failed(__FILE__, __LINE__, err.message);
}

static void poll_some(struct pool_rig *rig)
{
	int r = gd_pool_poll(rig->pool, 20, 0);
	check_true(r >= 0 || r == -ENODEV || r == -ECANCELED);
}

static void submit(struct pool_rig *rig, const void *data, size_t size)
{
	uint64_t id, deadline_ns = wait_deadline_ns();
	int r;
	const struct gd_task_options options = {.size = sizeof(options), .timeout_ms = rig->timeout_ms, .nowait = 1};
	while ((r = gd_pool_submit(rig->pool, data, size, NULL, &options, &id)) == -EAGAIN) {
		wait_check(deadline_ns, "room for a task");
		poll_some(rig);
	}
	check_equal(r, 0);
	check_true(id == rig->submitted);
	rig->submitted++;
}

void pool_rig_submit(struct pool_rig *rig, uint32_t what, uint32_t argument)
{
	pool_rig_reserve(rig, rig->submitted + 1);
	struct rig_job job = {.what = what, .argument = argument, .number = rig->submitted};
	submit(rig, &job, sizeof(job));
}

void pool_rig_fill(void *data, size_t size, const struct rig_job *job)
{
	check_true(size >= sizeof(*job));
	memset(data, (unsigned char)job->number, size);
	memcpy(data, job, sizeof(*job));
}

/* Checks samples: at the ends of pages, and at the end. */
bool pool_rig_intact(const struct gd_bytes *task)
{
	const struct rig_job job = pool_rig_job(task);
	const unsigned char *bytes = task->data;
	for (size_t i = sizeof(job); i < task->size; i += 4093)
		if (bytes[i] != (unsigned char)job.number)
			return false;
	return task->size <= sizeof(job) || bytes[task->size - 1] == (unsigned char)job.number;
}

void pool_rig_submit_sized(struct pool_rig *rig, uint32_t what, size_t size)
{
	pool_rig_reserve(rig, rig->submitted + 1);
	struct rig_job job = {.what = what, .number = rig->submitted};
	void *data = malloc(size);
	check_true(data != NULL);
	pool_rig_fill(data, size, &job);
	submit(rig, data, size);
	free(data);
}

void pool_rig_submit_many(struct pool_rig *rig, size_t count)
{
	for (size_t i = 0; i < count; i++)
		pool_rig_submit(rig, 0, 0);
}

static void await_descriptor(struct pool_rig *rig)
{
	struct pollfd p = {.fd = gd_pool_fd(rig->pool), .events = POLLIN};
	poll(&p, 1, 5);
}

void pool_rig_until(struct pool_rig *rig, bool (*condition)(struct pool_rig *rig), const char *what)
{
	uint64_t deadline_ns = wait_deadline_ns();
	while (!condition(rig)) {
		wait_check(deadline_ns, what);
		/* Without a task gd_pool_poll() does not wait. */
		if (gd_pool_outstanding(rig->pool) == 0)
			await_descriptor(rig);
		poll_some(rig);
	}
}

bool pool_rig_has_started(struct pool_rig *rig)
{
	return rig->starts > 0;
}

bool pool_rig_has_setup_failure(struct pool_rig *rig)
{
	return rig->setup_failures > 0;
}

bool pool_rig_is_empty(struct pool_rig *rig)
{
	return gd_pool_outstanding(rig->pool) == 0;
}

void pool_rig_drain(struct pool_rig *rig)
{
	pool_rig_await(rig, pool_rig_is_empty);
	pool_rig_check_books(rig);
}

int pool_rig_close(struct pool_rig *rig)
{
	struct gd_error err;
	int r = gd_pool_close(rig->pool, &rig->close_stats, sizeof(rig->close_stats), &err);
	rig->pool = NULL;
	check_equal(rig->exits, 1);
	pool_rig_check_books(rig);
	check_equal(rig->close_stats.submitted, rig->submitted);
	check_equal(rig->close_stats.completed, rig->successes);
	check_equal(rig->close_stats.failed, rig->errors);
	check_equal(rig->close_stats.timeouts, rig->timeouts);
	return r;
}

struct gd_worker_stats pool_rig_worker(struct pool_rig *rig, int slot)
{
	struct gd_worker_stats stats;
	check_equal(gd_pool_worker_stats(rig->pool, slot, &stats, sizeof(stats)), 0);
	return stats;
}

pid_t pool_rig_pid(struct pool_rig *rig, int slot, pid_t not_this)
{
	uint64_t deadline_ns = wait_deadline_ns();
	for (;;) {
		struct gd_worker_stats s = pool_rig_worker(rig, slot);
		bool ready = s.state == GD_WORKER_STATE_IDLE || s.state == GD_WORKER_STATE_BUSY;
		if (ready && s.pid > 0 && s.pid != not_this)
			return (pid_t)s.pid;
		wait_check(deadline_ns, "a worker that is ready");
		await_descriptor(rig);
		gd_pool_poll(rig->pool, 0, 0);
	}
}

void pool_rig_replace_worker(struct pool_rig *rig, int slot)
{
	pid_t pid = pool_rig_pid(rig, slot, 0);
	process_kill(pid);
	pool_rig_pid(rig, slot, pid);
}
