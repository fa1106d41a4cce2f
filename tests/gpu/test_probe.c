/* SPDX-License-Identifier: MIT */
/* A long-running probe: samples, events, faulty cards, and every way to end. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/pidref.h"
#include "fake_machine.h"
#include "gpu/probe.h"
#include "support/wait.h"

#define CARD(uuid, free) "card\nname=Fake\nuuid=" uuid "\nmemory=1000 " free " 0 0\n"

static struct gpu_probe *open_probe(const char *spec, unsigned period_ms, unsigned answer_ms)
{
	struct gpu_probe *p = NULL;
	struct gd_error err = {0};
	struct gpu_probe_options options = {
		.spec = spec, .period_ms = period_ms, .answer_ms = answer_ms, .events = true};
	if (gpu_probe_open(&options, &p, &err) < 0)
		fail_msg("%s", err.message);
	return p;
}

/* The next news within the time, 0 if there are none, or the probe's error. */
static int news_within(struct gpu_probe *p, int ms, struct gpu_news *ret)
{
	for (;;) {
		int r = gpu_probe_read(p, ret);
		if (r != 0)
			return r;
		struct pollfd ready = {.fd = gpu_probe_fd(p), .events = POLLIN};
		if (poll(&ready, 1, ms) == 0)
			return 0;
	}
}

static struct gpu_news wait_for(struct gpu_probe *p, enum gpu_news_kind kind, int index)
{
	struct gpu_news news;
	for (;;) {
		int r = news_within(p, WAIT_MS, &news);
		if (r <= 0)
			fail_msg("waiting for news %d of card %d: %d", kind, index, r);
		if (news.kind == kind && (index < 0 || news.index == index))
			return news;
	}
}

static void wait_for_round(struct gpu_probe *p, unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++)
		wait_for(p, GPU_NEWS_ROUND, -1);
}

static struct gd_gpu_list *list_of(struct gpu_probe *p)
{
	struct gd_gpu_list *list = NULL;
	struct gd_error err = {0};
	if (gpu_probe_list(p, &list, &err) < 0)
		fail_msg("%s", err.message);
	return list;
}

/* The state of the i-th selected GPU, after the news so far. */
static struct gd_gpu gpu_of(struct gpu_probe *p, size_t i)
{
	struct gd_gpu_list *list = list_of(p);
	assert_true(i < list->count);
	struct gd_gpu gpu = *list->gpus[i];
	gd_gpu_list_free(list);
	return gpu;
}

static void wait_for_health(struct gpu_probe *p, int index, enum gd_gpu_health health)
{
	while (gpu_of(p, (size_t)index).health != health)
		wait_for(p, GPU_NEWS_CARD, index);
}

static void test_with_a_period_samples_come_by_themselves(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "700") CARD("GPU-2", "600"));
	struct gpu_probe *p = open_probe("0-1", 10, 0);
	wait_for_round(p, 1);
	assert_int_equal(gpu_of(p, 0).memory_free_bytes, 700);
	fake_machine_cards(*state, CARD("GPU-1", "300") CARD("GPU-2", "200"));
	while (gpu_of(p, 1).memory_free_bytes != 200 || gpu_of(p, 0).memory_free_bytes != 300)
		wait_for(p, GPU_NEWS_CARD, -1);
	gpu_probe_close(p);
}

static void test_without_a_period_cards_are_asked_once(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "700"));
	struct gpu_probe *p = open_probe("auto", 0, 0);
	wait_for_round(p, 1);
	fake_machine_cards(*state, CARD("GPU-1", "300"));
	struct gpu_news news;
	assert_int_equal(news_within(p, 100, &news), 0);
	assert_int_equal(gpu_of(p, 0).memory_free_bytes, 700);
	gpu_probe_close(p);
	p = open_probe("auto", 0, 0);
	wait_for_round(p, 1);
	assert_int_equal(gpu_of(p, 0).memory_free_bytes, 300);
	gpu_probe_close(p);
}

