/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "queue/input/commands.h"
#include "support/check.h"
#include "support/scratch.h"

static struct commands *open_text(const void *data, size_t size)
{
	struct commands *c = NULL;
	scratch_write("c.txt", data, size);
	assert_int_equal(commands_open("c.txt", TRUST_NAMED, &c, NULL), 0);
	return c;
}

static void next_is(struct commands *c, const char *text, uint64_t line, struct shell_command *ret)
{
	struct gd_error err = {0};
	int r = commands_next(c, ret, &err);
	if (r != 1)
		fail_msg("expected '%s', got %d: %s", text, r, err.message);
	if (ret->bytes.size != strlen(text) || memcmp(ret->bytes.data, text, ret->bytes.size) != 0)
		fail_msg("expected '%s', got '%.*s'", text, (int)ret->bytes.size, (const char *)ret->bytes.data);
	assert_int_equal(ret->line, line);
}

static void next_fails(struct commands *c, const char *words)
{
	struct gd_error err = {0};
	struct shell_command command;
	assert_int_equal(commands_next(c, &command, &err), -EINVAL);
	check_contains(err.message, words);
}

static void next_ends(struct commands *c)
{
	struct gd_error err = {0};
	struct shell_command command;
	int r = commands_next(c, &command, &err);
	if (r != 0)
		fail_msg("%d: %s", r, err.message);
	commands_close(c);
}

static void test_comments_and_blank_lines_are_skipped(void **state)
{
	(void)state;
	const char text[] = "\n# comment\n  # another \\\npython train.py # kept\n \t \n\tpython eval.py  \n#\nlast";
	struct commands *c = open_text(text, sizeof(text) - 1);
	struct shell_command command;
	next_is(c, "python train.py # kept", 4, &command);
	assert_int_equal(command.options->set, 0);
	next_is(c, "python eval.py", 6, &command);
	next_is(c, "last", 8, &command);
	next_ends(c);
	next_ends(open_text("", 0));
	next_ends(open_text("\n", 1));
}

static void test_a_backslash_continues_the_line_as_in_the_shell(void **state)
{
	(void)state;
	const char text[] = "a \\\n  --b \\\n#c\n"
			    "echo \\\\\n"
			    "echo \\\\\\\nd\n"
			    "e\\\n\n"
			    "\\\n\\\n\n"
			    "space\\ \n"
			    "f\\\r\ng\r\n";
	struct commands *c = open_text(text, sizeof(text) - 1);
	struct shell_command command;
	next_is(c, "a   --b #c", 1, &command);
	next_is(c, "echo \\\\", 4, &command);
	next_is(c, "echo \\\\d", 5, &command);
	next_is(c, "e", 7, &command);
	next_is(c, "space\\ ", 12, &command);
	next_is(c, "fg", 13, &command);
	next_ends(c);
}

static void test_options_go_to_the_next_command_alone(void **state)
{
	(void)state;
	const char text[] = "# gpuq: mem=12G num_gpus=2 timeout=2h name=eval\n"
			    "\n"
			    "# a remark\n"
			    "first\n"
			    "second\n"
			    "#gpuq:name='my eval'  priority=-5\n"
			    "  #  gpuq: retries=3 after=7,8 mem=500M\n"
			    "third\n"
			    "# gpuq :name=x\n"
			    "# gpuq:\n"
			    "fourth\n";
	struct commands *c = open_text(text, sizeof(text) - 1);
	struct shell_command command;
	next_is(c, "first", 4, &command);
	const struct job_options *o = command.options;
	assert_int_equal(o->set,
		1u << JOB_OPTION_MEM | 1u << JOB_OPTION_NUM_GPUS | 1u << JOB_OPTION_TIMEOUT | 1u << JOB_OPTION_NAME);
	assert_int_equal(o->mem_bytes, 12 * UNITS_GB);
	assert_int_equal(o->num_gpus, 2);
	assert_int_equal(o->timeout_ms, 7200000);
	assert_string_equal(o->name, "eval");
	next_is(c, "second", 5, &command);
	assert_int_equal(command.options->set, 0);
	next_is(c, "third", 8, &command);
	o = command.options;
	assert_string_equal(o->name, "my eval");
	assert_int_equal(o->priority, -5);
	assert_int_equal(o->retries, 3);
	assert_int_equal(o->mem_bytes, 500 * UNITS_MB);
	assert_int_equal(o->after.count, 2);
	assert_int_equal(o->after.terms[0].from, 7);
	assert_int_equal(o->after.terms[1].from, 8);
	next_is(c, "fourth", 11, &command);
	assert_int_equal(command.options->set, 0);
	next_ends(c);
}

