/* SPDX-License-Identifier: MIT */
/* Executed workers: a separate program, even for hosts with threads. TEST_WORKER is that program. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/worker.h"
#include "recorder.h"
#include "support/board.h"
#include "support/sanitizer.h"

static char answers[16][512];

static int keep_answer(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)rec;
	if (note->kind == CALLBACK_SUCCESS && event->id < 16)
		snprintf(answers[event->id], sizeof(answers[0]), "%.*s", (int)event->result.size,
			(const char *)event->result.data);
	return 0;
}

static int give_words(void *context, struct gd_feed *feed)
{
	struct recorder *rec = context;
	char text[32];
	if (rec->given == rec->tasks)
		return 0;
	int n = snprintf(text, sizeof(text), "task %d", (int)rec->given++);
	int r = gd_feed_emit(feed, text, (size_t)n, NULL, NULL);
	return r < 0 ? r : 1;
}

static int run(struct recorder *rec, const char *program, const char *mode)
{
	const char *const argv[] = {program, mode, NULL};
	rec->options.worker_argv = argv;
	rec->run.generator = give_words;
	rec->on_note = keep_answer;
	return recorder_run(rec, NULL);
}

static void assert_told(const struct recorder *rec)
{
	for (size_t i = 0; i < rec->count[CALLBACK_SUCCESS]; i++) {
		const struct gd_event *e = &recorder_note(rec, CALLBACK_SUCCESS, i)->event;
		char expected[256];
		snprintf(expected, sizeof(expected),
			"task %d slot=%d gpu=%d seed=%d model=large cuda=%d mark=unset fds=0 mode=", (int)e->id,
			e->slot, e->gpu, 42 + e->gpu, e->gpu);
		assert_string_equal(answers[e->id], expected);
	}
}

static const struct gd_setting model = {"model", "large"};

static void test_executed_worker_has_gpu_seed_settings_and_no_descriptor_of_the_host(void **state)
{
	struct recorder *rec = *state;
	/* A descriptor that must not be inherited, although it is not close-on-exec. */
	int fd = fcntl(STDERR_FILENO, F_DUPFD, 20);
	rec->options.settings = &model;
	rec->options.num_settings = 1;
	assert_int_equal(run(rec, getenv("TEST_WORKER"), ""), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 10);
	assert_told(rec);
	close(fd);
}

static int give_environment(void *context, struct gd_feed *feed)
{
	struct recorder *rec = context;
	if (rec->given++ > 0)
		return 0;
	int r = gd_feed_emit(feed, "environment", strlen("environment"), NULL, NULL);
	return r < 0 ? r : 1;
}

static void test_executed_worker_has_the_given_environment_and_the_variable_of_its_gpu(void **state)
{
	struct recorder *rec = *state;
	const char *const argv[] = {getenv("TEST_WORKER"), NULL};
	const char *const env[] = {"FIRST=1", "CUDA_VISIBLE_DEVICES=9", NULL};
	rec->options.gpus = "sim:1";
	rec->options.worker_argv = argv;
	rec->options.worker_env = env;
	rec->run.generator = give_environment;
	rec->on_note = keep_answer;
	assert_int_equal(setenv("OF_THE_HOST", "1", 1), 0);
	assert_int_equal(recorder_run(rec, NULL), 0);
	assert_non_null(strstr(answers[0], "FIRST=1 "));
	assert_non_null(strstr(answers[0], "CUDA_VISIBLE_DEVICES=0 "));
	assert_null(strstr(answers[0], "CUDA_VISIBLE_DEVICES=9"));
	assert_null(strstr(answers[0], "OF_THE_HOST"));
}

static void *hold_a_lock(void *argument)
{
	(void)argument;
	/*
	 * Holds locks of the allocator, and of a stream, like a thread that waits for a line of input. Not with
	 * ThreadSanitizer: its own _exit() flushes the stream, and so hangs in a process that is forked meanwhile.
	 */
	if (!SANITIZER_THREAD)
		flockfile(stdout);
	for (int i = 0; !atomic_load(&board->words[0]); i++)
		free(malloc((size_t)(i % 5000) + 1));
	if (!SANITIZER_THREAD)
		funlockfile(stdout);
	return NULL;
}

static void test_host_with_threads_can_execute_workers(void **state)
{
	struct recorder *rec = *state;
	pthread_t threads[3];
	rec->options.settings = &model;
	rec->options.num_settings = 1;
	assert_int_equal(fflush(stdout), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hold_a_lock, NULL), 0);
	int r = 0;
	for (int i = 0; i < 5 && r == 0; i++) {
		recorder_restart(rec);
		r = run(rec, getenv("TEST_WORKER"), "");
	}
	atomic_store(&board->words[0], 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(r, 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 10);
	assert_told(rec);
}

