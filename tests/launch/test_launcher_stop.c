/* SPDX-License-Identifier: MIT */
/* A launcher that is stopped: once, twice, before it runs. */
#include "launch_rig.h"

#include <errno.h>
#include <stdatomic.h>

#include "support/board.h"
#include "support/scratch.h"

/* A run in which the callback stops the launcher, which is its context. */
static struct gd_launch_summary run_until_stopped(
	struct gd_launcher **l, void (*on_progress)(void *context, const struct gd_launch_progress *p))
{
	struct gd_launch_options o = launch_rig_options();
	o.on_progress = on_progress;
	o.context = l;
	struct gd_error err = {0};
	assert_int_equal(gd_launcher_create(&o, l, &err), 0);
	assert_int_equal(gd_launcher_run(*l, &err), -ECANCELED);
	struct gd_launch_summary s;
	gd_launcher_summary(*l, &s, sizeof(s));
	return s;
}

static void on_progress_stop(void *context, const struct gd_launch_progress *p)
{
	struct gd_launcher **l = context;
	int busy = 0;
	for (size_t i = 0; i < p->num_workers; i++)
		busy += p->workers[i]->file != NULL;
	if (busy == 2 && !p->ending)
		gd_launcher_stop(*l);
	assert_false(p->cancelling);
	if (p->ending)
		atomic_store(&board->go, 1);
}

static void test_first_stop_finishes_what_runs(void **state)
{
	(void)state;
	launch_rig_put('a', 'h', "w", 1);
	struct gd_launcher *l = NULL;
	struct gd_launch_summary s = run_until_stopped(&l, on_progress_stop);
	assert_true(s.files_done >= 2 && s.files_left > 0 && s.files_failed == 0);
	int done = (int)s.files_done;
	assert_int_equal(gd_launcher_run(l, NULL), -EALREADY);
	gd_launcher_destroy(l);
	/* The next run continues there. */
	struct gd_launch_options again = launch_rig_options();
	launch_rig_run(&again, 0, (struct launch_counts){.done = 8 - done, .skipped = done});
	for (char c = 'a'; c <= 'h'; c++)
		assert_int_equal(launch_rig_begun(c), 1);
}

static void on_progress_stop_twice(void *context, const struct gd_launch_progress *p)
{
	struct gd_launcher **l = context;
	assert_int_equal(p->cancelling, p->ending); /* both stops come at once */
	for (size_t i = 0; i < p->num_workers; i++)
		if (p->workers[i]->file && !p->ending) {
			gd_launcher_stop(*l);
			gd_launcher_stop(*l);
			return;
		}
}

static void test_second_stop_cancels_what_runs(void **state)
{
	(void)state;
	scratch_put("in/ah.wav", 1);
	scratch_put("in/bw.wav", 1);
	struct gd_launcher *l = NULL;
	struct gd_launch_summary s = run_until_stopped(&l, on_progress_stop_twice);
	assert_int_equal(s.files_failed, 0);
	assert_true(s.files_left >= 1);
	gd_launcher_destroy(l);
}

/* Too many failures end the run; the user's first stop then finds nothing more to stop. */
static void on_progress_stop_after_failures(void *context, const struct gd_launch_progress *p)
{
	static int stopped;
	struct gd_launcher **l = context;
	assert_false(p->cancelling);
	if (p->ending && stopped++ == 0)
		gd_launcher_stop(*l);
	if (stopped > 1)
		atomic_store(&board->go, 1);
}

static void test_first_stop_after_too_many_failures_finishes_what_runs(void **state)
{
	(void)state;
	scratch_put("in/aw.wav", 100);
	scratch_put("in/bf.wav", 50);
	launch_rig_put('c', 'z', "f", 1);
	struct gd_launcher *l = NULL;
	struct gd_launch_options o = launch_rig_options();
	o.on_progress = on_progress_stop_after_failures;
	o.context = &l;
	o.max_failures = 1;
	assert_int_equal(gd_launcher_create(&o, &l, NULL), 0);
	assert_int_equal(gd_launcher_run(l, NULL), -ECANCELED);
	struct gd_launch_summary s;
	gd_launcher_summary(l, &s, sizeof(s));
	assert_int_equal(s.files_done, 1);
	assert_true(s.files_failed >= 1 && s.files_left > 0);
	gd_launcher_destroy(l);
}

static void test_stop_before_the_run_lets_no_file_begin(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1);
	struct gd_launcher *l = NULL;
	struct gd_launch_options o = launch_rig_options();
	assert_int_equal(gd_launcher_create(&o, &l, NULL), 0);
	gd_launcher_stop(l);
	assert_int_equal(gd_launcher_run(l, NULL), -ECANCELED);
	gd_launcher_destroy(l);
	assert_int_equal(board->begun, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		launch_rig_test(test_first_stop_finishes_what_runs),
		launch_rig_test(test_second_stop_cancels_what_runs),
		launch_rig_test(test_first_stop_after_too_many_failures_finishes_what_runs),
		launch_rig_test(test_stop_before_the_run_lets_no_file_begin),
	};
	return cmocka_run_group_tests_name("launch_launcher_stop", tests, NULL, NULL);
}