static void test_errors_name_the_line_and_the_next_call_goes_on(void **state)
{
	(void)state;
	const char text[] = "ok\n"
			    "# gpuq: mem=lots\n"
			    "a\n"
			    "# gpuq: memory=5G\n"
			    "b\n"
			    "# gpuq: mem=1G mem=2G\n"
			    "c\n"
			    "# gpuq: name='x\n"
			    "d\n"
			    "# gpuq: mem\n"
			    "e\n"
			    "nul\0byte\n"
			    "# gpuq: after=7,,8\n"
			    "# gpuq: num_gpus=-1\n"
			    "# gpuq: quxx=1\n"
			    "# gpuq: name=\n"
			    "# gpuq: name='a'b\n"
			    "g\n"
			    "# gpuq: mem=1G\n"
			    "\n";
	struct commands *c = open_text(text, sizeof(text) - 1);
	struct shell_command command;
	next_is(c, "ok", 1, &command);
	next_fails(c, "c.txt:2: mem: 'lots' is not a size");
	next_is(c, "a", 3, &command);
	next_fails(c, "c.txt:4: unknown option 'memory'; did you mean 'mem'?");
	next_is(c, "b", 5, &command);
	next_fails(c, "c.txt:6: mem is given twice");
	next_is(c, "c", 7, &command);
	next_fails(c, "c.txt:8: name: the quotation mark ' is not closed");
	next_is(c, "d", 9, &command);
	next_fails(c, "c.txt:10: expected options of the form name=value");
	next_is(c, "e", 11, &command);
	next_fails(c, "c.txt:12: the command contains a NUL byte");
	next_fails(c, "c.txt:13: after: '7,,8' is not a job");
	next_fails(c, "c.txt:14: num_gpus: '-1' is out of range");
	next_fails(c, "c.txt:15: unknown option 'quxx'; known options: mem, num_gpus");
	next_fails(c, "c.txt:16: name: empty value");
	next_fails(c, "c.txt:17: name: expected a space");
	next_is(c, "g", 18, &command);
	next_fails(c, "c.txt:19: no command follows these options");
	next_ends(c);

	c = open_text("a \\", 3);
	next_fails(c, "c.txt:1: the last line ends with '\\'");
	next_ends(c);
	c = open_text("a \\\nb\\\n", 7);
	next_fails(c, "c.txt:2: the last line ends");
	next_ends(c);
}

static void test_every_byte_except_nul_is_kept(void **state)
{
	(void)state;
	char text[300];
	size_t size = 0;
	text[size++] = 'x';
	for (int i = 1; i < 256; i++)
		if (i != '\n')
			text[size++] = (char)i;
	text[size++] = 'x';
	struct commands *c = open_text(text, size);
	struct shell_command command;
	assert_int_equal(commands_next(c, &command, NULL), 1);
	assert_int_equal(command.bytes.size, size);
	assert_memory_equal(command.bytes.data, text, size);
	next_ends(c);
	c = open_text("\xef\xbb\xbf# gpuq: name=x\nhi\r\n", 22);
	next_is(c, "hi", 2, &command);
	assert_string_equal(command.options->name, "x");
	next_ends(c);
}

static void test_commands_of_megabytes_are_read_whole(void **state)
{
	(void)state;
	size_t size = 5 << 20;
	char *text = malloc(size + 32);
	assert_non_null(text);
	memset(text, 'a', size);
	memcpy(text + size, " \\\nb\nshort\n", 11);
	scratch_write("c.txt", text, size + 11);
	struct commands *c;
	struct gd_error err;
	struct shell_command command;
	assert_int_equal(commands_open("c.txt", TRUST_NAMED, &c, &err), 0);
	assert_int_equal(commands_next(c, &command, &err), 1);
	assert_int_equal(command.bytes.size, size + 2);
	assert_memory_equal(command.bytes.data, text, size);
	next_is(c, "short", 3, &command);
	next_ends(c);
	free(text);
}

static void test_many_lines_are_all_given(void **state)
{
	(void)state;
	const int lines = 100000;
	FILE *f = fopen("c.txt", "we");
	assert_non_null(f);
	for (int i = 0; i < lines; i++)
		fprintf(f, i % 3 ? "python train.py --seed %d\n" : "python \\\n  train.py --seed %d\r\n", i);
	fclose(f);
	struct commands *c;
	struct shell_command command;
	uint64_t line = 1;
	assert_int_equal(commands_open("c.txt", TRUST_NAMED, &c, NULL), 0);
	for (int i = 0; i < lines; i++) {
		char text[64];
		snprintf(text, sizeof(text), i % 3 ? "python train.py --seed %d" : "python   train.py --seed %d", i);
		next_is(c, text, line, &command);
		line += i % 3 ? 1 : 2;
	}
	next_ends(c);
}

static void test_a_line_of_a_pipe_is_given_before_the_next_is_written(void **state)
{
	(void)state;
	int ends[2], saved = dup(STDIN_FILENO);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_true(dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
	struct commands *c;
	struct shell_command command;
	assert_int_equal(commands_open("-", TRUST_NAMED, &c, NULL), 0);
	assert_int_equal(write(ends[1], "one\ntw", 6), 6);
	next_is(c, "one", 1, &command);
	assert_int_equal(write(ends[1], "o\n", 2), 2);
	next_is(c, "two", 2, &command);
	close(ends[1]);
	next_ends(c);
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	dup2(saved, STDIN_FILENO);
	close(saved);
	close(ends[0]);
}

static void test_a_file_that_cannot_be_read_is_named(void **state)
{
	(void)state;
	struct commands *c = NULL;
	struct shell_command command;
	struct gd_error err;
	assert_int_equal(commands_open("missing.txt", TRUST_NAMED, &c, &err), -ENOENT);
	check_contains(err.message, "'missing.txt': No such file or directory; expected one shell command per line");
	assert_null(c);
	assert_int_equal(commands_open(".", TRUST_NAMED, &c, &err), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(commands_next(c, &command, &err), -EISDIR);
		check_contains(err.message, "cannot read commands file '.'");
	}
	commands_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_comments_and_blank_lines_are_skipped),
		scratch_test(test_a_backslash_continues_the_line_as_in_the_shell),
		scratch_test(test_options_go_to_the_next_command_alone),
		scratch_test(test_errors_name_the_line_and_the_next_call_goes_on),
		scratch_test(test_every_byte_except_nul_is_kept),
		scratch_test(test_commands_of_megabytes_are_read_whole),
		scratch_test(test_many_lines_are_all_given),
		cmocka_unit_test(test_a_line_of_a_pipe_is_given_before_the_next_is_written),
		scratch_test(test_a_file_that_cannot_be_read_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
