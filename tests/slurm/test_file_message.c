/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/file_message.h"
#include "support/check.h"

/* On the heap, so that reading beyond the end is found. */
static int decode(const void *data, size_t size, struct file_message *ret)
{
	char *copy = malloc(size + !size);
	assert_non_null(copy);
	memcpy(copy, data, size);
	int r = file_message_decode(copy, size, ret);
	if (r == 0)
		assert_true((const char *)ret->bytes == copy + (size - ret->size));
	free(copy);
	return r;
}

static int try_message(const struct file_message *m)
{
	struct text t = {0};
	struct file_message ret;
	file_message_encode(&t, m);
	assert_int_equal(text_error(&t), 0);
	int r = decode(t.data, t.length, &ret);
	text_finish(&t);
	return r;
}

static void test_message_is_read_as_it_was_written(void **state)
{
	(void)state;
	const struct file_message m = {.kind = FILE_ANSWER,
		.outcome = FILE_FAILED,
		.proxy = UINT64_MAX,
		.number = 7,
		.attempt = 2,
		.tries = 3,
		.gpu = -1,
		.session = 9,
		.processing_ns = 1ULL << 40,
		.node = "node7",
		.bytes = "a\0b",
		.size = 3};
	struct file_message ret;
	struct text t = {0};
	file_message_encode(&t, &m);
	assert_int_equal(file_message_decode(t.data, t.length, &ret), 0);
	assert_memory_equal(&ret, &m, offsetof(struct file_message, bytes));
	assert_int_equal(ret.size, 3);
	assert_memory_equal(ret.bytes, "a\0b", 3);
	/* Fewer bytes than the head are refused; the bytes after it may have any length. */
	for (size_t n = 0; n < t.length; n++)
		assert_int_equal(decode(t.data, n, &ret), n < t.length - 3 ? -EBADMSG : 0);
	text_finish(&t);
}

static void test_unknown_kinds_and_outcomes_are_refused(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind <= FILE_PONG + 1; kind++)
		for (uint32_t outcome = FILE_NONE; outcome <= FILE_UNPROCESSED + 1; outcome++) {
			bool known = kind >= FILE_HELLO && kind <= FILE_PONG && outcome <= FILE_UNPROCESSED;
			/* A hello has the state of a file, an answer its end; the others have neither. */
			bool fits = kind == FILE_HELLO || (kind == FILE_ANSWER ? outcome >= FILE_DONE : !outcome);
			assert_int_equal(try_message(&(struct file_message){.kind = kind, .outcome = outcome}),
				known && fits ? 0 : -EBADMSG);
		}
	assert_int_equal(try_message(&(struct file_message){.kind = UINT32_MAX}), -EBADMSG);
	assert_int_equal(try_message(&(struct file_message){.kind = FILE_ANSWER, .outcome = UINT32_MAX}), -EBADMSG);
}

static void test_name_of_a_node_without_an_end_is_refused(void **state)
{
	(void)state;
	struct file_message m = {.kind = FILE_HELLO, .bytes = "", .size = 1};
	memset(m.node, 'x', sizeof(m.node));
	assert_int_equal(try_message(&m), -EBADMSG);
	m.node[sizeof(m.node) - 1] = '\0';
	assert_int_equal(try_message(&m), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_message_is_read_as_it_was_written),
		cmocka_unit_test(test_unknown_kinds_and_outcomes_are_refused),
		cmocka_unit_test(test_name_of_a_node_without_an_end_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
