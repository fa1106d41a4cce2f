/* SPDX-License-Identifier: MIT */
/* The whole, with hooks of this program as workers. */
#include "folder.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "gpu_dispatch.h"

#define PATHS 64

/* What test and workers share. */
struct board {
	atomic_int begun;
	atomic_int go;
	atomic_int ran[PATHS]; /* by the first letter of the stem */
	char order[PATHS];
	atomic_int num_order;
};
static struct board *board;

/* What a file asks for is its stem's second letter. */
static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct gd_file f;
	int r = gd_file_read(task, &f);
	if (r < 0)
		return r;
	struct stat st;
	if (f.path[0] != '/' || stat(f.path, &st) < 0 || stat(f.output_dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return gd_fail(w, -EIO, "no such file, or no output folder");
	int at = atomic_fetch_add(&board->num_order, 1);
	if (at < PATHS)
		board->order[at] = f.stem[0];
	atomic_fetch_add(&board->ran[f.stem[0] % PATHS], 1);
	atomic_fetch_add(&board->begun, 1);
	switch (f.stem[1]) {
	case 'f':
		return gd_fail(w, -EIO, "cannot do %s", f.stem);
	case 'k':
		raise(SIGKILL);
		return 0;
	case 'o': /* crashes once */
		if (gd_worker_attempt(w, 0) == 1)
			raise(SIGKILL);
		break;
	case 'w': /* waits until it may, or is told to end */
		while (!atomic_load(&board->go) && !gd_cancelled(w))
			usleep(500);
		break;
	case 'h': /* hangs */
		for (;;)
			pause();
	default:
		break;
	}
	return gd_file_done(w, f.stem[1] == 's' ? 7 : -1);
}

static int no_setup(struct gd_worker *w, void **ret)
{
	*ret = NULL;
	return gd_fail(w, -EIO, "no model in this test");
}

static const struct gd_worker_ops worker = {.process = process};
static const struct gd_worker_ops broken = {.setup = no_setup, .process = process};

static int enter(void **state)
{
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return board == MAP_FAILED ? -1 : folder_enter(state);
}

static int leave(void **state)
{
	munmap(board, sizeof(*board));
	return folder_leave(state);
}

#define launch_test(f) cmocka_unit_test_setup_teardown(f, enter, leave)

static struct gd_launch_options options(void)
{
	return (struct gd_launch_options){
		.size = sizeof(struct gd_launch_options),
		.input_dir = "in",
		.output_dir = "out",
		.gpus = "sim:2",
		.worker = &worker,
	};
}

static struct gd_launch_summary *launch(const struct gd_launch_options *o, int expected)
{
	struct gd_launch_summary *s = NULL;
	struct gd_error err = {0};
	int r = gd_launch(o, &s, &err);
	if (r != expected)
		print_message("%d: %s\n", r, err.message);
	assert_int_equal(r, expected);
	return s;
}

static void assert_counts(const struct gd_launch_summary *s, int done, int failed, int skipped, int left)
{
	assert_int_equal(s->files_done, done);
	assert_int_equal(s->files_failed, failed);
	assert_int_equal(s->files_skipped, skipped);
	assert_int_equal(s->files_left, left);
	assert_int_equal(s->files_total, done + failed + skipped + left);
}

static void test_all_files_are_done_once_and_then_no_more(void **state)
{
	(void)state;
	folder_put("in/a.wav", 10);
	folder_put("in/bs.wav", 30);
	folder_put("in/deep/c.wav", 20);
	struct gd_launch_options o = options();
	o.recursive = true;
	struct gd_launch_summary *s = launch(&o, 0);
	assert_counts(s, 3, 0, 0, 0);
	assert_true(s->audio_seconds == 7);
	assert_int_equal(s->bytes_done, 60);
	assert_int_equal(s->num_gpus, 2);
	assert_int_equal(s->gpus[0].files + s->gpus[1].files, 3);
	gd_launch_summary_free(s);
	assert_true(folder_has("out/a") && folder_has("out/bs") && folder_has("out/deep/c"));

	s = launch(&o, 0);
	assert_counts(s, 0, 0, 3, 0);
	gd_launch_summary_free(s);
	assert_int_equal(board->begun, 3);

	o.force = true;
	s = launch(&o, 0);
	assert_counts(s, 3, 0, 0, 0);
	gd_launch_summary_free(s);
	assert_int_equal(board->begun, 6);
}

static void test_what_has_changed_is_done_again(void **state)
{
	(void)state;
	static const struct gd_setting large[] = {{"model_size", "large"}};
	folder_put("in/a.wav", 10);
	folder_put("in/b.wav", 10);
	struct gd_launch_options o = options();
	gd_launch_summary_free(launch(&o, 0));
	/* Its size; its time; the settings; the worker; what it wrote is gone. */
	folder_put("in/a.wav", 11);
	struct gd_launch_summary *s = launch(&o, 0);
	assert_counts(s, 1, 0, 1, 0);
	gd_launch_summary_free(s);
	struct timespec times[2] = {{1, 5}, {1, 5}};
	assert_int_equal(utimensat(AT_FDCWD, "in/b.wav", times, 0), 0);
	s = launch(&o, 0);
	assert_counts(s, 1, 0, 1, 0);
	gd_launch_summary_free(s);
	o.settings = large;
	o.num_settings = 1;
	s = launch(&o, 0);
	assert_counts(s, 2, 0, 0, 0);
	gd_launch_summary_free(s);
	o.worker_name = "another";
	s = launch(&o, 0);
	assert_counts(s, 2, 0, 0, 0);
	gd_launch_summary_free(s);
	assert_int_equal(rmdir("out/a"), 0);
	s = launch(&o, 0);
	assert_counts(s, 1, 0, 1, 0);
	gd_launch_summary_free(s);
}

static void test_failures_are_told_and_tried_again_by_the_next_run(void **state)
{
	(void)state;
	folder_put("in/a.wav", 1);
	folder_put("in/bf.wav", 1);
	folder_put("in/ck.wav", 1);
	struct gd_launch_options o = options();
	struct gd_launch_summary *s = launch(&o, 1);
	assert_counts(s, 1, 2, 0, 0);
	assert_int_equal(s->num_failures, 2);
	for (size_t i = 0; i < 2; i++)
		if (strcmp(s->failures[i].file, "bf.wav") == 0)
			assert_string_equal(s->failures[i].error, "cannot do bf");
		else
			assert_non_null(strstr(s->failures[i].error, "SIGKILL"));
	gd_launch_summary_free(s);
	s = launch(&o, 1);
	assert_counts(s, 0, 2, 1, 0);
	gd_launch_summary_free(s);
}

static void test_retries_save_a_file_whose_worker_crashed(void **state)
{
	(void)state;
	folder_put("in/ao.wav", 1);
	folder_put("in/b.wav", 1);
	struct gd_launch_options o = options();
	o.retries = 1;
	struct gd_launch_summary *s = launch(&o, 0);
	assert_counts(s, 2, 0, 0, 0);
	gd_launch_summary_free(s);
	assert_int_equal(board->ran['a' % PATHS], 2);
}

static void test_file_that_hangs_is_ended_by_the_timeout(void **state)
{
	(void)state;
	folder_put("in/ah.wav", 1);
	folder_put("in/b.wav", 1);
	struct gd_launch_options o = options();
	o.task_timeout_ms = 50;
	struct gd_launch_summary *s = launch(&o, 1);
	assert_true(s->files_failed >= 1); /* on a slow machine the other one, too */
	gd_launch_summary_free(s);
}

static void test_setup_that_fails_everywhere_ends_it_with_the_reason(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		char path[16];
		snprintf(path, sizeof(path), "in/%d.wav", i);
		folder_put(path, 1);
	}
	struct gd_launch_options o = options();
	o.worker = &broken;
	struct gd_error err = {0};
	struct gd_launch_summary *s = NULL;
	assert_int_equal(gd_launch(&o, &s, &err), 1);
	assert_non_null(strstr(err.message, "no model in this test"));
	assert_counts(s, 0, 0, 0, 20);
	gd_launch_summary_free(s);
}

