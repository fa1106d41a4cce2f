/* SPDX-License-Identifier: MIT */
/* Settings as strings and as bytes of any size, and the context of the ops. TEST_WORKER is a worker program. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pattern.h"
#include "pool/settings.h"
#include "recorder.h"
#include "support/board.h"
#include "support/process.h"
#include "support/wait.h"

#define MIB   ((size_t)1 << 20)
#define LARGE (100 * MIB)

static void submit(struct gd_pool *pool, const char *words)
{
	assert_int_equal(gd_pool_submit(pool, words, strlen(words), NULL, NULL, NULL), 0);
}

/* ---- The packed form ---------------------------------------------------- */

static const struct gd_setting some[] = {
	{"model", "large", 0},
	{"", "no key", 0},
	{"empty", "", 0},
	{"bytes", "a\0b", 3},
	{"model", "second", 0},
	{"odd", "12345678901234567", 17},
	{"number", &(const double){2.5}, sizeof(double)},
};
#define NUM_SOME (sizeof(some) / sizeof(some[0]))

static void test_packed_settings_are_found_again(void **state)
{
	(void)state;
	int fd = -1;
	const struct settings *s = NULL;
	struct gd_bytes value;
	assert_int_equal(settings_pack(some, NUM_SOME, &fd), 0);
	assert_int_equal(settings_map(fd, &s), 0);
	close(fd);
	assert_true(settings_find(s, "model", &value));
	assert_string_equal(value.data, "large");
	assert_true(settings_find(s, "", &value));
	assert_string_equal(value.data, "no key");
	assert_true(settings_find(s, "empty", &value));
	assert_string_equal(value.data, "");
	assert_int_equal(value.size, 0);
	assert_true(settings_find(s, "bytes", &value));
	assert_int_equal(value.size, 3);
	assert_memory_equal(value.data, "a\0b", 4);
	assert_true(settings_find(s, "number", &value));
	assert_true(*(const double *)value.data == 2.5);
	assert_false(settings_find(s, "large", &value));
}

static void test_an_empty_list_of_settings_is_packed_too(void **state)
{
	(void)state;
	int fd = -1;
	const struct settings *s = NULL;
	struct gd_bytes value;
	assert_int_equal(settings_pack(NULL, 0, &fd), 0);
	assert_int_equal(settings_map(fd, &s), 0);
	close(fd);
	assert_false(settings_find(s, "model", &value));
}

static void test_unsealed_or_inconsistent_settings_are_refused(void **state)
{
	(void)state;
	const struct settings *s;
	int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 64), 0);
	assert_int_equal(settings_map(fd, &s), -EPROTO);
	const uint64_t lies[8] = {64, 1, 64, 16, 8}; /* its key begins beyond the end */
	assert_int_equal(write(fd, lies, sizeof(lies)), sizeof(lies));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
	assert_int_equal(settings_map(fd, &s), -EPROTO);
	close(fd);
}

/* ---- In workers --------------------------------------------------------- */

static int check_settings(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	struct gd_bytes value = {.data = "untouched"};
	if (strcmp(gd_worker_setting(w, "model", "none"), "large") != 0)
		return gd_worker_fail(w, -EIO, "model");
	if (strcmp(gd_worker_setting(w, "missing", "none"), "none") != 0 || gd_worker_setting(w, "missing", NULL))
		return gd_worker_fail(w, -EIO, "missing");
	if (gd_worker_setting_bytes(w, "missing", &value) != -ENOENT || strcmp(value.data, "untouched") != 0)
		return gd_worker_fail(w, -EIO, "missing bytes");
	if (gd_worker_setting_bytes(w, "bytes", &value) != 0 || value.size != 3 || memcmp(value.data, "a\0b", 4) != 0)
		return gd_worker_fail(w, -EIO, "bytes");
	return 0;
}

static void test_workers_read_settings_as_strings_and_as_bytes(void **state)
{
	static const struct gd_worker_ops ops = {
		.size = sizeof(ops), .setup = check_settings, .process = recorder_echo};
	struct recorder *rec = *state;
	rec->options.settings = some;
	rec->options.num_settings = NUM_SOME;
	assert_int_equal(recorder_run(rec, &ops), 0);
	assert_int_equal(rec->count[CALLBACK_SETUP_FAIL], 0);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 10);
}

/* Puts the inode of the mapping on the board, by slot and process. */
static int check_large(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	struct gd_bytes value;
	if (gd_worker_setting_bytes(w, "large", &value) != 0 || value.size != LARGE ||
		!pattern_is_filled(value.data, LARGE, 7) || ((const char *)value.data)[LARGE] != '\0')
		return gd_worker_fail(w, -EIO, "the large setting is wrong");
	int i = atomic_fetch_add(&board->setups, 1);
	atomic_store(&board->words[i], process_memfd_at(value.data));
	return 0;
}

