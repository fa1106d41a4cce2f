/* SPDX-License-Identifier: MIT */
/* The lines of the worker protocol, written and read. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "launch/message.h"

static void test_setup_has_every_setting_once(void **state)
{
	(void)state;
	const struct gd_setting settings[] = {{.key = "beam", .value = "5"}, {.key = "model_size", .value = "base"},
		{.key = "beam", .value = "7"}, {.key = "a\"b\n", .value = "\xff"}};
	struct text t = {0};
	message_put_setup(&t, 3, 0, 45, settings, 4);
	assert_string_equal(text_string(&t), "{\"type\":\"setup\",\"gpu\":3,\"seed\":45,\"settings\":{"
					     "\"model_size\":\"base\",\"beam\":\"7\",\"a\\\"b\\n\":null,"
					     "\"a\\\"b\\n_b64\":\"/w==\"},\"device\":0}\n");
	text_clear(&t);
	message_put_setup(&t, 0, 0, 42, NULL, 0);
	assert_string_equal(
		text_string(&t), "{\"type\":\"setup\",\"gpu\":0,\"seed\":42,\"settings\":{},\"device\":0}\n");
	text_finish(&t);
}

static void test_task_names_file_and_folder(void **state)
{
	(void)state;
	struct text t = {0};
	message_put_task(&t, 7, &(struct gd_file){.path = "/a/\"b\".png", .output_dir = "/out/b", .stem = "b"});
	assert_string_equal(text_string(&t),
		"{\"type\":\"task\",\"id\":7,\"file\":\"/a/\\\"b\\\".png\",\"output_dir\":\"/out/b\"}\n");
	text_finish(&t);
}

/* A replaced byte would make it the path of another file, which nobody has checked. */
static void test_path_that_is_not_utf8_is_sent_only_in_base64(void **state)
{
	(void)state;
	struct text t = {0};
	message_put_task(&t, 8, &(struct gd_file){.path = "/\xe9.png", .output_dir = "/o", .stem = "b"});
	assert_string_equal(
		text_string(&t), "{\"type\":\"task\",\"id\":8,\"file_b64\":\"L+kucG5n\",\"output_dir\":\"/o\"}\n");
	text_clear(&t);
	message_put_task(&t, 9, &(struct gd_file){.path = "/\xEF\xBF\xBD", .output_dir = "/\xed\xa0\x80", .stem = "b"});
	assert_string_equal(text_string(&t),
		"{\"type\":\"task\",\"id\":9,\"file\":\"/\xEF\xBF\xBD\",\"output_dir_b64\":\"L+2ggA==\"}\n");
	text_finish(&t);
}

static struct message read_well(const char *line)
{
	struct message m;
	const char *why;
	assert_int_equal(message_read(line, strlen(line), &m, &why), 0);
	return m;
}

static void test_answer_has_id_result_duration_and_error(void **state)
{
	(void)state;
	struct message m = read_well("{\"id\":7,\"ok\":true,\"duration\":12.5}");
	assert_int_equal(m.kind, MESSAGE_ANSWER);
	assert_int_equal(m.id, 7);
	assert_true(m.ok && m.seconds == 12.5);
	m = read_well(" { \"duration\" : null , \"ok\" : true , \"id\" : 0, \"x\": [1, {\"id\": 3}] } ");
	assert_true(m.kind == MESSAGE_ANSWER && m.id == 0 && m.ok && m.seconds == -1);
	m = read_well("{\"id\":7,\"ok\":false,\"error\":\"one\\ntwo\\u001b\\n\"}");
	assert_false(m.ok);
	assert_string_equal(m.error, "one two\xEF\xBF\xBD");
	m = read_well("{\"id\":7,\"ok\":false,\"error\":{\"code\":5}}");
	assert_string_equal(m.error, "{\"code\":5}");
	m = read_well("{\"id\":7,\"ok\":false}");
	assert_string_equal(m.error, "");
}