static int give_crash(void *context, struct gd_feed *feed)
{
	struct recorder *rec = context;
	if (rec->given == 6)
		return 0;
	bool deadly = rec->given++ == 3;
	int r = gd_feed_emit(feed, deadly ? "crash" : "works", 5, NULL, NULL);
	return r < 0 ? r : 1;
}

static void test_executed_worker_that_crashes_is_executed_again(void **state)
{
	struct recorder *rec = *state;
	const char *const argv[] = {getenv("TEST_WORKER"), NULL};
	rec->options.worker_argv = argv;
	rec->run.generator = give_crash;
	assert_int_equal(recorder_run(rec, NULL), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 5);
	assert_int_equal(rec->count[CALLBACK_ERROR], 1);
	assert_int_equal(recorder_note(rec, CALLBACK_ERROR, 0)->event.id, 3);
	assert_int_equal(recorder_note(rec, CALLBACK_ERROR, 0)->event.failure, GD_FAILURE_CRASHED);
	assert_int_equal(recorder_note(rec, CALLBACK_ERROR, 0)->event.signal, SIGABRT);
}

/* The pool has borrowed them while it opened: the program, its argument and the setting of the second worker, too. */
static void test_options_may_be_overwritten_once_the_pool_is_open(void **state)
{
	struct recorder *rec = *state;
	char program[4096], mode[] = "", gpus[] = "sim:1", key[] = "model", value[] = "large";
	const char *argv[] = {program, mode, NULL};
	struct gd_setting setting = {key, value};
	snprintf(program, sizeof(program), "%s", getenv("TEST_WORKER"));
	rec->options.worker_argv = argv;
	rec->options.gpus = gpus;
	rec->options.settings = &setting;
	rec->options.num_settings = 1;
	rec->on_note = keep_answer;
	struct gd_pool *p = recorder_open(rec, NULL);
	memset(program, 'X', sizeof(program) - 1);
	memset(gpus, 'X', sizeof(gpus) - 1);
	memset(key, 'X', sizeof(key) - 1);
	memset(value, 'X', sizeof(value) - 1);
	argv[0] = argv[1] = NULL;
	memset(&setting, 0, sizeof(setting));
	const char *const tasks[] = {"task 0", "crash", "task 2"};
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(gd_pool_submit(p, tasks[i], strlen(tasks[i]), NULL, NULL, NULL), 0);
	recorder_drain(p);
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 2);
	assert_int_equal(rec->count[CALLBACK_ERROR], 1);
	assert_non_null(strstr(answers[0], "model=large"));
	assert_non_null(strstr(answers[2], "model=large"));
}

static int give_large(void *context, struct gd_feed *feed)
{
	struct recorder *rec = context;
	if (rec->given == 4)
		return 0;
	size_t size = rec->given++ % 2 ? 5 << 20 : 100000;
	char *data = gd_feed_reserve(feed, size, NULL, NULL);
	if (!data)
		return -ENOMEM;
	memset(data, 'L', size);
	return 1;
}

static void test_large_payloads_reach_a_program(void **state)
{
	struct recorder *rec = *state;
	const char *const argv[] = {getenv("TEST_WORKER"), NULL};
	rec->options.worker_argv = argv;
	rec->run.generator = give_large;
	assert_int_equal(recorder_run(rec, NULL), 0);
	recorder_assert_complete(rec);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 4);
	for (size_t i = 0; i < 4; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_SUCCESS, i);
		assert_int_equal(n->event.result.size, n->event.id % 2 ? 5 << 20 : 100000);
		assert_memory_equal(&n->result, "LLLLLLLL", 8);
	}
}

/* ---- Programs that are not workers --------------------------------------- */

static void assert_not_started(struct recorder *rec, const char *program, const char *mode, int code, const char *words)
{
	assert_int_equal(run(rec, program, mode), -ENODEV);
	assert_int_equal(rec->count[CALLBACK_SETUP_FAIL], 2);
	assert_int_equal(rec->count[CALLBACK_EXIT], 1);
	for (size_t i = 0; i < 2; i++) {
		const struct run_note *n = recorder_note(rec, CALLBACK_SETUP_FAIL, i);
		check_contains(n->message, words);
		assert_int_equal(n->event.code, code);
	}
	for (size_t i = 0; i < rec->count[CALLBACK_ERROR]; i++)
		assert_int_equal(recorder_note(rec, CALLBACK_ERROR, i)->event.failure, GD_FAILURE_NO_WORKER);
}

