/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "slurm/outbox.h"
#include "support/scratch.h"

#define FILE_NAME "pilots/p1.jsonl"

/* The test's directory, used as the queue's. */
static int here(void)
{
	static int fd = -1;
	if (fd >= 0)
		close(fd);
	fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static int join(void *context, const char *line, size_t size)
{
	struct text *t = context;
	text_append(t, line, size);
	text_append_char(t, '\n');
	return 0;
}

static int read_all(struct text *ret)
{
	text_clear(ret);
	return outbox_read(here(), "p1", join, ret);
}

static void make(struct pilot_outbox *o, int lines)
{
	assert_int_equal(outbox_create(o, here(), "p1", "{\"pilot\":\"p1\"}"), 0);
	for (int i = 1; i <= lines; i++) {
		char line[32];
		snprintf(line, sizeof(line), "{\"id\":%d}", i);
		assert_int_equal(outbox_append(o, line, strlen(line)), 0);
	}
}

static void test_what_was_appended_is_read_without_the_first_line(void **state)
{
	(void)state;
	struct pilot_outbox o = OUTBOX_NONE;
	struct text t = {0};
	make(&o, 2);
	assert_int_equal(read_all(&t), 0);
	assert_string_equal(t.data, "{\"id\":1}\n{\"id\":2}\n");
	/* Several at once. */
	static const char more[] = "{\"id\":3}\n{\"id\":4}";
	assert_int_equal(outbox_append(&o, more, sizeof(more) - 1), 0);
	assert_int_equal(outbox_append(&o, "{\"id\":5}", 8), 0);
	assert_int_equal(read_all(&t), 0);
	assert_string_equal(t.data, "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n{\"id\":4}\n{\"id\":5}\n");
	/* The file of another process is never taken over. */
	struct pilot_outbox other = OUTBOX_NONE;
	assert_int_equal(outbox_create(&other, here(), "p1", "{\"pilot\":\"p1\"}"), -EEXIST);
	assert_int_equal(outbox_create(&other, here(), "../p1", "{}"), -EINVAL);
	text_finish(&t);
	outbox_close(&o);
}

static void test_missing_file_and_empty_file_are_not_an_empty_outbox(void **state)
{
	(void)state;
	struct text t = {0};
	assert_int_equal(read_all(&t), -ENOENT);
	assert_int_equal(mkdir("pilots", 0700), 0);
	assert_int_equal(read_all(&t), -ENOENT);
	scratch_write_text(FILE_NAME, "");
	assert_int_equal(read_all(&t), -ENODATA);
	scratch_write_text(FILE_NAME, "{\"pilot\":\"p1\",\"n\":1");
	assert_int_equal(read_all(&t), -ENODATA);
	assert_int_equal(unlink(FILE_NAME), 0);
	assert_int_equal(mkdir(FILE_NAME, 0700), 0);
	assert_int_equal(read_all(&t), -EISDIR);
	text_finish(&t);
}

static void test_incomplete_last_line_is_ignored_and_damage_is_not(void **state)
{
	(void)state;
	struct pilot_outbox o = OUTBOX_NONE;
	struct text t = {0};
	make(&o, 2);
	char whole[512];
	snprintf(whole, sizeof(whole), "%s", scratch_read(FILE_NAME));
	size_t size = strlen(whole);
	scratch_write(FILE_NAME, whole, size - 1);
	assert_int_equal(read_all(&t), 0);
	assert_string_equal(t.data, "{\"id\":1}\n");
	size_t last_at = (size_t)(strrchr(whole, '{') - whole);
	/* A changed byte anywhere never makes the outbox look as if it had no end of a job. */
	for (size_t i = 0; i + 1 < size; i++) {
		whole[i] ^= 1;
		scratch_write(FILE_NAME, whole, size);
		assert_int_equal(read_all(&t), -EBADMSG);
		if (i < last_at && whole[i] != ('\n' ^ 1)) /* without its newline, a line spoils the next one, too */
			assert_non_null(strstr(t.data, "{\"id\":2}"));
		whole[i] ^= 1;
	}
	/* A line that is missing. */
	char *second = strchr(whole, '\n') + 1, *third = strchr(second, '\n') + 1;
	memmove(second, third, strlen(third) + 1);
	scratch_write_text(FILE_NAME, whole);
	assert_int_equal(read_all(&t), -EBADMSG);
	/* The intact lines were read. */
	assert_string_equal(t.data, "{\"id\":2}\n");
	text_finish(&t);
	outbox_close(&o);
}

/* As on a full disk: a file size limit. */
static void test_append_that_failed_can_be_tried_again(void **state)
{
	(void)state;
	struct pilot_outbox o = OUTBOX_NONE;
	struct text t = {0};
	make(&o, 1);
	struct rlimit old, limit;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_IGN);
	limit = (struct rlimit){(rlim_t)o.size + 10, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(outbox_append(&o, "{\"id\":2}", 8), -EFBIG);
	assert_int_equal(outbox_append(&o, "{\"id\":2}\n{\"id\":3}", 17), -EFBIG);
	assert_int_equal(read_all(&t), 0);
	assert_string_equal(t.data, "{\"id\":1}\n");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(outbox_append(&o, "{\"id\":2}", 8), 0);
	assert_int_equal(read_all(&t), 0);
	assert_string_equal(t.data, "{\"id\":1}\n{\"id\":2}\n");
	text_finish(&t);
	outbox_close(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_what_was_appended_is_read_without_the_first_line),
		scratch_test(test_missing_file_and_empty_file_are_not_an_empty_outbox),
		scratch_test(test_incomplete_last_line_is_ignored_and_damage_is_not),
		scratch_test(test_append_that_failed_can_be_tried_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
