/* SPDX-License-Identifier: MIT */
/* The order in which files are worked on: by size, by duration, by a custom strategy. */
#include "launch_rig.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "support/board.h"
#include "support/scratch.h"
#include "support/wait.h"

static void test_largest_file_is_first_if_no_duration_is_known(void **state)
{
	(void)state;
	scratch_put("in/a.wav", 1000);
	scratch_put("in/b.wav", 10);
	scratch_put("in/c.wav", 20);
	struct gd_launch_options o = launch_rig_options();
	o.gpus = "sim:1";
	launch_rig_run_well(&o);
	launch_rig_assert_order(0, "acb");
	o.balance = GD_BALANCE_AS_FOUND;
	o.force = true;
	launch_rig_run_well(&o);
	launch_rig_assert_order(3, "abc");
}

static void test_durations_are_read_and_reach_the_summary(void **state)
{
	(void)state;
	launch_rig_put('a', 'd', "", 10);
	struct gd_launch_options o = launch_rig_options();
	o.seconds = launch_rig_seconds;
	struct gd_launch_summary *s = launch_rig_launch(&o, 0);
	assert_true(s->audio_seconds == 103);
	assert_true(s->known & GD_KNOWN_RTF && s->rtf > 0);
	gd_launch_summary_free(s);
}

static atomic_int results;

static void on_result_count(void *context, const struct gd_file_result *result)
{
	(void)context;
	assert_true(result->error || !(result->known & GD_KNOWN_SECONDS));
	atomic_fetch_add(&results, 1);
}

/* Returns when all files have ended. */
static int last_of_all(void *context, const char *path, double *ret)
{
	for (int waited_ms = 0; atomic_load(&results) < 5; waited_ms++) {
		if (waited_ms > WAIT_MS)
			return -ETIMEDOUT;
		usleep(1000);
	}
	return launch_rig_seconds(context, path, ret);
}

/* Reading may take long, if another user has written the file. */
static void test_files_do_not_wait_for_durations_which_are_counted_later(void **state)
{
	(void)state;
	atomic_store(&results, 0);
	launch_rig_put('a', 'd', "", 10);
	launch_rig_put('e', 'e', "f", 10);
	struct gd_launch_options o = launch_rig_options();
	o.seconds = last_of_all;
	o.on_result = on_result_count;
	struct gd_launch_summary *s = launch_rig_launch(&o, 0);
	launch_rig_assert_counts(s, (struct launch_counts){.done = 4, .failed = 1});
	assert_true(s->audio_seconds == 103);
	assert_true(s->known & GD_KNOWN_RTF && fabs(s->rtf - s->processing_seconds / 103) < 1e-9);
	double audio = 0, share = 0;
	for (size_t i = 0; i < s->num_gpus; i++) {
		audio += s->gpus[i]->audio_seconds;
		share += s->gpus[i]->share;
	}
	assert_true(audio == 103 && fabs(share - 1) < 1e-9);
	gd_launch_summary_free(s);
}

/* Once all durations are known, and the queue sorted by them, the first file may end. */
static void on_progress_known(void *context, const struct gd_launch_progress *p)
{
	(void)context;
	if (p->known & GD_KNOWN_SECONDS && p->total_amount > 1 + 24 + 100 - 0.5)
		atomic_store(&board->go, 1);
}

/* Nothing is known before the first file has begun. */
static int long_d(void *context, const char *path, double *ret)
{
	(void)context;
	while (atomic_load(&board->begun) == 0)
		usleep(500);
	*ret = strrchr(path, '/')[1] == 'd' ? 100 : 1;
	return 0;
}

static void test_durations_change_the_order_while_the_first_file_is_worked_on(void **state)
{
	(void)state;
	scratch_put("in/aw.wav", 1000);
	launch_rig_put('b', 'z', "", 10);
	launch_rig_put('d', 'd', "", 1);
	struct gd_launch_options o = launch_rig_options();
	o.gpus = "sim:1";
	o.seconds = long_d;
	o.on_progress = on_progress_known;
	launch_rig_run_well(&o);
	/* b was already submitted; by its size d would have been the last. */
	launch_rig_assert_order(0, "abd");
}

/* The third file to the first GPU, all others to the last. */
static int one_apart(void *context, const struct gd_found *const *files, size_t count, size_t num_gpus, size_t *ret)
{
	(void)context;
	(void)files;
	for (size_t i = 0; i < count; i++)
		ret[i] = i == 2 ? 0 : num_gpus - 1;
	return 0;
}

static void on_progress_go(void *context, const struct gd_launch_progress *p)
{
	(void)context;
	(void)p;
	if (atomic_load(&board->begun) >= 2)
		atomic_store(&board->go, 1);
}

static void test_custom_strategy_sets_the_order(void **state)
{
	(void)state;
	launch_rig_put('a', 'd', "w", 10);
	struct gd_launch_options o = launch_rig_options();
	o.strategy = one_apart;
	o.on_progress = on_progress_go;
	launch_rig_run_well(&o);
	/* The first file of each GPU: c and a, in either order. */
	assert_int_equal(board->words[0] + board->words[1], 'a' + 'c');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		launch_rig_test(test_largest_file_is_first_if_no_duration_is_known),
		launch_rig_test(test_durations_are_read_and_reach_the_summary),
		launch_rig_test(test_files_do_not_wait_for_durations_which_are_counted_later),
		launch_rig_test(test_durations_change_the_order_while_the_first_file_is_worked_on),
		launch_rig_test(test_custom_strategy_sets_the_order),
	};
	return cmocka_run_group_tests_name("launch_launcher_order", tests, NULL, NULL);
}
