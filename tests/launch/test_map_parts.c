/* SPDX-License-Identifier: MIT */
/* The separate parts of gpuq map: input, order, record. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text.h"
#include "launch/map_input.h"
#include "launch/map_order.h"
#include "launch/map_record.h"

/* ---- Input -------------------------------------------------------------- */

static void put_line(struct text *t, const struct map_line *line)
{
	text_appendf(
		t, "%llu:%.*s%s;", (unsigned long long)line->number, (int)line->size, line->text, line->bad ? "!" : "");
}

/* Reads from a pipe into which the bytes are written in pieces of this size. */
static void read_in_pieces(const char *bytes, size_t piece, bool lines, struct text *ret)
{
	int fds[2];
	struct map_line line;
	assert_int_equal(pipe(fds), 0);
	struct map_input in = {.fd = fds[0], .lines = lines};
	size_t left = strlen(bytes);
	text_clear(ret);
	for (;;) {
		enum map_input_event event = map_input_next(&in, MAP_INPUT_ITEM, &line);
		if (event == MAP_INPUT_END)
			break;
		if (event == MAP_INPUT_LINE) {
			put_line(ret, &line);
			continue;
		}
		size_t n = left < piece ? left : piece;
		if (n > 0)
			assert_int_equal(write(fds[1], bytes, n), n);
		else if (fds[1] >= 0)
			fds[1] = (close(fds[1]), -1);
		bytes += n;
		left -= n;
		assert_int_equal(map_input_read(&in), 0);
	}
	map_input_finish(&in);
}

static void test_pieces_of_any_size_give_the_same_items(void **state)
{
	(void)state;
	struct text got = {0};
	static const char bytes[] = "\xEF\xBB\xBF 1\n\n \t\r\n{\"a\": 2} \r\n[1,\n\"x\"";
	for (size_t piece = 1; piece <= sizeof(bytes); piece++) {
		read_in_pieces(bytes, piece, false, &got);
		assert_string_equal(text_string(&got), "1:1;4:{\"a\": 2};5:[1,!;6:\"x\";");
		read_in_pieces(bytes, piece, true, &got);
		assert_string_equal(text_string(&got), "1: 1;2:;3: \t;4:{\"a\": 2} ;5:[1,;6:\"x\";");
	}
	text_finish(&got);
}

static void test_empty_input_has_no_item(void **state)
{
	(void)state;
	struct text got = {0};
	read_in_pieces("", 1, true, &got);
	assert_string_equal(text_string(&got), "");
	read_in_pieces("\n", 1, true, &got);
	assert_string_equal(text_string(&got), "1:;");
	read_in_pieces("\n", 1, false, &got);
	assert_string_equal(text_string(&got), "");
	text_finish(&got);
}

/* ---- Order -------------------------------------------------------------- */

static void take_all(struct map_order *o, uint64_t *next)
{
	struct map_held held;
	char expected[24];
	while (map_order_take(o, &held)) {
		snprintf(expected, sizeof(expected), "%llu", (unsigned long long)(*next)++);
		assert_int_equal(held.size, strlen(expected));
		assert_memory_equal(held.line, expected, held.size);
		free(held.line);
	}
}

static void test_lines_come_in_order_whatever_the_order_of_their_ends(void **state)
{
	(void)state;
	enum { COUNT = 5000 };
	static uint64_t places[COUNT];
	for (unsigned seed = 0; seed < 20; seed++) {
		struct map_order o = {0};
		const struct map_ended ended = {0};
		uint64_t next = 0;
		char line[24];
		srand(seed);
		for (size_t i = 0; i < COUNT; i++) {
			size_t k = (size_t)rand() % (i + 1);
			places[i] = places[k];
			places[k] = i;
		}
		for (size_t i = 0; i < COUNT; i++) {
			snprintf(line, sizeof(line), "%llu", (unsigned long long)places[i]);
			assert_int_equal(map_order_put(&o, places[i], &ended, line, strlen(line)), 0);
			take_all(&o, &next);
		}
		assert_int_equal(next, COUNT);
		assert_int_equal(o.bytes, 0);
		map_order_finish(&o);
	}
}

/* ---- Record ------------------------------------------------------------- */

static int load(struct map_record *r, const void *bytes, size_t size, uint64_t *ret_end, struct gd_error *err)
{
	struct map_file f = {.name = "out", .fd = memfd_create("out", MFD_CLOEXEC)};
	assert_int_equal(write(f.fd, bytes, size), size);
	int e = map_record_load(r, &f, ret_end, err);
	close(f.fd);
	return e;
}

static void test_record_is_read_as_it_was_written(void **state)
{
	(void)state;
	struct text t = {0};
	struct map_record r = MAP_RECORD_NONE;
	struct gd_error err;
	uint64_t end;
	uint32_t check;
	map_record_format(&t, 1, 0, false, "{\"n\":[2]}", 9);
	map_record_format(&t, 1000000, 0xFFFFFFFF, true, "a \"reason\"\n\xff", 12);
	map_record_format(&t, 3, 0x0123ABCD, false, "null", 4);
	assert_int_equal(load(&r, t.data, t.length, &end, &err), 0);
	assert_int_equal(end, t.length);
	assert_int_equal(r.count, 3);
	assert_int_equal(r.failed, 1);
	assert_int_equal(r.highest, 1000000);
	assert_true(map_record_has(&r, 1, &check) && check == 0);
	assert_true(map_record_has(&r, 3, &check) && check == 0x0123ABCD);
	assert_true(map_record_has(&r, 1000000, &check) && check == 0xFFFFFFFF);
	assert_false(map_record_has(&r, 2, &check) || map_record_has(&r, 1000001, &check) ||
		     map_record_has(&r, UINT64_MAX, &check));
	map_record_finish(&r);
	text_finish(&t);
}

/* Wherever the last line is cut, all lines before it count and it does not. */
static void test_record_that_is_cut_ends_at_its_last_whole_line(void **state)
{
	(void)state;
	struct text t = {0};
	struct gd_error err;
	map_record_format(&t, 1, 7, false, "\"x\"", 3);
	size_t first = t.length;
	map_record_format(&t, 2, 8, true, "no", 2);
	for (size_t size = first; size < t.length; size++) {
		struct map_record r = MAP_RECORD_NONE;
		uint64_t end;
		assert_int_equal(load(&r, t.data, size, &end, &err), 0);
		assert_int_equal(end, first);
		assert_int_equal(r.count, 1);
		map_record_finish(&r);
	}
	text_finish(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_of_any_size_give_the_same_items),
		cmocka_unit_test(test_empty_input_has_no_item),
		cmocka_unit_test(test_lines_come_in_order_whatever_the_order_of_their_ends),
		cmocka_unit_test(test_record_is_read_as_it_was_written),
		cmocka_unit_test(test_record_that_is_cut_ends_at_its_last_whole_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