static void test_card_that_stops_answering_is_quarantined_until_it_comes_back(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "700") CARD("GPU-2", "600") "compute=1 1\n");
	struct gpu_probe *p = open_probe("0,1", 20, 1000);
	wait_for_round(p, 1);
	fake_machine_cards(*state, CARD("GPU-1", "300") CARD("GPU-2", "600") "hang=GetMemoryInfo\n");
	while (gpu_of(p, 0).memory_free_bytes != 300)
		wait_for(p, GPU_NEWS_CARD, 0);
	wait_for_health(p, 1, GD_GPU_HEALTH_NOT_ANSWERING);
	struct gd_gpu sick = gpu_of(p, 1);
	assert_string_equal(sick.uuid, "GPU-2");
	assert_true(sick.known & GD_GPU_KNOWN_UUID);
	assert_false(sick.known & (GD_GPU_KNOWN_MEMORY_FREE | GD_GPU_KNOWN_PROCESSES));
	assert_int_equal(sick.num_processes, 0);

	/* The other card continues, and a round is complete although one card is silent. */
	fake_machine_cards(*state, CARD("GPU-1", "100") CARD("GPU-2", "600") "hang=GetMemoryInfo\n");
	struct gpu_probe *second = open_probe("0,1", 0, 3000);
	wait_for_round(second, 1);
	assert_int_equal(gpu_of(second, 0).memory_free_bytes, 100);
	assert_int_equal(gpu_of(second, 1).health, GD_GPU_HEALTH_NOT_ANSWERING);
	gpu_probe_close(second);
	while (gpu_of(p, 0).memory_free_bytes != 100)
		wait_for(p, GPU_NEWS_CARD, 0);
	struct gd_gpu_list *list = list_of(p);
	fake_machine_assert_warned(list, "GPU 1 does not answer");
	gd_gpu_list_free(list);

	fake_machine_cards(*state, CARD("GPU-1", "100") CARD("GPU-2", "550"));
	wait_for_health(p, 1, GD_GPU_HEALTH_OK);
	while (gpu_of(p, 1).memory_free_bytes != 550)
		wait_for(p, GPU_NEWS_CARD, 1);
	gpu_probe_close(p);
}

static void test_card_whose_call_never_returns_comes_back_when_the_driver_does(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "700") CARD("GPU-2", "600"));
	struct gpu_probe *p = open_probe("0,1", 20, 300);
	wait_for_round(p, 1);
	fake_machine_cards(*state, CARD("GPU-1", "300") CARD("GPU-2", "600") "stuck=GetMemoryInfo\n");
	wait_for_health(p, 1, GD_GPU_HEALTH_NOT_ANSWERING);
	while (gpu_of(p, 0).memory_free_bytes != 300)
		wait_for(p, GPU_NEWS_CARD, 0);
	fake_machine_cards(*state, CARD("GPU-1", "100") CARD("GPU-2", "550"));
	wait_for_health(p, 1, GD_GPU_HEALTH_OK);
	while (gpu_of(p, 1).memory_free_bytes != 550 || gpu_of(p, 0).memory_free_bytes != 100)
		wait_for(p, GPU_NEWS_CARD, -1);
	gpu_probe_close(p);
}

/* Each card wakes up after 65% of the time to answer, so both in sequence take longer. False if one timed out. */
static bool wake_up_one_after_the_other(const struct fake_machine *m, unsigned answer_ms)
{
	struct gpu_news news;
	int wait_ms = (int)answer_ms * 65 / 100;
	fake_machine_cards(m, CARD("GPU-1", "1") "hang=GetName\n" CARD("GPU-2", "1") "hang=GetName\n");
	struct gpu_probe *p = open_probe("0,1", 0, answer_ms);
	bool waited = news_within(p, wait_ms, &news) == 0;
	if (waited) {
		fake_machine_cards(m, CARD("GPU-1", "1") CARD("GPU-2", "1") "hang=GetName\n");
		wait_for(p, GPU_NEWS_CARD, 0);
		waited = news_within(p, wait_ms, &news) == 0;
	}
	if (waited) {
		fake_machine_cards(m, CARD("GPU-1", "1") CARD("GPU-2", "1"));
		wait_for(p, GPU_NEWS_CARD, 1);
		waited = gpu_of(p, 1).health == GD_GPU_HEALTH_OK;
	}
	gpu_probe_close(p);
	return waited;
}

