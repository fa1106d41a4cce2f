/* SPDX-License-Identifier: MIT */
/* A thousand workers killed at random moments, one after another, while very many tasks are processed. */
#include "pool_rig.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/sanitizer.h"

/* The request in a task: an ordinary answer, or a worker that is busy until it is killed. */
enum { ANSWERS, LASTS };

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	while (job.what == LASTS)
		pause();
	return pool_rig_intact(task) ? pool_rig_reply(w, &job) : gd_worker_fail(w, -EBADMSG, "not what was submitted");
}

static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops),
	.setup = pool_rig_note_setup,
	.process = process,
	.cleanup = pool_rig_note_cleanup};

#define KILLS        (SANITIZER_THREAD ? 50 : SANITIZER_ADDRESS ? 250 : 1000) /* with sanitizers, processes start slowly */
#define TASKS        (KILLS * 100)
#define PER_KILL     (TASKS / KILLS)
#define KILLS_BEHIND 5
#define KILL_SEED    20240229u
#define SLOTS        4
#define IN_VAIN      5 /* a worker that dies ten times without having begun a task is correctly given up */

struct killer {
	struct gd_pool *pool;
	pthread_mutex_t lock;
	pthread_cond_t progress;
	size_t done; /* tasks */
	bool over;
	atomic_int kills;
	struct {
		int64_t pid; /* the last one killed */
		uint64_t ends;
		int in_vain; /* kills since a task has ended there */
	} slots[SLOTS];
};

/* A ready worker of any slot, each once: one that is repeatedly killed in setup would be given up, too. */
static bool kill_one(struct killer *k, unsigned *seed)
{
	int first = rand_r(seed) % SLOTS;
	for (int i = 0; i < SLOTS; i++) {
		int slot = (first + i) % SLOTS;
		struct gd_worker_stats s;
		if (gd_pool_worker_stats(k->pool, slot, &s, sizeof(s)) < 0 || s.pid == 0 || s.pid == k->slots[slot].pid)
			continue;
		if (s.state != GD_WORKER_STATE_IDLE && s.state != GD_WORKER_STATE_BUSY)
			continue;
		uint64_t ends = s.completed + s.failed;
		k->slots[slot].in_vain = ends == k->slots[slot].ends ? k->slots[slot].in_vain + 1 : 0;
		if (k->slots[slot].in_vain > IN_VAIN)
			continue;
		k->slots[slot].ends = ends;
		k->slots[slot].pid = s.pid;
		return kill((pid_t)s.pid, SIGKILL) == 0;
	}
	return false;
}

/* Kills at a random time after every hundredth task: idle, in a task, or between two. */
static void *kill_at_random(void *argument)
{
	struct killer *k = argument;
	unsigned seed = KILL_SEED;
	bool over = false;
	while (k->kills < KILLS && !over) {
		pthread_mutex_lock(&k->lock);
		while (!k->over && k->done < (size_t)k->kills * PER_KILL)
			pthread_cond_wait(&k->progress, &k->lock);
		over = k->over;
		pthread_mutex_unlock(&k->lock);
		for (uint64_t until = clock_now_ns() + (uint64_t)(rand_r(&seed) % 300) * 1000; clock_now_ns() < until;)
			;
		if (kill_one(k, &seed))
			k->kills++;
	}
	return NULL;
}

static void tell_killer(struct killer *k, const struct pool_rig *rig, bool over)
{
	pthread_mutex_lock(&k->lock);
	k->done = rig->successes + rig->errors;
	k->over = over;
	pthread_cond_signal(&k->progress);
	pthread_mutex_unlock(&k->lock);
}

/* Workers are faster than the killer: lets the killer catch up for a while. */
static void wait_for_killer(struct killer *k, struct pool_rig *rig, int i)
{
	tell_killer(k, rig, false);
	for (int n = 0; n < 20 && atomic_load(&k->kills) < i / PER_KILL - KILLS_BEHIND; n++) {
		gd_pool_poll(rig->pool, 1, 0);
		tell_killer(k, rig, false);
	}
}

/* Mostly small tasks; some larger ones, a few that are sent separately. */
static void submit_any(struct pool_rig *rig, unsigned i)
{
	if (i % 1000 == 999)
		pool_rig_submit_sized(rig, 0, 3 << 20);
	else if (i % 32 == 31)
		pool_rig_submit_sized(rig, 0, 20000);
	else
		pool_rig_submit(rig, 0, 0);
}

/*
 * Submits tasks while workers are killed. With sanitizers tasks are comparatively so short that every kill may hit an
 * idle worker, so the caller can submit a special first task.
 */
static void run_kills(struct pool_rig *rig, uint32_t first)
{
	struct killer k = {.lock = PTHREAD_MUTEX_INITIALIZER, .progress = PTHREAD_COND_INITIALIZER};
	pthread_t thread;
	rig->options.gpus = "sim:4";
	pool_rig_open(rig, &ops);
	k.pool = rig->pool;
	assert_int_equal(pthread_create(&thread, NULL, kill_at_random, &k), 0);
	pool_rig_submit(rig, first, 0);
	for (int i = 1; i < TASKS || (atomic_load(&k.kills) < KILLS && i < 5 * TASKS); i++) {
		submit_any(rig, (unsigned)i);
		if (i % 16 == 0)
			wait_for_killer(&k, rig, i);
	}
	pool_rig_drain(rig);
	tell_killer(&k, rig, true);
	pthread_join(thread, NULL);
	assert_int_equal(k.kills, KILLS);
	if (rig->setup_failures > 0)
		fail_msg("a slot was given up: %s", rig->setup_failure.message);
	assert_int_equal(pool_rig_close(rig), 0);
}

static void test_thousand_kills_over_100000_tasks_each_has_one_end(void **state)
{
	struct pool_rig *rig = *state;
	rig->calls.on_task_start = NULL;
	run_kills(rig, LASTS);
	assert_true(rig->submitted >= TASKS);
	assert_int_equal(rig->successes + rig->by_failure[GD_FAILURE_CRASHED], rig->submitted);
	/* A kill costs the one task that was begun, if any. */
	assert_in_range(rig->errors, 1, KILLS);
	assert_in_range(rig->close_stats.restarts, KILLS - SLOTS, KILLS);
}

static void test_thousand_kills_with_retries_lose_nothing(void **state)
{
	struct pool_rig *rig = *state;
	rig->options.retries = 50;
	rig->options.ordered = true;
	run_kills(rig, ANSWERS);
	assert_int_equal(rig->successes, rig->submitted);
	assert_false(rig->out_of_order);
	assert_int_equal(rig->starts, rig->submitted + rig->close_stats.retries);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_thousand_kills_over_100000_tasks_each_has_one_end),
		pool_rig_test(test_thousand_kills_with_retries_lose_nothing),
	};
	return cmocka_run_group_tests_name("pool kills", tests, NULL, NULL);
}
