/* SPDX-License-Identifier: MIT */
/* Statistics: at any time, from any thread, and at the end. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "recorder.h"
#include "support/board.h"
#include "support/sanitizer.h"

static bool adds_up(const struct gd_stats *s)
{
	return s->submitted == s->queued + s->running + s->completed + s->failed + s->timeouts;
}

/* ---- A thread that queries continuously --------------------------------- */

struct asker {
	bool started;
	pthread_t thread;
	struct gd_dispatcher *dispatcher;
	atomic_bool over;
	unsigned asked;
	unsigned wrong; /* inconsistent or decreasing */
	uint64_t most_running;
	bool bad_worker;
};

static void *ask(void *argument)
{
	struct asker *a = argument;
	struct gd_stats last = {0};
	while (!atomic_load(&a->over)) {
		struct gd_stats s;
		gd_dispatcher_stats(a->dispatcher, &s, sizeof(s));
		a->asked++;
		a->wrong += !adds_up(&s);
		a->wrong += s.completed < last.completed || s.failed < last.failed || s.submitted < last.submitted;
		if (s.running > a->most_running)
			a->most_running = s.running;
		last = s;
		for (int slot = 0; slot < 2 && s.workers; slot++) {
			struct gd_worker_stats w;
			int r = gd_dispatcher_worker_stats(a->dispatcher, slot, &w, sizeof(w));
			a->bad_worker |= r < 0 || w.slot != slot || w.gpu != slot;
		}
		poll(NULL, 0, a->asked % 16 == 0);
	}
	return NULL;
}

static int mixed(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	uint64_t n = recorder_number(task);
	if (n % 100 == 7)
		poll(NULL, 0, 2);
	if (n % 10 == 3)
		return -EIO;
	return recorder_echo(w, state, task);
}

/* Started with the first task: by then the workers are forked, so the thread holds no lock that they need. */
static void start_asking(struct recorder *rec)
{
	struct asker *a = rec->extra;
	if (!a->started)
		a->started = pthread_create(&a->thread, NULL, ask, a) == 0;
}

static void test_statistics_add_up_at_any_time_from_another_thread(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = mixed};
	struct recorder *rec = *state;
	struct asker asker = {0};
	rec->tasks = 20000;
	rec->extra = &asker;
	rec->on_give = start_asking;
	rec->options.worker = &ops;
	rec->calls.on_task_start = NULL;
	assert_int_equal(gd_dispatcher_create(&rec->options, &rec->dispatcher, NULL), 0);
	asker.dispatcher = rec->dispatcher;
	assert_int_equal(recorder_run(rec, &ops), 0);
	atomic_store(&asker.over, true);
	assert_true(asker.started);
	assert_int_equal(pthread_join(asker.thread, NULL), 0);
	recorder_assert_complete(rec);
	assert_true(asker.asked > 10);
	assert_int_equal(asker.wrong, 0);
	assert_true(asker.most_running <= 2);
	assert_false(asker.bad_worker);
}

static void test_statistics_at_the_end_count_every_task(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = mixed};
	struct recorder *rec = *state;
	rec->tasks = 1000;
	uint64_t before = clock_now_ns();
	assert_int_equal(recorder_run(rec, &ops), 0);
	const struct gd_stats *s = &rec->stats;
	assert_int_equal(s->submitted, 1000);
	assert_int_equal(s->completed, 900);
	assert_int_equal(s->failed, 100);
	assert_int_equal(s->timeouts, 0);
	assert_int_equal(s->queued, 0);
	assert_int_equal(s->running, 0);
	assert_int_equal(s->retries, 0);
	assert_int_equal(s->workers, 2);
	assert_int_equal(s->workers_alive, 0);
	assert_int_equal(s->queue_size, 1024);
	assert_true(before <= s->start_ns && s->start_ns < s->end_ns && s->end_ns <= clock_now_ns());
	double seconds = (double)(s->end_ns - s->start_ns) / 1e9;
	assert_true(s->tasks_per_second > 990 / seconds && s->tasks_per_second < 1010 / seconds);
	assert_true(s->duration_p50_ns <= s->duration_p90_ns);
	assert_true(s->duration_p90_ns <= s->duration_p99_ns);
	assert_true(s->duration_p99_ns <= s->duration_max_ns);
	assert_true(s->duration_max_ns >= 2000000);

	struct gd_stats later;
	gd_dispatcher_stats(rec->dispatcher, &later, sizeof(later));
	assert_memory_equal(&later, s, sizeof(later));
	struct gd_worker_stats w;
	uint64_t completed = 0, failed = 0, busy = 0;
	for (int slot = 0; slot < 2; slot++) {
		assert_int_equal(gd_dispatcher_worker_stats(rec->dispatcher, slot, &w, sizeof(w)), 0);
		assert_int_equal(w.state, GD_WORKER_STATE_FINISHED);
		assert_int_equal(w.pid, 0);
		assert_false(w.has_task);
		assert_int_equal(w.restarts, 0);
		assert_int_equal(w.queued, 0);
		completed += w.completed;
		failed += w.failed;
		busy += w.busy_ns;
	}
	assert_int_equal(completed, 900);
	assert_int_equal(failed, 100);
	assert_true(busy >= 10 * 2000000);
	assert_int_equal(gd_dispatcher_worker_stats(rec->dispatcher, 2, &w, sizeof(w)), -ENOENT);
	assert_int_equal(gd_dispatcher_worker_stats(rec->dispatcher, -1, &w, sizeof(w)), -ENOENT);
}

/* ---- In the middle, where everything is known --------------------------- */

struct middle {
	struct gd_stats stats;
	struct gd_worker_stats workers[2];
	bool alive[2];
};

static int hold(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (recorder_number(task) < 2)
		board_pass_gate(0);
	return recorder_echo(w, state, task);
}