static void test_cards_that_wake_up_one_after_the_other_are_waited_for(void **state)
{
	/* On a slow machine they take longer than planned: retry with more time. */
	unsigned answer_ms = 2000;
	while (!wake_up_one_after_the_other(*state, answer_ms)) {
		answer_ms *= 2;
		assert_true(answer_ms <= 16000);
	}
}

static void test_lost_card_keeps_its_identity(void **state)
{
	fake_machine_cards(
		*state, CARD("GPU-1", "700") "mig\ninstance 0\nuuid=MIG-1\nmemory=5 5 0 0\n" CARD("GPU-2", "1"));
	struct gpu_probe *p = open_probe("MIG-1,1", 10, 0);
	wait_for_round(p, 1);
	assert_int_equal(gpu_of(p, 0).memory_free_bytes, 5);
	/* Still with MIG: a sample in progress may read parts of both descriptions. */
	fake_machine_cards(
		*state, CARD("GPU-1", "700") "fail=GetPciInfo 15\nmig\ninstance 0\nuuid=MIG-1\nmemory=5 5 0 0\n" CARD(
				"GPU-2", "1"));
	wait_for_health(p, 0, GD_GPU_HEALTH_LOST);
	assert_string_equal(gpu_of(p, 0).uuid, "MIG-1");
	assert_int_equal(gpu_of(p, 1).health, GD_GPU_HEALTH_OK);
	gpu_probe_close(p);
}

static void test_xids_are_reported_and_xid_79_means_a_lost_card(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "1") CARD("GPU-2", "1"));
	struct gpu_probe *p = open_probe("0,1", 0, 0);
	wait_for_round(p, 1);
	fake_machine_cards(*state, CARD("GPU-1", "1") CARD("GPU-2", "1") "xid=31\n");
	struct gpu_news news = wait_for(p, GPU_NEWS_XID, -1);
	assert_int_equal(news.index, 1);
	assert_int_equal(news.xid, 31);
	wait_for(p, GPU_NEWS_CARD, 1); /* its state is queried at once */
	assert_int_equal(gpu_of(p, 1).health, GD_GPU_HEALTH_OK);

	fake_machine_cards(*state, CARD("GPU-1", "1") "xid=79\n" CARD("GPU-2", "1") "xid=31\n");
	news = wait_for(p, GPU_NEWS_XID, -1);
	assert_int_equal(news.index, 0);
	assert_int_equal(news.xid, 79);
	assert_int_equal(gpu_of(p, 0).health, GD_GPU_HEALTH_LOST);
	wait_for(p, GPU_NEWS_CARD, 0); /* reports of a card that fell off the bus are ignored */
	assert_int_equal(gpu_of(p, 0).health, GD_GPU_HEALTH_LOST);
	assert_int_equal(gpu_of(p, 1).health, GD_GPU_HEALTH_OK);
	gpu_probe_close(p);
}

