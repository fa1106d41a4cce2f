/* SPDX-License-Identifier: MIT */
/* Reading a journal takes time in proportion to its size, even if another user wrote it for that purpose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "queue/journal/jobs.h"

/* With time in proportion to the square of the size, each test would take minutes. */
#define MANY       200000
#define MOST_CPU_S 30

#define TIME "\"time\":\"2026-11-15T22:00:00.000Z\""

static void apply_line(struct jobs *js, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void apply_line(struct jobs *js, const char *format, ...)
{
	char line[256];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	assert_int_equal(jobs_apply(js, 1, line, strlen(line)), 0);
	assert_int_equal(js->bad_lines, 0);
}

static void begin(struct jobs *js)
{
	jobs_init(js);
	apply_line(js, "{\"event\":\"add\",\"id\":1," TIME ",\"command\":\"c\",\"retries\":1000000}");
}

static const char *keeper_host(const struct jobs *js, const char *name)
{
	const struct keeper_info *k = jobs_keeper(js, name, strlen(name));
	return k ? k->machine.host : NULL;
}

static void test_many_keepers(void **state)
{
	(void)state;
	struct jobs js;
	begin(&js);
	/* The first half has lines of its own, before the starts that name them. */
	for (int i = 1; i <= MANY / 2; i++)
		apply_line(&js, "{\"event\":\"keeper\",\"keeper\":\"k%d\"," TIME ",\"pid\":%d,\"host\":\"h\"}", i, i);
	for (int i = 1; i <= MANY; i++) {
		apply_line(&js,
			"{\"event\":\"start\",\"id\":1,\"attempt\":%d," TIME ",\"gpus\":[0],\"keeper\":\"k%d\"}", i, i);
		apply_line(&js, "{\"event\":\"end\",\"id\":1,\"attempt\":%d," TIME ",\"status\":\"failed\"}", i);
	}
	char last[16];
	snprintf(last, sizeof(last), "k%d", MANY);
	assert_string_equal(jobs_find(&js, 1)->keeper->name, last);
	assert_string_equal(keeper_host(&js, "k1"), "h");
	assert_string_equal(keeper_host(&js, last), "");
	assert_null(keeper_host(&js, "k"));
	jobs_finish(&js);
}

static void test_newest_keeper_of_a_name_is_found(void **state)
{
	(void)state;
	struct jobs js;
	begin(&js);
	assert_null(keeper_host(&js, "k"));
	apply_line(&js, "{\"event\":\"keeper\",\"keeper\":\"k\"," TIME ",\"pid\":1,\"host\":\"old\"}");
	apply_line(&js, "{\"event\":\"start\",\"id\":1,\"attempt\":1," TIME ",\"gpus\":[0],\"keeper\":\"k\"}");
	apply_line(&js, "{\"event\":\"keeper\",\"keeper\":\"k\"," TIME ",\"pid\":2,\"host\":\"new\"}");
	assert_string_equal(keeper_host(&js, "k"), "new");
	assert_string_equal(jobs_find(&js, 1)->keeper->machine.host, "old");
	apply_line(&js, "{\"event\":\"start\",\"id\":1,\"attempt\":2," TIME ",\"gpus\":[0],\"keeper\":\"k\"}");
	apply_line(&js, "{\"event\":\"keeper\",\"keeper\":\"a\\nb\"," TIME ",\"pid\":2,\"host\":\"escaped\"}");
	assert_string_equal(jobs_find(&js, 1)->keeper->machine.host, "new");
	apply_line(&js, "{\"event\":\"start\",\"id\":1,\"attempt\":3," TIME ",\"gpus\":[0],\"keeper\":\"a\\nb\"}");
	assert_string_equal(jobs_find(&js, 1)->keeper->machine.host, "escaped");
	jobs_finish(&js);
}

static void test_many_pilots(void **state)
{
	(void)state;
	struct jobs js;
	begin(&js);
	for (int i = 1; i <= MANY; i++)
		apply_line(
			&js, "{\"event\":\"pilot\",\"pilot\":\"p%d\"," TIME ",\"slurm_job\":%d,\"node\":\"n\"}", i, i);
	for (int i = 1; i <= MANY; i++)
		apply_line(
			&js, "{\"event\":\"pilot\",\"pilot\":\"p%d\"," TIME ",\"slurm_job\":%d,\"node\":\"n\"}", i, i);
	const struct queue_pilot *p = jobs_pilot(&js, "p1", 2);
	assert_true(p && p->slurm_job == 1 && !p->next && js.pilots->slurm_job == MANY);
	assert_null(jobs_pilot(&js, "p", 1));
	jobs_finish(&js);
}

/* Each hook runs when it is the last of those that are due. */
static void test_many_hooks(void **state)
{
	(void)state;
	struct jobs js;
	jobs_init(&js);
	for (int i = 1; i <= MANY; i++) {
		apply_line(&js, "{\"event\":\"add\",\"id\":%d," TIME ",\"command\":\"c\",\"on_finish\":\"h\"}", i);
		apply_line(&js, "{\"event\":\"start\",\"id\":%d,\"attempt\":1," TIME ",\"gpus\":[0]}", i);
		apply_line(&js,
			"{\"event\":\"end\",\"id\":%d,\"attempt\":1," TIME ",\"status\":\"failed\",\"hook\":true}", i);
	}
	for (int i = MANY; i > 1; i--) {
		apply_line(&js, "{\"event\":\"hook\",\"id\":%d,\"attempt\":1," TIME ",\"try\":2,\"keeper\":\"k\"}", i);
		assert_int_equal(js.last_hook->tries, 2);
		apply_line(&js,
			"{\"event\":\"hook\",\"id\":%d,\"attempt\":1," TIME ",\"try\":2,\"status\":\"completed\"}", i);
		assert_int_equal(js.last_hook->id, i - 1);
	}
	assert_true(js.hooks && js.hooks == js.last_hook && !js.hooks->next && js.hooks->tries == 0);
	jobs_finish(&js);
}

static void test_many_hooks_of_one_attempt_are_followed_in_order(void **state)
{
	(void)state;
	struct jobs js;
	begin(&js);
	apply_line(&js, "{\"event\":\"start\",\"id\":1,\"attempt\":1," TIME ",\"gpus\":[0],\"on_finish\":\"h\"}");
	for (int i = 0; i < MANY; i++)
		apply_line(&js, "{\"event\":\"idle\",\"id\":1,\"attempt\":1," TIME ",\"gpus\":[0],\"hook\":true}");
	const struct due_hook *first = js.hooks, *second = first->next, *last = js.last_hook;
	apply_line(&js, "{\"event\":\"idle\",\"id\":1,\"attempt\":1," TIME ",\"try\":1}");
	assert_true(first->tries == 1 && second->tries == 0);
	apply_line(&js, "{\"event\":\"idle\",\"id\":1,\"attempt\":1," TIME ",\"try\":1,\"status\":\"completed\"}");
	assert_true(js.hooks == second && js.last_hook == last);
	apply_line(&js, "{\"event\":\"idle\",\"id\":1,\"attempt\":1," TIME ",\"try\":3}");
	assert_int_equal(second->tries, 3);
	for (int i = 1; i < MANY; i++)
		apply_line(
			&js, "{\"event\":\"idle\",\"id\":1,\"attempt\":1," TIME ",\"try\":1,\"status\":\"completed\"}");
	assert_true(!js.hooks && !js.last_hook);
	apply_line(&js, "{\"event\":\"idle\",\"id\":1,\"attempt\":1," TIME ",\"gpus\":[0],\"hook\":true}");
	assert_true(js.hooks && js.hooks == js.last_hook);
	apply_line(&js, "{\"event\":\"idle\",\"id\":1,\"attempt\":1," TIME ",\"try\":4}");
	assert_int_equal(js.hooks->tries, 4);
	jobs_finish(&js);
}

static void test_lines_of_early_attempts(void **state)
{
	(void)state;
	struct jobs js;
	begin(&js);
	for (int i = 1; i <= MANY; i++) {
		apply_line(&js, "{\"event\":\"start\",\"id\":1,\"attempt\":%d," TIME ",\"gpus\":[0]}", i);
		apply_line(&js, "{\"event\":\"end\",\"id\":1,\"attempt\":%d," TIME ",\"status\":\"failed\"}", i);
	}
	for (int i = 1; i <= MANY; i++) {
		apply_line(&js, "{\"event\":\"start\",\"id\":1,\"attempt\":1," TIME ",\"gpus\":[0]}");
		apply_line(&js, "{\"event\":\"end\",\"id\":1,\"attempt\":1," TIME ",\"status\":\"completed\"}");
	}
	const struct job *job = jobs_find(&js, 1);
	assert_true(job->state == JOB_PENDING && job->num_attempts == MANY);
	jobs_finish(&js);
}

/* Each range is inserted before all others. Only a repair writes them, so there are few. */
static void test_lost_ids_are_limited(void **state)
{
	(void)state;
	struct jobs js;
	jobs_init(&js);
	for (int i = MANY; i > 0; i--) {
		char line[128];
		snprintf(line, sizeof(line), "{\"event\":\"lost\",\"from\":%d,\"to\":%d," TIME "}", 3 * i, 3 * i);
		assert_int_equal(jobs_apply(&js, 1, line, strlen(line)), 0);
	}
	assert_true(js.lost_ids.count == 65536 && js.bad_lines == MANY - 65536);
	jobs_finish(&js);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_keepers),
		cmocka_unit_test(test_newest_keeper_of_a_name_is_found),
		cmocka_unit_test(test_many_pilots),
		cmocka_unit_test(test_many_hooks),
		cmocka_unit_test(test_many_hooks_of_one_attempt_are_followed_in_order),
		cmocka_unit_test(test_lines_of_early_attempts),
		cmocka_unit_test(test_lost_ids_are_limited),
	};
	/* SIGXCPU ends the test. */
	const struct rlimit limit = {MOST_CPU_S, MOST_CPU_S};
	if (setrlimit(RLIMIT_CPU, &limit) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