static int look_at_second_start(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	struct middle *m = rec->extra;
	(void)event;
	if (note->kind != CALLBACK_START || rec->count[CALLBACK_START] != 2)
		return 0;
	/* Both workers hold a task now. The generator continues until the queue is full. */
	do {
		gd_dispatcher_stats(rec->dispatcher, &m->stats, sizeof(m->stats));
	} while (m->stats.submitted < 7);
	for (int slot = 0; slot < 2; slot++) {
		gd_dispatcher_worker_stats(rec->dispatcher, slot, &m->workers[slot], sizeof(m->workers[slot]));
		/* The worker's PID is sent in another way than its answers and may arrive later. */
		m->alive[slot] = m->workers[slot].pid == 0 || kill((pid_t)m->workers[slot].pid, 0) == 0;
	}
	board_open_gate(0);
	board_open_gate(0);
	return 0;
}

static void test_statistics_during_a_run_show_which_worker_has_which_task(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = hold};
	struct recorder *rec = *state;
	struct middle m = {0};
	rec->options.queue_size = 5;
	rec->run.total_tasks = 10;
	rec->extra = &m;
	rec->on_note = look_at_second_start;
	assert_int_equal(recorder_run(rec, &ops), 0);
	recorder_assert_complete(rec);
	assert_int_equal(m.stats.expected, 10);
	assert_int_equal(m.stats.submitted, 7);
	assert_int_equal(m.stats.running, 2);
	assert_int_equal(m.stats.queued, 5);
	assert_int_equal(m.stats.queue_size, 5);
	assert_int_equal(m.stats.workers_alive, 2);
	assert_true(m.stats.end_ns == 0);
	assert_true(adds_up(&m.stats));
	for (int slot = 0; slot < 2; slot++) {
		const struct gd_worker_stats *w = &m.workers[slot];
		assert_int_equal(w->state, GD_WORKER_STATE_BUSY);
		assert_true(w->has_task);
		assert_true(w->task_id < 2);
		assert_true(w->since_ns >= m.stats.start_ns);
		assert_true(m.alive[slot]);
	}
	assert_int_not_equal(m.workers[0].task_id, m.workers[1].task_id);
}

static int slow_callbacks(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)event;
	struct gd_stats s;
	gd_dispatcher_stats(rec->dispatcher, &s, sizeof(s));
	/* Tasks count as ended once called back; this one is being called back. */
	if (note->kind == CALLBACK_SUCCESS && (s.completed != rec->count[CALLBACK_SUCCESS] || !adds_up(&s)))
		rec->extra = rec;
	return 0;
}

static void test_a_callback_sees_itself_counted(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};
	struct recorder *rec = *state;
	rec->tasks = 500;
	rec->on_note = slow_callbacks;
	assert_int_equal(recorder_run(rec, &ops), 0);
	assert_null(rec->extra);
}

static void test_statistics_are_zero_before_the_first_run(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};
	struct recorder *rec = *state;
	rec->options.worker = &ops;
	assert_int_equal(gd_dispatcher_create(&rec->options, &rec->dispatcher, NULL), 0);
	struct gd_stats s;
	struct gd_worker_stats w;
	memset(&s, 0xff, sizeof(s));
	gd_dispatcher_stats(rec->dispatcher, &s, sizeof(s));
	assert_int_equal(s.submitted, 0);
	assert_int_equal(s.workers, 0);
	assert_int_equal(gd_dispatcher_worker_stats(rec->dispatcher, 0, &w, sizeof(w)), -ENOENT);
}

/* ---- Times -------------------------------------------------------------- */

struct disorder {
	uint64_t early_start;
	uint64_t early_end;
};

static int check_times(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	struct disorder *d = rec->extra;
	rec->num_notes = 0; /* not needed */
	if (note->kind == CALLBACK_SUCCESS) {
		d->early_start += event->started_ns < event->queued_ns;
		d->early_end += event->ended_ns < event->started_ns;
	}
	return 0;
}

static void test_times_of_events_are_in_order_for_very_short_tasks(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = recorder_echo};
	struct recorder *rec = *state;
	struct disorder d = {0};
	rec->tasks = SANITIZER_ADDRESS ? 30000 : 300000;
	rec->calls.on_task_start = NULL;
	rec->extra = &d;
	rec->on_note = check_times;
	for (int is_inline = 0; is_inline < 2; is_inline++) {
		rec->given = 0;
		rec->run.inline_generator = is_inline;
		assert_int_equal(recorder_run(rec, &ops), 0);
		assert_int_equal(d.early_start, 0);
		assert_int_equal(d.early_end, 0);
	}
}

static void test_failures_and_worker_states_have_names(void **state)
{
	(void)state;
	assert_string_equal(gd_failure_name(GD_FAILURE_OUT_OF_MEMORY), "out of memory");
	assert_string_equal(gd_failure_name(GD_FAILURE_NOT_CARRIED), "not transferred");
	assert_string_equal(gd_failure_name((enum gd_failure)99), "unknown");
	assert_string_equal(gd_worker_state_name(GD_WORKER_STATE_STARTING), "starting");
	assert_string_equal(gd_worker_state_name(GD_WORKER_STATE_LOST), "lost");
	assert_string_equal(gd_worker_state_name((enum gd_worker_state)99), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_statistics_add_up_at_any_time_from_another_thread),
		recorder_test(test_statistics_at_the_end_count_every_task),
		recorder_test(test_statistics_during_a_run_show_which_worker_has_which_task),
		recorder_test(test_a_callback_sees_itself_counted),
		recorder_test(test_statistics_are_zero_before_the_first_run),
		recorder_test(test_times_of_events_are_in_order_for_very_short_tasks),
		cmocka_unit_test(test_failures_and_worker_states_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