static void test_many_cards_with_many_processes_are_reported_in_full(void **state)
{
	char text[65536] = "";
	for (int c = 0; c < 16; c++) {
		sprintf(text + strlen(text), "card\nuuid=GPU-%02d\n", c);
		for (int i = 0; i < 200; i++)
			sprintf(text + strlen(text), "compute=%d %d\n", 1000 * c + i, i);
	}
	fake_machine_cards(*state, "%s", text);
	struct gpu_probe *p = open_probe("all", 0, 0);
	wait_for_round(p, 1);
	struct gd_gpu_list *list = list_of(p);
	assert_int_equal(list->count, 16);
	for (int c = 0; c < 16; c++) {
		assert_int_equal(list->gpus[c]->num_processes, 200);
		assert_int_equal(list->gpus[c]->processes[199]->pid, 1000 * c + 199);
	}
	gd_gpu_list_free(list);
	gpu_probe_close(p);
}

static bool ends_within(const struct pidref *process, int ms)
{
	return pidref_wait(process, clock_now_ns() + (uint64_t)ms * NS_PER_MS);
}

static void test_closing_ends_and_reaps_even_a_hanging_probe(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "1") "hang=GetName\n");
	struct gpu_probe *p = open_probe("auto", 0, 0);
	struct pidref probe = PIDREF_NONE;
	assert_int_equal(pidref_open(gpu_probe_pid(p), &probe), 0);
	gpu_probe_close(p);
	assert_true(ends_within(&probe, 0));
	pidref_close(&probe);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void test_killed_probe_is_noticed_and_another_can_be_opened(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "1"));
	struct gpu_probe *p = open_probe("auto", 0, 0);
	wait_for_round(p, 1);
	kill(gpu_probe_pid(p), SIGKILL);
	struct gpu_news news;
	int r;
	while ((r = news_within(p, WAIT_MS, &news)) > 0)
		;
	assert_int_equal(r, -EPIPE);
	assert_int_equal(gpu_probe_read(p, &news), -EPIPE); /* the error is permanent */
	gpu_probe_close(p);
	p = open_probe("auto", 0, 0);
	wait_for_round(p, 1);
	gpu_probe_close(p);
}

static void test_caller_may_ignore_sigchld(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "1"));
	signal(SIGCHLD, SIG_IGN);
	struct gd_gpu_list *list = fake_machine_list("auto");
	assert_int_equal(list->count, 1);
	gd_gpu_list_free(list);
	struct sigaction now;
	sigaction(SIGCHLD, NULL, &now);
	assert_ptr_equal(now.sa_handler, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
}

static void *wait_for_all_children(void *stop)
{
	while (!__atomic_load_n((bool *)stop, __ATOMIC_ACQUIRE)) {
		while (waitpid(-1, NULL, 0) > 0)
			;
		sched_yield();
	}
	return NULL;
}

static void test_caller_may_wait_for_all_children(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "1"));
	bool stop = false;
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, wait_for_all_children, &stop), 0);
	for (int i = 0; i < 10; i++) {
		struct gd_gpu_list *list = fake_machine_list("auto");
		if (list->count != 1)
			fail_msg("%s", list->num_warnings ? list->warnings[0] : "no GPU");
		gd_gpu_list_free(list);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

static void *list_often(void *unused)
{
	(void)unused;
	intptr_t bad = 0;
	for (int i = 0; i < 10; i++) {
		struct gd_gpu_list *list = NULL;
		if (gd_gpu_list("auto", &list, NULL) < 0 || list->count != 2)
			bad++;
		gd_gpu_list_free(list);
	}
	return (void *)bad;
}

/* Threads that hold the locks of the loader and of malloc about half of the time. */
static void *load_and_allocate(void *stop)
{
	while (!__atomic_load_n((bool *)stop, __ATOMIC_ACQUIRE)) {
		void *library = dlopen(getenv("TEST_NVML_OLD"), RTLD_NOW);
		if (library)
			dlclose(library);
		free(malloc(100000));
	}
	return NULL;
}

static void test_several_threads_may_list_at_once(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "1") CARD("GPU-2", "1"));
	pthread_t threads[4], other;
	bool stop = false;
	assert_int_equal(pthread_create(&other, NULL, load_and_allocate, &stop), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, list_often, NULL), 0);
	intptr_t all_bad = 0;
	for (int i = 0; i < 4; i++) {
		void *bad;
		pthread_join(threads[i], &bad);
		all_bad += (intptr_t)bad;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	pthread_join(other, NULL);
	assert_int_equal(all_bad, 0);
}

