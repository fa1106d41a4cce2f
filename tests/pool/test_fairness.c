/* SPDX-License-Identifier: MIT */
/* No task waits for unrelated ones: retried tasks, idle workers. */
#include "pool_rig.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "pool/pool_private.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

#define BIG ((size_t)5 << 20) /* sent as a separate memfd */

enum { ANSWER, LONG, FAIL_FIRST };

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	if (job.what == LONG) {
		atomic_store(&board->begun, 1);
		board_await(&board->go, 1);
	}
	if (job.what == FAIL_FIRST)
		atomic_store(&board->notes[gd_worker_attempt(w, 0)], gd_worker_slot(w) + 1);
	if (job.what == FAIL_FIRST && gd_worker_attempt(w, 0) == 1) {
		poll(NULL, 0, 10); /* long enough that nothing is prefetched */
		return gd_worker_fail(w, -EIO, "the first time");
	}
	return pool_rig_reply(w, &job);
}

/* ---- Retries ------------------------------------------------------------ */

static bool five_done(struct pool_rig *rig)
{
	return rig->successes >= 5;
}

static void test_a_retry_that_waits_for_a_busy_worker_delays_no_other_task(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = process};
	struct pool_rig *rig = *state;
	rig->options.retries = 1;
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 0, 0);
	pool_rig_pid(rig, 1, 0);
	pool_rig_submit(rig, LONG, 0);
	board_await(&board->begun, 1);
	pool_rig_submit(rig, FAIL_FIRST, 0);
	pool_rig_submit_many(rig, 5);
	pool_rig_await(rig, five_done);
	assert_int_equal(rig->ends[0], 0); /* the long one */
	assert_int_equal(rig->ends[1], 0); /* waits for its worker */
	atomic_store(&board->go, 1);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 7);
	assert_int_not_equal(atomic_load(&board->notes[1]), atomic_load(&board->notes[2]));
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.retries, 1);
}

static int second_is_never_ready(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	if (gd_worker_slot(w) == 1)
		process_hang();
	return 0;
}

static void test_a_retry_does_not_wait_for_an_endless_setup(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(struct gd_worker_ops), .setup = second_is_never_ready, .process = process};
	struct pool_rig *rig = *state;
	rig->options.retries = 1;
	pool_rig_open(rig, &ops);
	for (int i = 0; i < 3; i++)
		pool_rig_submit(rig, FAIL_FIRST, 0);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 3);
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.retries, 3);
}

/* ---- Nothing to do ------------------------------------------------------ */

static int second_waits(struct gd_worker *w, void **ret_state)
{
	*ret_state = NULL;
	if (gd_worker_slot(w) == 1)
		board_await(&board->go, 1);
	return 0;
}

static int work_on_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	(void)state;
	atomic_store(&board->begun, (int)num_tasks);
	board_await(&board->go, 2);
	for (size_t i = 0; i < num_tasks; i++) {
		uint64_t answer = pool_rig_answer(pool_rig_job(&tasks[i]).number);
		if (gd_worker_batch_result(w, i, &answer, sizeof(answer)) < 0)
			return -EIO;
	}
	return 0;
}

static long voluntary_switches(void)
{
	struct rusage usage;
	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_nvcsw;
}

static void test_an_idle_worker_beside_a_busy_batch_causes_no_wake_ups(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops),
		.setup = second_waits,
		.process_batch = work_on_batch,
		.max_batch = 8};
	struct pool_rig *rig = *state;
	pool_rig_open(rig, &ops);
	pid_t busy = pool_rig_pid(rig, 0, 0);
	/* The stopped worker finds all five at once when it continues. */
	assert_int_equal(kill(busy, SIGSTOP), 0);
	pool_rig_submit_many(rig, 5);
	assert_int_equal(kill(busy, SIGCONT), 0);
	board_await(&board->begun, 5);
	atomic_store(&board->go, 1);
	pool_rig_pid(rig, 1, 0);
	while (gd_pool_poll(rig->pool, 0, 0) > 0)
		; /* their starts, and other due callbacks */

	long before = voluntary_switches();
	assert_int_equal(gd_pool_poll(rig->pool, 200, 0), 0);
	/* Waking once a millisecond would be 200 switches. */
	assert_in_range(voluntary_switches() - before, 0, 30);
	atomic_store(&board->go, 2);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
}

/* ---- Submitted while the poller sleeps ---------------------------------- */

static atomic_int sends_to_fail;

/* The library's sendmsg() too: as if the kernel had no memory for a message. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (message->msg_controllen > 0 && atomic_load(&sends_to_fail) > 0) {
		atomic_fetch_sub(&sends_to_fail, 1);
		errno = ENOBUFS;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

struct submission {
	struct pool_rig *rig;
	uint64_t number;
	pid_t poller; /* to wait for; 0: none */
};

static void submit(struct submission *s, uint32_t what, size_t size)
{
	static char data[BIG];
	struct rig_job job = {.what = what, .number = s->number++};
	memcpy(data, &job, sizeof(job));
	check_equal(gd_pool_submit(s->rig->pool, data, size, NULL, NULL, NULL), 0);
}

/* Two workers whose tasks have been short, so that they get more than one at a time. */
static struct submission open_warm(struct pool_rig *rig, size_t num_tasks)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = process};
	rig->calls.on_task_start = NULL;
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 0, 0);
	pool_rig_pid(rig, 1, 0);
	pool_rig_submit_many(rig, 500);
	pool_rig_drain(rig);
	while (gd_pool_poll(rig->pool, 0, 0) > 0)
		;
	pool_rig_reserve(rig, rig->submitted + num_tasks);
	struct submission s = {.rig = rig, .number = rig->submitted};
	rig->submitted += num_tasks;
	return s;
}