static void test_answer_to_items_has_results_and_errors(void **state)
{
	(void)state;
	struct text t = {0};
	message_put_items(&t, 8, "[1,\"a\"]", 7);
	assert_string_equal(text_string(&t), "{\"type\":\"items\",\"id\":8,\"items\":[1,\"a\"]}\n");
	text_finish(&t);
	struct message m = read_well("{\"id\":8,\"ok\":true,\"results\":[1,[]],\"errors\":[null,\"no\"]}");
	assert_true(m.ok && !m.out_of_memory);
	assert_int_equal(m.results.type, JSON_ARRAY);
	assert_memory_equal(m.results.data, "[1,[]]", 6);
	assert_memory_equal(m.errors.data, "[null,\"no\"]", 11);
	assert_true(read_well("{\"id\":8,\"ok\":false,\"oom\":true}").out_of_memory);
	assert_true(read_well("{\"id\":8,\"ok\":false,\"error\":\"CUDA Out Of Memory.\"}").out_of_memory);
	assert_false(read_well("{\"id\":8,\"ok\":false,\"error\":\"bad\",\"oom\":false}").out_of_memory);
	assert_false(read_well("{\"id\":8,\"ok\":true,\"oom\":true}").out_of_memory);
}

static void test_ready_error_and_unknown_types_are_distinguished(void **state)
{
	(void)state;
	assert_int_equal(read_well("{\"type\":\"ready\"}").kind, MESSAGE_READY);
	struct message m = read_well("{\"type\":\"error\",\"error\":\"no model\"}");
	assert_int_equal(m.kind, MESSAGE_ERROR);
	assert_string_equal(m.error, "no model");
	assert_int_equal(read_well("{\"type\":\"progress\",\"percent\":5}").kind, MESSAGE_OTHER);
}

static void test_long_error_is_cut_at_a_whole_character(void **state)
{
	(void)state;
	struct text t = {0};
	text_append_string(&t, "{\"id\":7,\"ok\":false,\"error\":\"x");
	for (int i = 0; i < 5000; i++)
		text_append_string(&t, "é");
	text_append_string(&t, "\"}");
	struct message m = read_well(text_string(&t));
	assert_true(strlen(m.error) > 700 && strlen(m.error) < sizeof(m.error));
	assert_int_equal((unsigned char)m.error[strlen(m.error) - 1], 0xA9);
	text_finish(&t);
}

static void test_malformed_message_is_refused_with_a_reason(void **state)
{
	(void)state;
	static const struct {
		const char *line, *why;
	} cases[] = {
		{"", "not a JSON object"},
		{"{", "not a JSON object"},
		{"[]", "not a JSON object"},
		{"{\"id\":7,\"ok\":true} x", "not a JSON object"},
		{"{'id': 7, 'ok': True}", "not a JSON object"},
		{"{\"id\":7,\"ok\":true,\"error\":\"\xff\"}", "not a JSON object"},
		{"{\"id\":7}", "\"ok\""},
		{"{\"id\":7,\"ok\":1}", "\"ok\""},
		{"{\"id\":7.5,\"ok\":true}", "\"id\""},
		{"{\"id\":\"7\",\"ok\":true}", "\"id\""},
		{"{\"id\":7,\"ok\":true,\"duration\":\"12\"}", "\"duration\""},
		{"{\"id\":7,\"ok\":true,\"duration\":-1}", "\"duration\""},
		{"{\"id\":7,\"ok\":true,\"duration\":1e999}", "\"duration\""},
		{"{\"ok\":true}", "neither"},
		{"{\"type\":5}", "neither"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct message m = {.id = 99};
		const char *why = "";
		if (message_read(cases[i].line, strlen(cases[i].line), &m, &why) != -EBADMSG)
			fail_msg("not refused: %s", cases[i].line);
		if (!strstr(why, cases[i].why))
			fail_msg("'%s' for: %s", why, cases[i].line);
		assert_int_equal(m.id, 99);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_setup_has_every_setting_once),
		cmocka_unit_test(test_task_names_file_and_folder),
		cmocka_unit_test(test_path_that_is_not_utf8_is_sent_only_in_base64),
		cmocka_unit_test(test_answer_has_id_result_duration_and_error),
		cmocka_unit_test(test_answer_to_items_has_results_and_errors),
		cmocka_unit_test(test_ready_error_and_unknown_types_are_distinguished),
		cmocka_unit_test(test_long_error_is_cut_at_a_whole_character),
		cmocka_unit_test(test_malformed_message_is_refused_with_a_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