/* A caller that has forked another process, which keeps the socket open, and is killed. */
static _Noreturn void be_caller(int out)
{
	struct gpu_probe *p;
	struct gpu_probe_options options = {.spec = "auto", .period_ms = 10};
	if (gpu_probe_open(&options, &p, NULL) < 0)
		_exit(1);
	pid_t pids[2] = {gpu_probe_pid(p), fork()};
	if (pids[1] != 0 && write(out, pids, sizeof(pids)) != sizeof(pids))
		_exit(1);
	for (;;)
		pause();
}

static void test_probe_ends_with_its_caller(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "1"));
	int out[2];
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid_t caller = fork();
	if (caller == 0)
		be_caller(out[1]);
	pid_t pids[2];
	assert_int_equal(read(out[0], pids, sizeof(pids)), sizeof(pids));
	struct pidref probe = PIDREF_NONE;
	assert_int_equal(pidref_open(pids[0], &probe), 0);
	assert_false(ends_within(&probe, 0));
	kill(caller, SIGKILL);
	assert_true(ends_within(&probe, WAIT_MS));
	kill(pids[1], SIGKILL);
	waitpid(caller, NULL, 0);
	pidref_close(&probe);
	close(out[0]);
	close(out[1]);
}

static void test_probe_keeps_nothing_of_its_caller(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "1"));
	int pipe_of_ours[2];
	assert_int_equal(pipe(pipe_of_ours), 0); /* not even close-on-exec */
	struct gpu_probe *p = open_probe("auto", 0, 0);
	wait_for_round(p, 1);
	close(pipe_of_ours[1]);
	struct pollfd end = {.fd = pipe_of_ours[0], .events = POLLIN};
	assert_int_equal(poll(&end, 1, WAIT_MS), 1);
	assert_true(end.revents & POLLHUP);
	close(pipe_of_ours[0]);
	assert_int_equal(getsid(gpu_probe_pid(p)), gpu_probe_pid(p)); /* Ctrl-C does not reach it */
	gpu_probe_close(p);
}

static void test_caller_that_does_not_read_gets_no_backlog_of_old_samples(void **state)
{
	char text[16384] = "card\n";
	for (int i = 0; i < 250; i++)
		sprintf(text + strlen(text), "compute=%d 1\n", i);
	fake_machine_cards(*state, "%s", text);
	struct gpu_probe *p = open_probe("auto", 1, 0);
	struct pollfd never = {.fd = -1};
	poll(&never, 1, 2000);
	/* Only the few dozen samples in the socket are older: the probe itself buffers none. */
	fake_machine_cards(*state, "card\nuuid=GPU-new\n");
	int old = 0;
	do {
		wait_for(p, GPU_NEWS_CARD, 0);
		old++;
	} while (!(gpu_of(p, 0).known & GD_GPU_KNOWN_UUID));
	assert_in_range(old, 1, 150);
	gpu_probe_close(p);
}

