/* SPDX-License-Identifier: MIT */
/* The first process of a job, which shares the keeper's memory until exec. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "queue/journal/journal.h"
#include "queue/keeper/attempt.h"
#include "support/scratch.h"

#define PATH "jobs.jsonl"

/* A child of `parent` other than this process. */
static pid_t find_child(pid_t parent)
{
	char path[64], children[256];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	for (;;) {
		if (file_read_small(AT_FDCWD, path, children, sizeof(children)) < 0)
			_exit(2);
		for (char *p = children, *end; *p; p = end) {
			long pid = strtol(p, &end, 10);
			if (end == p)
				break;
			if (pid != getpid())
				return (pid_t)pid;
		}
	}
}

/* Holds the append lock until the job's process, which waits for it, was sent SIGTERM. */
_Noreturn static void hold_lock(pid_t parent, int ready_fd)
{
	struct journal *j;
	if (journal_open(PATH, false, &j, NULL) < 0 || journal_lock(j, NULL) < 0 || write(ready_fd, "", 1) != 1)
		_exit(1);
	int failed = kill(find_child(parent), SIGTERM) < 0;
	journal_unlock(j);
	_exit(failed);
}

static void make_attempt(struct attempt *a, const struct journal *j, struct attempt_cache *cache)
{
	char strings[512];
	/* command, cwd, env, log_dir and four empty ones */
	int n = snprintf(
		strings, sizeof(strings), "true%c%c%c%s/logs%c%c%c%c%c", 0, 0, 0, scratch_path(), 0, 0, 0, 0, 0);
	struct keeper_order order = {.bytes = sizeof(order),
		.kind = KEEPER_ORDER_RUN,
		.id = 1,
		.attempt = 1,
		.size = (uint64_t)n,
		.fence = j->fence,
		.log_trust = LOG_TRUST_NAMED};
	char *payload = malloc((size_t)n);
	assert_non_null(payload);
	memcpy(payload, strings, (size_t)n);
	assert_int_equal(attempt_init(a, &order, payload), 0);
	assert_int_equal(attempt_prepare(a, j, "k1", cache), 0);
}

static void test_signal_before_the_job_executes_waits_until_then(void **state)
{
	(void)state;
	struct journal *j;
	struct attempt a;
	struct attempt_page page;
	struct attempt_cache cache = {0};
	int ready[2], status;
	char byte;
	sigset_t all, before;
	assert_int_equal(journal_open(PATH, false, &j, NULL), 0);
	assert_int_equal(journal_lock(j, NULL), 0);
	journal_unlock(j);
	make_attempt(&a, j, &cache);
	assert_int_equal(pipe(ready), 0);
	pid_t parent = getpid(), holder = fork();
	assert_true(holder >= 0);
	if (holder == 0)
		hold_lock(parent, ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	/* As in a keeper. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid_t pid = attempt_start(&a, j, "k1", &page);
	sigprocmask(SIG_SETMASK, &before, NULL);
	assert_true(pid > 0);
	assert_int_equal(page.stage, ATTEMPT_STARTED);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_int_equal(status, 0);
	close(ready[0]);
	close(ready[1]);
	attempt_finish(&a);
	if (cache.logs.path)
		close(cache.logs.fd);
	free(cache.logs.path);
	free(cache.env);
	journal_close(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_signal_before_the_job_executes_waits_until_then),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