static void test_max_failures_ends_it_early(void **state)
{
	(void)state;
	for (int i = 0; i < 26; i++) {
		char path[16];
		snprintf(path, sizeof(path), "in/%cf.wav", 'a' + i);
		folder_put(path, 1);
	}
	struct gd_launch_options o = options();
	o.gpus = "sim:1";
	o.max_failures = 3;
	struct gd_error err = {0};
	struct gd_launch_summary *s = NULL;
	assert_int_equal(gd_launch(&o, &s, &err), 1);
	assert_true(s->files_failed >= 3 && s->files_left > 0);
	assert_non_null(strstr(err.message, "max-failures"));
	gd_launch_summary_free(s);
}

static double by_name(void *context, const char *path)
{
	(void)context;
	const char *name = strrchr(path, '/') + 1;
	return name[0] == 'd' ? 100 : 1;
}

static void test_largest_first_where_nothing_else_is_known(void **state)
{
	(void)state;
	folder_put("in/a.wav", 1000);
	folder_put("in/b.wav", 10);
	folder_put("in/c.wav", 20);
	struct gd_launch_options o = options();
	o.gpus = "sim:1";
	gd_launch_summary_free(launch(&o, 0));
	assert_memory_equal(board->order, "acb", 3);
	o.balance = GD_AS_FOUND;
	o.force = true;
	gd_launch_summary_free(launch(&o, 0));
	assert_memory_equal(board->order + 3, "abc", 3);
}

