/* SPDX-License-Identifier: MIT */
/* A command in one string: words, or a shell command. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "launch/worker.h"

static void assert_words(const char *command, const char *const *words)
{
	char **argv = NULL;
	assert_int_equal(launch_command_argv(command, &argv), 0);
	size_t i = 0;
	for (; words[i]; i++) {
		assert_non_null(argv[i]);
		assert_string_equal(argv[i], words[i]);
	}
	assert_null(argv[i]);
	free(argv);
}

static void test_plain_words_need_no_shell(void **state)
{
	(void)state;
	assert_words("python3 ocr_worker.py", (const char *const[]){"python3", "ocr_worker.py", NULL});
	assert_words("  ./w  --model=base\t-x=1,2 \n", (const char *const[]){"./w", "--model=base", "-x=1,2", NULL});
	assert_words("a b c d e f g", (const char *const[]){"a", "b", "c", "d", "e", "f", "g", NULL});
	assert_words("a", (const char *const[]){"a", NULL});
}

static void assert_shell(const char *command)
{
	assert_words(command, (const char *const[]){"/bin/sh", "-c", command, NULL});
}

static void test_anything_but_plain_words_goes_to_the_shell(void **state)
{
	(void)state;
	assert_shell("python3 'my worker.py'");
	assert_shell("cd dir && ./worker");
	assert_shell("OMP_NUM_THREADS=1 ./worker");
	assert_shell("exec ./worker");
	assert_shell(". venv/bin/activate; python w.py");
	assert_shell("~/worker");
	assert_shell("w $HOME");
	assert_shell("w *.x");
	assert_shell("w\xc3\xa9");
	assert_shell(";");
}

static void test_empty_command_is_an_error(void **state)
{
	(void)state;
	char **argv = NULL;
	assert_int_equal(launch_command_argv("", &argv), -EINVAL);
	assert_int_equal(launch_command_argv(" \t\n", &argv), -EINVAL);
	assert_null(argv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_words_need_no_shell),
		cmocka_unit_test(test_anything_but_plain_words_goes_to_the_shell),
		cmocka_unit_test(test_empty_command_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