static void test_missing_worker_program_fails_setup_and_is_named(void **state)
{
	assert_not_started(*state, "/nonexistent/worker", NULL, -ENOENT,
		"the worker could not be started ('/nonexistent/worker'): No such file or directory");
}

static void test_worker_program_missing_in_the_path_fails_setup_and_is_named(void **state)
{
	assert_not_started(*state, "no-such-worker-anywhere", NULL, -ENOENT, "'no-such-worker-anywhere'");
}

static void test_worker_program_without_execute_permission_fails_setup(void **state)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/worker", recorder_dir());
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_not_started(*state, path, NULL, -EACCES, "Permission denied");
}

static void test_worker_program_that_exits_at_once_fails_setup_with_its_code(void **state)
{
	assert_not_started(*state, getenv("TEST_WORKER"), "exit-at-once", 0,
		"ended with status 3 without calling gd_worker_main() of this version of gpu_dispatch");
}

static void test_program_that_is_not_a_worker_is_named(void **state)
{
	assert_not_started(*state, "/bin/true", "", 0,
		"the program '/bin/true' ended with status 0 without calling gd_worker_main()");
}

static void test_worker_program_that_exits_in_setup_fails_setup_with_its_code(void **state)
{
	assert_not_started(*state, getenv("TEST_WORKER"), "exit-in-setup", 0, "the worker called exit(7) in setup");
}

static void test_worker_program_whose_setup_fails_is_reported_with_its_message(void **state)
{
	struct recorder *rec = *state;
	rec->options.settings = &model;
	rec->options.num_settings = 1;
	assert_not_started(rec, getenv("TEST_WORKER"), "no-setup", -ENOENT, "no model in 'large'");
}

/* Runs it with its stderr in a pipe; returns the exit status. */
static int by_hand(const char *mode, const char *variable, char *words, size_t size)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		if (variable)
			setenv("GD_WORKER", variable, 1);
		execl(getenv("TEST_WORKER"), "my-worker", mode, (char *)NULL);
		_exit(99);
	}
	close(ends[1]);
	size_t have = 0;
	ssize_t n;
	while (have < size - 1 && (n = read(ends[0], words + have, size - 1 - have)) > 0)
		have += (size_t)n;
	words[have] = '\0';
	close(ends[0]);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_worker_program_started_by_hand_says_so_and_exits_2(void **state)
{
	(void)state;
	char words[512];
	assert_int_equal(by_hand("", NULL, words, sizeof(words)), 2);
	assert_string_equal(words,
		"my-worker: this program is a worker of gpu_dispatch; it is started by a dispatcher (worker_argv of "
		"struct gd_options), not by hand\n");
	assert_int_equal(by_hand("", "99", words, sizeof(words)), 2);
	assert_string_equal(words,
		"my-worker: this worker was built with another version of gpu_dispatch than the program that started it "
		"(worker protocol " WORKER_PROTOCOL ", not 99): build both with the same version\n");
	assert_int_equal(by_hand("no-ops", WORKER_PROTOCOL, words, sizeof(words)), 2);
	check_contains(words, "struct gd_worker_ops is missing (NULL)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_executed_worker_has_gpu_seed_settings_and_no_descriptor_of_the_host),
		recorder_test(test_executed_worker_has_the_given_environment_and_the_variable_of_its_gpu),
		recorder_test(test_host_with_threads_can_execute_workers),
		recorder_test(test_executed_worker_that_crashes_is_executed_again),
		recorder_test(test_options_may_be_overwritten_once_the_pool_is_open),
		recorder_test(test_large_payloads_reach_a_program),
		recorder_test(test_missing_worker_program_fails_setup_and_is_named),
		recorder_test(test_worker_program_missing_in_the_path_fails_setup_and_is_named),
		recorder_test(test_worker_program_without_execute_permission_fails_setup),
		recorder_test(test_worker_program_that_exits_at_once_fails_setup_with_its_code),
		recorder_test(test_program_that_is_not_a_worker_is_named),
		recorder_test(test_worker_program_that_exits_in_setup_fails_setup_with_its_code),
		recorder_test(test_worker_program_whose_setup_fails_is_reported_with_its_message),
		recorder_test(test_worker_program_started_by_hand_says_so_and_exits_2),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