static void test_durations_are_read_and_reach_the_summary(void **state)
{
	(void)state;
	for (char c = 'a'; c <= 'd'; c++) {
		char path[16];
		snprintf(path, sizeof(path), "in/%c.wav", c);
		folder_put(path, 10);
	}
	struct gd_launch_options o = options();
	o.seconds = by_name;
	struct gd_launch_summary *s = launch(&o, 0);
	assert_true(s->audio_seconds == 103);
	assert_true(s->rtf > 0);
	gd_launch_summary_free(s);
}

/* Once all durations are known, and the queue sorted by them, the first file may end. */
static void on_progress_known(void *context, const struct gd_launch_progress *p)
{
	(void)context;
	if (p->in_seconds && p->total_amount > 1 + 24 + 100 - 0.5)
		atomic_store(&board->go, 1);
}

/* Nothing is known before the first file has begun. */
static double long_d(void *context, const char *path)
{
	(void)context;
	while (atomic_load(&board->begun) == 0)
		usleep(500);
	return strrchr(path, '/')[1] == 'd' ? 100 : 1;
}

static void test_durations_change_the_order_while_the_first_file_is_worked_on(void **state)
{
	(void)state;
	folder_put("in/aw.wav", 1000);
	for (char c = 'b'; c <= 'z'; c++) {
		char path[16];
		snprintf(path, sizeof(path), "in/%c.wav", c);
		folder_put(path, c == 'd' ? 1 : 10);
	}
	struct gd_launch_options o = options();
	o.gpus = "sim:1";
	o.seconds = long_d;
	o.on_progress = on_progress_known;
	gd_launch_summary_free(launch(&o, 0));
	/* b was on its way already; by its size d would have been the last. */
	assert_memory_equal(board->order, "abd", 3);
}

/* The third file to the first GPU, all others to the last. */
static int one_apart(void *context, const struct gd_found *files, size_t count, size_t num_gpus, size_t *ret)
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

static void test_strategy_of_ones_own_sets_the_order(void **state)
{
	(void)state;
	for (char c = 'a'; c <= 'd'; c++) {
		char path[16];
		snprintf(path, sizeof(path), "in/%cw.wav", c);
		folder_put(path, 10);
	}
	struct gd_launch_options o = options();
	o.strategy = one_apart;
	o.on_progress = on_progress_go;
	gd_launch_summary_free(launch(&o, 0));
	/* The first of each GPU: c and a, whoever was faster. */
	assert_int_equal(board->order[0] + board->order[1], 'a' + 'c');
}

static void test_folders_of_results_stay_with_their_files(void **state)
{
	(void)state;
	static const char *const patterns[] = {"*"};
	folder_put("in/b.wav", 1);
	struct gd_launch_options o = options();
	o.patterns = patterns;
	o.num_patterns = 1;
	gd_launch_summary_free(launch(&o, 0));
	assert_true(folder_has("out/b"));
	/* By name it would come before b.wav. */
	folder_put("in/b.mp3", 1);
	gd_launch_summary_free(launch(&o, 0));
	assert_true(folder_has("out/b.mp3") && !folder_has("out/b.wav"));
	assert_int_equal(board->begun, 2);
}

static void test_results_of_another_folder_are_not_replaced(void **state)
{
	(void)state;
	folder_put("in/a.wav", 1);
	folder_put("other/a.wav", 2);
	struct gd_launch_options o = options();
	gd_launch_summary_free(launch(&o, 0));
	o.input_dir = "other";
	struct gd_error err = {0};
	assert_int_equal(gd_launch(&o, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.message, "--force"));
	o.force = true;
	gd_launch_summary_free(launch(&o, 0));
}

static void on_progress_stop(void *context, const struct gd_launch_progress *p)
{
	struct gd_launcher **l = context;
	int busy = 0;
	for (size_t i = 0; i < p->num_workers; i++)
		busy += p->workers[i].file != NULL;
	if (busy == 2 && !p->ending)
		gd_launcher_stop(*l);
	assert_false(p->cancelling);
	if (p->ending)
		atomic_store(&board->go, 1);
}