static void test_fork_that_fails_is_reported(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		/* root may start as many processes as it likes */
		struct rlimit none = {0};
		struct gd_gpu_list *list;
		struct gd_error err = {0};
		if (setrlimit(RLIMIT_NPROC, &none) < 0 || (getuid() == 0 && setuid(65534) < 0))
			_exit(3);
		int r = gd_gpu_list("auto", &list, &err);
		bool told = r == -EAGAIN &&
			    strstr(err.message, "cannot start the probe process: Resource temporarily unavailable");
		_exit(told ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_simulated_gpus_need_no_process(void **state)
{
	(void)state;
	struct gpu_probe *p = open_probe("sim:2", 0, 0);
	assert_int_equal(gpu_probe_pid(p), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	wait_for_round(p, 1);
	struct gpu_news news;
	assert_int_equal(news_within(p, 50, &news), 0);
	assert_int_equal(gpu_of(p, 1).index, 1);
	gpu_probe_close(p);

	p = open_probe("sim:2", 5, 0);
	for (int i = 0; i < 5; i++)
		wait_for(p, GPU_NEWS_ROUND, -1);
	gpu_probe_close(p);
}

static void test_bad_specification_opens_nothing(void **state)
{
	(void)state;
	struct gpu_probe *p = NULL;
	struct gd_error err;
	struct gpu_probe_options options = {.spec = "x"};
	assert_int_equal(gpu_probe_open(&options, &p, &err), -EINVAL);
	assert_null(p);
	gpu_probe_close(NULL);
}

static void test_program_of_another_version_is_replaced_by_a_fork(void **state)
{
	struct fake_machine *m = *state;
	char path[128];
	snprintf(path, sizeof(path), "%s/probe", m->dir);
	fake_machine_write(m, "probe", "#!/bin/sh\nexit 2\n");
	assert_int_equal(chmod(path, 0755), 0);
	char *before = strdup(getenv("GPUQ_PROBE"));
	setenv("GPUQ_PROBE", path, 1);
	fake_machine_cards(m, CARD("GPU-1", "1"));
	struct gd_gpu_list *list = fake_machine_list("auto");
	assert_int_equal(list->count, 1);
	gd_gpu_list_free(list);
	setenv("GPUQ_PROBE", before, 1);
	free(before);
}

static void test_probe_is_a_program_of_its_own(void **state)
{
	fake_machine_cards(*state, CARD("GPU-1", "1"));
	struct gpu_probe *p = open_probe("auto", 0, 0);
	char path[64], program[256];
	snprintf(path, sizeof(path), "/proc/%d/exe", gpu_probe_pid(p));
	ssize_t n = readlink(path, program, sizeof(program) - 1);
	assert_true(n > 0);
	program[n] = '\0';
	check_contains(program, "/gpuq-probe");
	gpu_probe_close(p);
}

/* With the argument "forked": the case without a program to execute, which does not support threads. */
int main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fake_machine_setup, fake_machine_teardown)
	const struct CMUnitTest both[] = {
		T(test_with_a_period_samples_come_by_themselves),
		T(test_without_a_period_cards_are_asked_once),
		T(test_card_that_stops_answering_is_quarantined_until_it_comes_back),
		T(test_card_whose_call_never_returns_comes_back_when_the_driver_does),
		T(test_cards_that_wake_up_one_after_the_other_are_waited_for),
		T(test_lost_card_keeps_its_identity),
		T(test_xids_are_reported_and_xid_79_means_a_lost_card),
		T(test_many_cards_with_many_processes_are_reported_in_full),
		T(test_closing_ends_and_reaps_even_a_hanging_probe),
		T(test_killed_probe_is_noticed_and_another_can_be_opened),
		T(test_caller_may_ignore_sigchld),
		T(test_probe_ends_with_its_caller),
		T(test_probe_keeps_nothing_of_its_caller),
		T(test_caller_that_does_not_read_gets_no_backlog_of_old_samples),
		T(test_fork_that_fails_is_reported),
		T(test_simulated_gpus_need_no_process),
		T(test_bad_specification_opens_nothing),
	};
	const struct CMUnitTest executed[] = {
		T(test_probe_is_a_program_of_its_own),
		T(test_program_of_another_version_is_replaced_by_a_fork),
		T(test_caller_may_wait_for_all_children),
		T(test_several_threads_may_list_at_once),
	};
	int failed = cmocka_run_group_tests(both, NULL, NULL);
	if (argc > 1 && strcmp(argv[1], "forked") == 0)
		return failed;
	return failed + cmocka_run_group_tests(executed, NULL, NULL);
}
