/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"
#include "base/json_put.h"
#include "base/json_read.h"

/* Walks an object to its end, values of nested ones included. */
static int walk(const char *text, size_t size)
{
	/* At the end of its allocation, so that reading beyond it is detected. */
	char *copy = malloc(size ? size : 1);
	assert_non_null(copy);
	memcpy(copy, text, size);
	struct json_cursor c;
	struct json_value key, value;
	int r = json_begin(&c, copy, size);
	while (r == 0 && (r = json_next_member(&c, &key, &value)) > 0)
		r = 0;
	if (r == 0)
		r = json_end(&c);
	free(copy);
	return r;
}

static void test_good_objects_are_read_to_their_end(void **state)
{
	(void)state;
	static const char *const good[] = {
		"{}",
		" { } ",
		"{\"a\":1}",
		"{\"a\":-0.5e+10,\"b\":[1,2,[]],\"c\":{\"d\":null}}\n",
		"{\"\":\"\\u00e9\\n\\\"\\\\\\/\"}",
		"{\"a\":true,\"b\":false}",
		"{\"long string without anything special in it at all\":\"0123456789abcdefé0123456789\"}",
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(walk(good[i], strlen(good[i])), 0);
}

/* Strings are scanned many bytes at a time. */
static void test_each_byte_of_a_string_is_seen_at_each_place(void **state)
{
	(void)state;
	for (int byte = 0; byte < 256; byte++)
		for (size_t at = 0; at < 40; at++) {
			char text[64] = "{\"a\":\"";
			size_t size = strlen(text);
			memset(text + size, 'a', 40);
			text[size + at] = (char)byte;
			memcpy(text + size + 40, "\"}", 2);
			bool good = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
			assert_int_equal(walk(text, size + 42), good ? 0 : -EBADMSG);
		}
}

static void test_invalid_json_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"",
		" ",
		"null",
		"[]",
		"{",
		"}",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1,}",
		"{,}",
		"{\"a\":1 \"b\":2}",
		"{a:1}",
		"{\"a\":01}",
		"{\"a\":+1}",
		"{\"a\":1.}",
		"{\"a\":.5}",
		"{\"a\":1e}",
		"{\"a\":-}",
		"{\"a\":nul}",
		"{\"a\":True}",
		"{\"a\":\"\\x\"}",
		"{\"a\":\"\\u12g4\"}",
		"{\"a\":\"\\u12\"}",
		"{\"a\":\"\t\"}",
		"{\"a\":\"\xff\"}",
		"{\"a\":\"\xc0\x80\"}",
		"{\"a\":\"\xed\xa0\x80\"}",
		"{\"a\":\"\xe2\x82\"}",
		"{\"a\":[1,]}",
		"{\"a\":[1}",
		"{\"a\":1}x",
		"{\"a\":1}{}",
		"{\"a\":\"",
		"{\"a\":\"\\",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(walk(bad[i], strlen(bad[i])), -EBADMSG);
	assert_int_equal(walk("{\"a\":\"\0\"}", 9), -EBADMSG);
}

static void test_every_prefix_is_refused(void **state)
{
	(void)state;
	const char *text =
		"{\"event\":\"add\",\"id\":12,\"command\":\"a\\u00e9\\\"\xc3\xa9\",\"after\":[1,2],\"x\":{\"y\":[true,null]}}";
	for (size_t n = 0; n < strlen(text); n++)
		assert_int_equal(walk(text, n), -EBADMSG);
	assert_int_equal(walk(text, strlen(text)), 0);
}

static void test_deep_nesting_is_refused_without_a_crash(void **state)
{
	(void)state;
	size_t depth = 1000000;
	char *text = malloc(depth + 6);
	assert_non_null(text);
	memcpy(text, "{\"a\":", 5);
	memset(text + 5, '[', depth);
	assert_int_equal(walk(text, depth + 5), -EBADMSG);
	free(text);
}

static void read_string(const char *text, char *out, size_t *ret)
{
	struct json_cursor c;
	struct json_value key, value;
	assert_int_equal(json_begin(&c, text, strlen(text)), 0);
	assert_int_equal(json_next_member(&c, &key, &value), 1);
	assert_true(json_is(&key, "s"));
	assert_int_equal(value.type, JSON_STRING);
	*ret = json_unescape(&value, out);
}

