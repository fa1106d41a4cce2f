/* SPDX-License-Identifier: MIT */
/* Lengths of audio files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/launch_audio.h"
#include "support/scratch.h"

#define LIMIT_SECONDS 60

/* Another user can replace a found file with a pipe. */
static void test_pipe_is_not_waited_for(void **state)
{
	(void)state;
	double seconds;
	scratch_put("a.wav", 1);
	int r = launch_audio_seconds(NULL, "a.wav", &seconds);
	if (r == -ENOPKG)
		skip();
	assert_int_equal(r, -ENODATA);
	assert_int_equal(mkfifo("b.wav", 0600), 0);
	alarm(LIMIT_SECONDS);
	assert_int_equal(launch_audio_seconds(NULL, "b.wav", &seconds), -EINVAL);
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_pipe_is_not_waited_for),
	};
	return cmocka_run_group_tests_name("cli_launch_audio", tests, NULL, NULL);
}