static int die_or_echo(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	if (task->size == 3)
		raise(SIGKILL);
	return gd_worker_result(w, task->data, task->size);
}

static struct gd_setting large_setting(void)
{
	void *value = malloc(LARGE);
	assert_non_null(value);
	pattern_fill(value, LARGE, 7);
	return (struct gd_setting){.key = "large", .value = value, .value_size = LARGE};
}

static void test_100_mib_reach_each_worker_and_its_replacement_without_a_copy(void **state)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .setup = check_large, .process = die_or_echo};
	struct recorder *rec = *state;
	const struct gd_setting setting = large_setting();
	rec->options.settings = &setting;
	rec->options.num_settings = 1;
	int fds = process_count_fds();
	struct gd_pool *pool = recorder_open(rec, &ops);
	memset((void *)setting.value, 0, LARGE); /* it was copied */
	free((void *)setting.value);
	assert_int_equal(gd_pool_wait_ready(pool, WAIT_MS), 2);
	submit(pool, "die");
	recorder_drain(pool);
	assert_int_equal(gd_pool_wait_ready(pool, WAIT_MS), 2);
	submit(pool, "echo");
	recorder_drain(pool);
	assert_int_equal(rec->count[CALLBACK_SUCCESS], 1);
	assert_int_equal(rec->count[CALLBACK_SETUP_FAIL], 0);
	assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
	assert_int_equal(process_count_fds(), fds);
	assert_int_equal(atomic_load(&board->setups), 3);
	assert_true(atomic_load(&board->words[0]) != 0);
	for (int i = 1; i < 3; i++)
		assert_true(atomic_load(&board->words[i]) == atomic_load(&board->words[0]));
}

static char told[256];

static int keep_told(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)rec;
	if (note->kind == CALLBACK_SUCCESS)
		snprintf(told, sizeof(told), "%.*s", (int)event->result.size, (const char *)event->result.data);
	return 0;
}

static void test_an_executed_worker_maps_100_mib_too(void **state)
{
	struct recorder *rec = *state;
	const char *const argv[] = {getenv("TEST_WORKER"), NULL};
	const struct gd_setting setting = large_setting();
	rec->options.worker_argv = argv;
	rec->options.settings = &setting;
	rec->options.num_settings = 1;
	rec->on_note = keep_told;
	struct gd_pool *pool = recorder_open(rec, NULL);
	free((void *)setting.value);
	submit(pool, "setting");
	recorder_drain(pool);
	char expected[64];
	const unsigned char first = 7 * 31 + 1;
	snprintf(expected, sizeof(expected), "%zu bytes from %d, a mapping", LARGE, first);
	assert_string_equal(told, expected);
	assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
}

/* ---- Context ------------------------------------------------------------ */

static int tell_context(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	const char *words = gd_worker_context(w);
	return gd_worker_result(w, words, strlen(words));
}

static void test_a_forked_worker_has_the_context_as_it_was_at_open(void **state)
{
	struct recorder *rec = *state;
	char words[] = "before";
	const struct gd_worker_ops ops = {.size = sizeof(ops), .process = tell_context, .context = words};
	rec->on_note = keep_told;
	struct gd_pool *pool = recorder_open(rec, &ops);
	strcpy(words, "after");
	submit(pool, "context");
	recorder_drain(pool);
	assert_string_equal(told, "before");
	assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
}

static void test_an_executed_worker_has_its_own_context(void **state)
{
	struct recorder *rec = *state;
	const char *const argv[] = {getenv("TEST_WORKER"), NULL};
	rec->options.worker_argv = argv;
	rec->on_note = keep_told;
	struct gd_pool *pool = recorder_open(rec, NULL);
	submit(pool, "context");
	recorder_drain(pool);
	assert_string_equal(told, "of the program");
	assert_int_equal(gd_pool_close(pool, NULL, 0, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packed_settings_are_found_again),
		cmocka_unit_test(test_an_empty_list_of_settings_is_packed_too),
		cmocka_unit_test(test_unsealed_or_inconsistent_settings_are_refused),
		recorder_test(test_workers_read_settings_as_strings_and_as_bytes),
		recorder_test(test_100_mib_reach_each_worker_and_its_replacement_without_a_copy),
		recorder_test(test_an_executed_worker_maps_100_mib_too),
		recorder_test(test_a_forked_worker_has_the_context_as_it_was_at_open),
		recorder_test(test_an_executed_worker_has_its_own_context),
	};
	return cmocka_run_group_tests_name("pool settings", tests, NULL, NULL);
}