static void *submit_long_and_short(void *argument)
{
	struct submission *s = argument;
	if (s->poller)
		process_await_asleep(s->poller);
	submit(s, LONG, sizeof(struct rig_job));
	submit(s, ANSWER, sizeof(struct rig_job));
	return NULL;
}

/* The short task was given to the worker of the long one, because the other was idle. */
static void check_short_one_is_done(struct pool_rig *rig)
{
	assert_int_equal(rig->successes, 501);
	assert_int_equal(gd_pool_outstanding(rig->pool), 1);
	atomic_store(&board->go, 1);
	pool_rig_drain(rig);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_a_task_behind_a_long_one_goes_to_an_idle_worker_while_the_poller_sleeps(void **state)
{
	struct pool_rig *rig = *state;
	struct submission s = open_warm(rig, 2);
	s.poller = getpid();
	struct gd_draft *draft; /* with nothing outstanding gd_pool_poll() would not sleep */
	void *data;
	assert_int_equal(gd_pool_reserve(rig->pool, BIG, NOWAIT, &draft, &data), 0);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, submit_long_and_short, &s), 0);
	assert_int_equal(gd_pool_poll(rig->pool, WAIT_MS, 0), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	gd_draft_abandon(draft);
	check_short_one_is_done(rig);
}

static void test_a_task_behind_a_long_one_goes_to_an_idle_worker_in_another_loop(void **state)
{
	struct pool_rig *rig = *state;
	struct submission s = open_warm(rig, 2);
	submit_long_and_short(&s);
	struct pollfd readable = {.fd = gd_pool_fd(rig->pool), .events = POLLIN};
	for (uint64_t deadline = wait_deadline_ns(); rig->successes < 501; wait_check(deadline, "the short task"))
		if (poll(&readable, 1, WAIT_MS) > 0)
			gd_pool_poll(rig->pool, 0, 0);
	check_short_one_is_done(rig);
}

static void *submit_big(void *argument)
{
	struct submission *s = argument;
	process_await_asleep(s->poller);
	submit(s, ANSWER, BIG);
	return NULL;
}

static void test_a_task_that_could_not_be_sent_is_sent_again_while_the_poller_sleeps(void **state)
{
	struct pool_rig *rig = *state;
	struct submission s = open_warm(rig, 2);
	s.poller = getpid();
	/* With nothing outstanding gd_pool_poll() would not sleep. */
	submit(&s, LONG, sizeof(struct rig_job));
	board_await(&board->begun, 1);
	atomic_store(&sends_to_fail, 1);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, submit_big, &s), 0);
	assert_int_equal(gd_pool_poll(rig->pool, WAIT_MS, 0), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&sends_to_fail), 0);
	check_short_one_is_done(rig);
}

/* ---- The timer ---------------------------------------------------------- */

static bool retry_waits(struct pool_rig *rig)
{
	pthread_mutex_lock(&rig->pool->lock);
	bool waits = !backlog_is_empty(&rig->pool->again);
	pthread_mutex_unlock(&rig->pool->lock);
	return waits;
}

/* The remaining time of the poller's timer after a turn; 0: it has expired or is not set. */
static uint64_t timer_after_turn(struct pool_rig *rig)
{
	struct itimerspec left;
	assert_int_equal(gd_pool_poll(rig->pool, 0, 0), 0);
	assert_int_equal(timerfd_gettime(rig->pool->timer_fd, &left), 0);
	return (uint64_t)left.it_value.tv_sec * NS_PER_S + (uint64_t)left.it_value.tv_nsec;
}

/* The timer of a waiting retry is set far ahead; a task that cannot be handed out now is retried soon. */
static void test_a_timer_that_is_set_for_long_is_shortened(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = process};
	struct pool_rig *rig = *state;
	rig->options.retries = 1;
	pool_rig_open(rig, &ops);
	pool_rig_pid(rig, 0, 0);
	pool_rig_pid(rig, 1, 0);
	pool_rig_submit(rig, LONG, 0);
	board_await(&board->begun, 1);
	pool_rig_submit(rig, FAIL_FIRST, 0);
	pool_rig_await(rig, retry_waits);
	while (timer_after_turn(rig) < 10 * NS_PER_MS)
		;
	pthread_mutex_lock(&rig->pool->lock);
	rig->pool->stalled = true;
	pthread_mutex_unlock(&rig->pool->lock);
	assert_true(timer_after_turn(rig) <= NS_PER_MS);
	atomic_store(&board->go, 1);
	pool_rig_drain(rig);
	assert_int_equal(rig->successes, 2);
	assert_int_equal(pool_rig_close(rig), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_a_retry_that_waits_for_a_busy_worker_delays_no_other_task),
		pool_rig_test(test_a_retry_does_not_wait_for_an_endless_setup),
		pool_rig_test(test_an_idle_worker_beside_a_busy_batch_causes_no_wake_ups),
		pool_rig_test(test_a_task_behind_a_long_one_goes_to_an_idle_worker_while_the_poller_sleeps),
		pool_rig_test(test_a_task_behind_a_long_one_goes_to_an_idle_worker_in_another_loop),
		pool_rig_test(test_a_timer_that_is_set_for_long_is_shortened),
		pool_rig_test(test_a_task_that_could_not_be_sent_is_sent_again_while_the_poller_sleeps),
	};
	return cmocka_run_group_tests_name("pool fairness", tests, NULL, NULL);
}