static void test_first_stop_finishes_what_runs(void **state)
{
	(void)state;
	for (char c = 'a'; c <= 'h'; c++) {
		char path[16];
		snprintf(path, sizeof(path), "in/%cw.wav", c);
		folder_put(path, 1);
	}
	struct gd_launcher *l = NULL;
	struct gd_launch_options o = options();
	o.on_progress = on_progress_stop;
	o.context = &l;
	struct gd_error err = {0};
	assert_int_equal(gd_launcher_create(&o, &l, &err), 0);
	assert_int_equal(gd_launcher_run(l, &err), -ECANCELED);
	struct gd_launch_summary s;
	gd_launcher_summary(l, &s);
	assert_true(s.files_done >= 2 && s.files_left > 0 && s.files_failed == 0);
	int done = (int)s.files_done;
	assert_int_equal(gd_launcher_run(l, &err), -EALREADY);
	gd_launcher_destroy(l);
	/* The next run goes on there. */
	struct gd_launch_options again = options();
	struct gd_launch_summary *rest = launch(&again, 0);
	assert_counts(rest, 8 - done, 0, done, 0);
	gd_launch_summary_free(rest);
	for (char c = 'a'; c <= 'h'; c++)
		assert_int_equal(board->ran[c % PATHS], 1);
}

static void on_progress_stop_twice(void *context, const struct gd_launch_progress *p)
{
	struct gd_launcher **l = context;
	assert_int_equal(p->cancelling, p->ending); /* both stops come at once */
	for (size_t i = 0; i < p->num_workers; i++)
		if (p->workers[i].file && !p->ending) {
			gd_launcher_stop(*l);
			gd_launcher_stop(*l);
			return;
		}
}

static void test_second_stop_cancels_what_runs(void **state)
{
	(void)state;
	folder_put("in/ah.wav", 1);
	folder_put("in/bw.wav", 1);
	struct gd_launcher *l = NULL;
	struct gd_launch_options o = options();
	o.on_progress = on_progress_stop_twice;
	o.context = &l;
	struct gd_error err = {0};
	assert_int_equal(gd_launcher_create(&o, &l, &err), 0);
	assert_int_equal(gd_launcher_run(l, &err), -ECANCELED);
	struct gd_launch_summary s;
	gd_launcher_summary(l, &s);
	assert_int_equal(s.files_failed, 0);
	assert_true(s.files_left >= 1);
	gd_launcher_destroy(l);
}

static void test_stop_before_the_run_is_one(void **state)
{
	(void)state;
	folder_put("in/a.wav", 1);
	struct gd_launcher *l = NULL;
	struct gd_launch_options o = options();
	assert_int_equal(gd_launcher_create(&o, &l, NULL), 0);
	gd_launcher_stop(l);
	assert_int_equal(gd_launcher_run(l, NULL), -ECANCELED);
	gd_launcher_destroy(l);
	assert_int_equal(board->begun, 0);
}

struct mistakes {
	int count;
	char text[4096];
};

static void note(void *context, const struct gd_error *err)
{
	struct mistakes *m = context;
	m->count++;
	strncat(m->text, err->message, sizeof(m->text) - strlen(m->text) - 2);
	strcat(m->text, "\n");
}

static void test_every_mistake_is_found_before_anything_starts(void **state)
{
	(void)state;
	static const char *const patterns[] = {"", "a/b"};
	folder_put("file", 1);
	struct gd_launch_options o = options();
	o.input_dir = "nowhere";
	o.output_dir = "file/out";
	o.gpus = "rubbish";
	o.patterns = patterns;
	o.num_patterns = 2;
	o.plugin = "x.so";
	o.workers_per_gpu = -1;
	o.retries = -1;
	struct mistakes m = {0};
	assert_int_equal(gd_launch_validate(&o, note, &m), 8);
	assert_int_equal(m.count, 8);
	static const char *const words[] = {"nowhere", "file", "rubbish", "a/b", "more than one worker", "retries"};
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		assert_non_null(strstr(m.text, words[i]));
	struct gd_error err = {0};
	struct gd_launcher *l = NULL;
	assert_int_equal(gd_launcher_create(&o, &l, &err), -ENOENT);
	assert_non_null(strstr(err.message, "nowhere"));
	assert_null(l);
	o = options();
	o.size = 8;
	assert_int_equal(gd_launch_validate(&o, NULL, NULL), 1);
	mkdir("in", 0755);
	o = options();
	o.worker = NULL;
	assert_int_equal(gd_launch_validate(&o, note, &m), 1);
	assert_non_null(strstr(m.text, "no worker was given"));
	o = options();
	o.output_dir = "in/../in";
	assert_int_equal(gd_launch_validate(&o, NULL, NULL), 0);
	o.recursive = true;
	assert_int_equal(gd_launch_validate(&o, NULL, NULL), 1);
	assert_false(folder_has("out"));
}

