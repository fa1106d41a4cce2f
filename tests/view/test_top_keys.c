/* SPDX-License-Identifier: MIT */
/* The keys of gpuq top: what they select, and what they ask the queue to do. */
#include "base/cleanup.h"
#include "top_rig.h"

static void test_the_cursor_stays_on_its_job(void **state)
{
	struct top_rig *l = *state;
	for (uint64_t i = 1; i <= 50; i++)
		top_rig_put_job(l, i, VIEW_JOB_PENDING, "job");
	top_rig_draw(l, 24, 80);
	/* Until the cursor is moved, it stays on the first row. */
	top_rig_put_job(l, 40, VIEW_JOB_RUNNING, "job");
	top_rig_draw(l, 24, 80);
	assert_int_equal(l->top.jobs[l->top.cursor]->id, 40);
	top_key(&l->top, TOP_KEY_DOWN);
	top_key(&l->top, TOP_KEY_DOWN);
	assert_int_equal(l->top.job, 2);
	top_rig_put_job(l, 41, VIEW_JOB_RUNNING, "job");
	top_rig_put_job(l, 2, VIEW_JOB_COMPLETED, "job");
	top_rig_draw(l, 24, 80);
	assert_int_equal(l->top.job, 2);
	assert_int_equal(l->top.jobs[l->top.cursor]->id, 2);
	/* The model has changed since the list was made: the old list is not accessed. */
	view_forget_jobs(l->model);
	for (uint64_t i = 1; i <= 50; i++)
		if (i != 2)
			top_rig_put_job(l, i, i == 40 || i == 41 ? VIEW_JOB_RUNNING : VIEW_JOB_PENDING, "job");
	top_key(&l->top, TOP_KEY_DOWN);
	top_rig_draw(l, 24, 80);
	assert_non_null(view_find_job(l->model, l->top.job));
	top_key(&l->top, TOP_KEY_END);
	assert_int_equal(l->top.cursor, 48);
	top_key(&l->top, TOP_KEY_PAGE_UP);
	assert_true(l->top.cursor < 48);
	top_key(&l->top, TOP_KEY_HOME);
	top_rig_draw(l, 24, 80);
	assert_int_equal(l->top.cursor, 0);
	view_forget_jobs(l->model);
	top_key(&l->top, TOP_KEY_DOWN);
	top_rig_keys(l, "c wrhul");
	assert_int_equal(l->top.request, TOP_NOTHING);
	top_rig_draw(l, 24, 80);
}

static void test_typed_filter_selects_jobs_and_keys_are_letters_meanwhile(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_job(l, 1, VIEW_JOB_PENDING, "train größe");
	top_rig_put_job(l, 2, VIEW_JOB_PENDING, "evaluate");
	top_rig_draw(l, 24, 80);
	top_rig_keys(l, "/q");
	assert_int_equal(l->top.request, TOP_NOTHING); /* a letter of the filter, not the key */
	assert_shows(top_rig_draw(l, 24, 80), "no job matches");
	top_key(&l->top, TOP_KEY_BACKSPACE);
	top_rig_keys(l, "gr");
	top_key(&l->top, 0xf6); /* ö */
	const char *shown = top_rig_draw(l, 24, 80);
	assert_shows(shown, "Filter: grö");
	assert_shows(shown, "train");
	assert_shows_not(shown, "evaluate");
	assert_true(l->screen.cursor_row == 23);
	top_key(&l->top, TOP_KEY_BACKSPACE);
	assert_shows(top_rig_draw(l, 24, 80), "Filter: gr");
	top_key(&l->top, TOP_KEY_ENTER);
	assert_shows(top_rig_draw(l, 24, 80), "Esc: show all");
	assert_true(l->screen.cursor_row < 0);
	top_key(&l->top, TOP_KEY_ESCAPE);
	assert_shows(top_rig_draw(l, 24, 80), "evaluate");
	top_rig_keys(l, "/");
	for (int i = 0; i < 500; i++)
		top_key(&l->top, 0x1f99c);
	assert_true(strlen(l->top.filter) < TOP_FILTER_ROOM);
	top_rig_draw(l, 24, 80);
}