static void test_strings_are_unescaped(void **state)
{
	(void)state;
	static const struct {
		const char *text, *bytes;
		size_t size;
	} cases[] = {
		{"{\"s\":\"plain\"}", "plain", 5},
		{"{\"s\":\"\\b\\f\\n\\r\\t\\\"\\\\\\/\"}", "\b\f\n\r\t\"\\/", 8},
		{"{\"s\":\"\\u00e9\\u20AC\"}", "\xc3\xa9\xe2\x82\xac", 5},
		{"{\"s\":\"\\ud83d\\ude00\"}", "\xf0\x9f\x98\x80", 4},
		{"{\"s\":\"\\u0000\"}", "\0", 1},
		/* Lone surrogates: bytes of a file name, as Python writes them, and others. */
		{"{\"s\":\"\\udcff\\udc80\"}", "\xff\x80", 2},
		{"{\"s\":\"\\ud83dx\"}", "\xef\xbf\xbdx", 4},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[64];
		size_t size;
		read_string(cases[i].text, out, &size);
		assert_int_equal(size, cases[i].size);
		assert_memory_equal(out, cases[i].bytes, size);
	}
}

static void test_number_becomes_an_integer_only_if_whole_and_in_range(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int result;
		int64_t n;
	} cases[] = {
		{"0", 0, 0},
		{"-1", 0, -1},
		{"9223372036854775807", 0, INT64_MAX},
		{"9223372036854775808", -EBADMSG, 0},
		{"99999999999999999999999", -EBADMSG, 0},
		{"1.5", -EBADMSG, 0},
		{"1e3", -EBADMSG, 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_value v = {cases[i].text, (uint32_t)strlen(cases[i].text), JSON_NUMBER, false};
		int64_t n = 0;
		assert_int_equal(json_to_int64(&v, &n), cases[i].result);
		assert_true(n == cases[i].n);
	}
}

static void test_any_bytes_written_are_read_unchanged(void **state)
{
	(void)state;
	unsigned seed = 7;
	for (int round = 0; round < 2000; round++) {
		char bytes[40], out[200];
		size_t size = (size_t)(rand_r(&seed) % (int)sizeof(bytes));
		for (size_t i = 0; i < size; i++)
			bytes[i] = (char)(rand_r(&seed) % (round % 2 ? 256 : 128));
		struct text t = {0};
		json_open(&t, NULL, '{');
		json_put_any(&t, "s", bytes, size);
		json_close(&t, '}');
		assert_int_equal(text_error(&t), 0);
		struct json_cursor c;
		struct json_value key, value = {0}, last = {0};
		assert_int_equal(json_begin(&c, t.data, t.length), 0);
		while (json_next_member(&c, &key, &value) > 0)
			last = value;
		assert_int_equal(json_end(&c), 0);
		ssize_t n = json_is(&key, "s_b64") ? base64_decode(last.data, last.size, out)
						   : (ssize_t)json_unescape(&last, out);
		assert_int_equal(n, size);
		assert_memory_equal(out, bytes, size);
		text_finish(&t);
	}
}

static void test_base64_is_strict(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"A", "AA", "AAA", "AA=A", "A===", "====", "AAA\n", "AA==AAAA", "AB==", "AAB=", "A-=="};
	char out[16];
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(base64_decode(bad[i], strlen(bad[i]), out), -EBADMSG);
	assert_int_equal(base64_decode("", 0, out), 0);
	assert_int_equal(base64_decode("Zm9vYmE=", 8, out), 5);
	assert_memory_equal(out, "fooba", 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_objects_are_read_to_their_end),
		cmocka_unit_test(test_each_byte_of_a_string_is_seen_at_each_place),
		cmocka_unit_test(test_invalid_json_is_refused),
		cmocka_unit_test(test_every_prefix_is_refused),
		cmocka_unit_test(test_deep_nesting_is_refused_without_a_crash),
		cmocka_unit_test(test_strings_are_unescaped),
		cmocka_unit_test(test_number_becomes_an_integer_only_if_whole_and_in_range),
		cmocka_unit_test(test_any_bytes_written_are_read_unchanged),
		cmocka_unit_test(test_base64_is_strict),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