static void test_information_before_the_run(void **state)
{
	(void)state;
	folder_put("in/a.wav", 5);
	folder_put("in/bs.wav", 5);
	struct gd_launch_options o = options();
	o.seconds = by_name;
	gd_launch_summary_free(launch(&o, 0));
	folder_put("in/c.wav", 9);
	struct gd_launcher *l = NULL;
	assert_int_equal(gd_launcher_create(&o, &l, NULL), 0);
	assert_null(gd_launcher_files(l));
	assert_int_equal(gd_launcher_gpus(l)->count, 2);
	assert_int_equal(gd_launcher_find(l, NULL), 0);
	assert_int_equal(gd_launcher_files(l)->count, 3);
	size_t count;
	const struct gd_found *todo = gd_launcher_todo(l, &count);
	assert_int_equal(count, 1);
	assert_string_equal(todo[0].path, "c.wav");
	assert_true(gd_launcher_earlier_rtf(l) > 0);
	assert_true(gd_launcher_earlier_bytes_per_second(l) > 0);
	struct gd_launch_summary s;
	gd_launcher_summary(l, &s);
	assert_counts(&s, 0, 0, 2, 1);
	gd_launcher_destroy(l);
	gd_launcher_destroy(NULL);
}

static void test_nothing_to_do_makes_nothing(void **state)
{
	(void)state;
	mkdir("in", 0755);
	struct gd_launch_options o = options();
	struct gd_launch_summary *s = launch(&o, 0);
	assert_counts(s, 0, 0, 0, 0);
	gd_launch_summary_free(s);
	assert_false(folder_has("out"));
}

static void on_result_remove(void *context, const struct gd_file_result *r)
{
	(void)r;
	if (++*(int *)context == 1) {
		unlink("in/x.wav");
		unlink("in/y.wav");
	}
}

static void test_files_that_vanish_fail_alone(void **state)
{
	(void)state;
	for (char c = 'a'; c <= 'h'; c++) {
		char path[16];
		snprintf(path, sizeof(path), "in/%c.wav", c);
		folder_put(path, 1000);
	}
	folder_put("in/x.wav", 1);
	folder_put("in/y.wav", 2);
	int results = 0;
	struct gd_launch_options o = options();
	o.gpus = "sim:1";
	o.on_result = on_result_remove;
	o.context = &results;
	struct gd_launch_summary *s = launch(&o, 1);
	assert_counts(s, 8, 2, 0, 0);
	assert_int_equal(results, 10);
	gd_launch_summary_free(s);
}

static void test_exit_codes(void **state)
{
	(void)state;
	assert_int_equal(gd_launch_exit_code(0), 0);
	assert_int_equal(gd_launch_exit_code(1), 1);
	assert_int_equal(gd_launch_exit_code(-ECANCELED), 130);
	assert_int_equal(gd_launch_exit_code(-EINVAL), 2);
	assert_int_equal(gd_launch_exit_code(-ENOENT), 2);
	assert_int_equal(gd_launch_exit_code(-ENOSPC), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		launch_test(test_all_files_are_done_once_and_then_no_more),
		launch_test(test_what_has_changed_is_done_again),
		launch_test(test_failures_are_told_and_tried_again_by_the_next_run),
		launch_test(test_retries_save_a_file_whose_worker_crashed),
		launch_test(test_file_that_hangs_is_ended_by_the_timeout),
		launch_test(test_setup_that_fails_everywhere_ends_it_with_the_reason),
		launch_test(test_max_failures_ends_it_early),
		launch_test(test_largest_first_where_nothing_else_is_known),
		launch_test(test_durations_are_read_and_reach_the_summary),
		launch_test(test_durations_change_the_order_while_the_first_file_is_worked_on),
		launch_test(test_strategy_of_ones_own_sets_the_order),
		launch_test(test_folders_of_results_stay_with_their_files),
		launch_test(test_results_of_another_folder_are_not_replaced),
		launch_test(test_first_stop_finishes_what_runs),
		launch_test(test_second_stop_cancels_what_runs),
		launch_test(test_stop_before_the_run_is_one),
		launch_test(test_every_mistake_is_found_before_anything_starts),
		launch_test(test_information_before_the_run),
		launch_test(test_nothing_to_do_makes_nothing),
		launch_test(test_files_that_vanish_fail_alone),
		cmocka_unit_test(test_exit_codes),
	};
	return cmocka_run_group_tests_name("launch_launcher", tests, NULL, NULL);
}