static void test_cancel_asks_first(void **state)
{
	struct top_rig *l = *state;
	size_t count;
	top_rig_put_job(l, 7, VIEW_JOB_RUNNING, "train");
	top_rig_draw(l, 24, 80);
	top_rig_keys(l, "c");
	assert_int_equal(l->top.request, TOP_NOTHING);
	assert_shows(top_rig_draw(l, 24, 80), "Cancel running job 7? y/n");
	top_rig_keys(l, "n");
	assert_int_equal(l->top.request, TOP_NOTHING);
	assert_shows(top_rig_draw(l, 24, 80), "no job was cancelled");
	top_rig_keys(l, "cy");
	assert_int_equal(l->top.request, TOP_ACT);
	assert_int_equal(l->top.action, VIEW_CANCEL);
	assert_int_equal(top_chosen(&l->top, &count)[0], 7);
	assert_int_equal(count, 1);
}

static void test_key_acts_only_where_the_job_allows_it(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_job(l, 1, VIEW_JOB_HELD, "a");
	top_rig_draw(l, 24, 80);
	top_rig_keys(l, "h");
	assert_int_equal(l->top.request, TOP_ACT);
	assert_int_equal(l->top.action, VIEW_RELEASE);
	top_rig_keys(l, "r");
	assert_int_equal(l->top.request, TOP_NOTHING);
	assert_shows(top_rig_draw(l, 24, 80), "job 1 is held: nothing to retry");
	top_rig_put_job(l, 1, VIEW_JOB_PENDING, "a");
	top_rig_keys(l, "h");
	assert_int_equal(l->top.action, VIEW_HOLD);
	top_rig_keys(l, "u");
	assert_int_equal(l->top.action, VIEW_URGENT);
	top_rig_keys(l, "w");
	assert_int_equal(l->top.request, TOP_DETAILS);
	top_key(&l->top, TOP_KEY_ENTER);
	assert_int_equal(l->top.request, TOP_DETAILS);
	top_rig_keys(l, "l");
	assert_int_equal(l->top.request, TOP_OPEN_LOG);
	top_rig_keys(l, "q");
	assert_int_equal(l->top.request, TOP_QUIT);
}

static void test_action_applies_to_all_tagged_jobs(void **state)
{
	struct top_rig *l = *state;
	size_t count;
	for (uint64_t i = 1; i <= 40; i++)
		top_rig_put_job(l, i, VIEW_JOB_PENDING, "a");
	top_rig_draw(l, 24, 80);
	top_rig_keys(l, "   ");
	assert_shows(top_rig_draw(l, 24, 80), "3 selected");
	assert_shows(top_rig_draw(l, 24, 80), "▌  2");
	top_key(&l->top, TOP_KEY_UP);
	top_rig_keys(l, " "); /* the third no longer exists */
	top_rig_keys(l, "c");
	assert_shows(top_rig_draw(l, 24, 80), "Cancel 2 selected jobs? y/n");
	top_rig_keys(l, "y");
	assert_int_equal(l->top.request, TOP_ACT);
	top_chosen(&l->top, &count);
	assert_int_equal(count, 2);
	top_key(&l->top, TOP_KEY_ESCAPE);
	assert_int_equal(l->top.num_tagged, 0);
}

static void test_keys_choose_order_and_states(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_job(l, 1, VIEW_JOB_PENDING, "b");
	top_rig_put_job(l, 2, VIEW_JOB_RUNNING, "a");
	top_rig_draw(l, 24, 80);
	assert_int_equal(l->top.jobs[0]->id, 2);
	top_rig_keys(l, "s");
	assert_shows(top_rig_draw(l, 24, 80), "Sort by");
	top_rig_keys(l, "2");
	top_rig_draw(l, 24, 80);
	assert_int_equal(l->top.jobs[0]->id, 1);
	top_rig_keys(l, "I");
	assert_shows(top_rig_draw(l, 24, 80), "ID▾");
	assert_int_equal(l->top.jobs[0]->id, 2);
	top_rig_keys(l, "<");
	assert_shows(top_rig_draw(l, 24, 80), "sorted by state");
	top_rig_keys(l, "\t");
	assert_shows(top_rig_draw(l, 24, 80), "running 1–1 of 1");
	top_rig_keys(l, "\t");
	assert_shows(top_rig_draw(l, 24, 80), "pending 1–1 of 1");
	top_rig_keys(l, "\t");
	assert_shows(top_rig_draw(l, 24, 80), "failed 0–0 of 0");
}

static void test_help_fits_a_small_screen(void **state)
{
	struct top_rig *l = *state;
	top_rig_keys(l, "?");
	assert_shows(top_rig_draw(l, 24, 80), "cancel (asks first)");
	assert_shows_not(top_rig_draw(l, 10, 40), "these keys");
	for (int i = 0; i < 30; i++)
		top_key(&l->top, TOP_KEY_DOWN);
	assert_shows(top_rig_draw(l, 10, 40), "quit; jobs and");
	assert_shows(top_rig_draw(l, 10, 40), "│                runner continue");
	/* The border is around it. */
	assert_shows(top_rig_draw(l, 10, 40), "┌─ keys ─");
	assert_shows(top_rig_draw(l, 10, 40), "┘");
	top_rig_keys(l, "x");
	assert_int_equal(l->top.mode, TOP_LIST);
}

static void test_letters_move_as_arrows_do(void **state)
{
	struct top_rig *l = *state;
	for (uint64_t i = 1; i <= 40; i++)
		top_rig_put_job(l, i, VIEW_JOB_PENDING, "a");
	top_rig_draw(l, 24, 80);
	top_rig_keys(l, "jjk");
	assert_int_equal(l->top.cursor, 1);
	top_rig_keys(l, "]");
	assert_true(l->top.cursor > 10);
	top_rig_keys(l, "[");
	assert_int_equal(l->top.cursor, 1);
	top_rig_keys(l, "/jk");
	assert_string_equal(l->top.filter, "jk");
}

static void test_cancelled_jobs_are_not_among_the_failed(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_job(l, 1, VIEW_JOB_FAILED, "bad");
	top_rig_put_job(l, 2, VIEW_JOB_CANCELLED, "ended");
	top_rig_draw(l, 24, 80);
	top_rig_keys(l, "\t\t\t");
	assert_shows(top_rig_draw(l, 24, 80), "failed 1–1 of 1");
	top_rig_keys(l, "\t");
	assert_shows(top_rig_draw(l, 24, 80), "cancelled 1–1 of 1");
}

static void test_details_of_a_running_job_say_what_it_runs_and_needs(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_job(l, 7, VIEW_JOB_RUNNING, "python train.py\npython test.py");
	cleanup_(text_finish) struct text t = {0};
	top_put_details(&t, view_find_job(l->model, 7), INT64_C(1763200000000));
	assert_shows(text_string(&t), "state       running\n");
	assert_shows(text_string(&t), "command     python train.py\n            python test.py\n");
	assert_shows(text_string(&t), "GPU         3\n");
	assert_shows(text_string(&t), "runs for    1m 07s\n");
	assert_shows(text_string(&t), "peak memory 2.0 GiB\n");
	top_show_page(&l->top, "job 7", text_string(&t));
	assert_shows(top_rig_draw(l, 24, 80), "┌─ job 7 ─");
}

static void test_long_lines_of_a_page_are_wrapped_with_indentation(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_job(l, 7, VIEW_JOB_RUNNING,
		"python train.py --model resnet50 --data /data/imagenet/shards/train --learning-rate 3e-4 --seed 7");
	cleanup_(text_finish) struct text t = {0};
	top_put_details(&t, view_find_job(l->model, 7), INT64_C(1763200000000));
	text_append_string(&t, "größegrößegrößegrößegrößegrößegrößegrößegrößegrößegrößegrößegrößegrößegröße\n");
	top_show_page(&l->top, "job 7", text_string(&t));
	assert_shows(top_rig_draw(l, 24, 60), "│             3e-4 --seed 7 ");
	assert_shows(top_rig_draw(l, 24, 60), "│ command     python train.py --model resnet50 --data      │");
	assert_shows(top_rig_draw(l, 24, 60), "│ rößegrößegrößegröße ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		top_rig_test(test_the_cursor_stays_on_its_job),
		top_rig_test(test_typed_filter_selects_jobs_and_keys_are_letters_meanwhile),
		top_rig_test(test_cancel_asks_first),
		top_rig_test(test_key_acts_only_where_the_job_allows_it),
		top_rig_test(test_action_applies_to_all_tagged_jobs),
		top_rig_test(test_keys_choose_order_and_states),
		top_rig_test(test_help_fits_a_small_screen),
		top_rig_test(test_letters_move_as_arrows_do),
		top_rig_test(test_cancelled_jobs_are_not_among_the_failed),
		top_rig_test(test_details_of_a_running_job_say_what_it_runs_and_needs),
		top_rig_test(test_long_lines_of_a_page_are_wrapped_with_indentation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
