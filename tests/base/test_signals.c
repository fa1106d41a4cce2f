/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/signals.h"
#include "support/host.h"

struct kernel_action {
	void (*handler)(int);
	unsigned long flags;
	void *restorer;
	uint64_t mask[2];
};

static int ignore(int signal)
{
	struct kernel_action a = {.handler = SIG_IGN};
	return (int)syscall(SYS_rt_sigaction, signal, &a, NULL, 8);
}

/* A line of /proc/self/status: a bit for each signal. */
static uint64_t mask_of(const char *name)
{
	char line[256];
	uint64_t mask = UINT64_MAX;
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			mask = strtoull(line + strlen(name) + 1, NULL, 16);
	if (f)
		fclose(f);
	return mask;
}

static int ignore_all_and_reset(void)
{
	for (int s = 1; s < NSIG; s++)
		if (ignore(s) < 0 && s != SIGKILL && s != SIGSTOP)
			return 1;
	if (!(mask_of("SigIgn") & UINT64_C(3) << 31))
		return 2;
	signals_reset();
	return mask_of("SigIgn") == 0 ? 0 : 3;
}

static void test_no_signal_stays_ignored_not_even_those_of_the_c_library(void **state)
{
	(void)state;
	host_run(ignore_all_and_reset);
}

static void *nothing(void *argument)
{
	pause();
	return argument;
}

/* With threads, setgid() sends signal 33 to each of them; its default action would end this process. */
static int reset_and_change_group_with_threads(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, nothing, NULL) != 0)
		return 1;
	signals_reset();
	return setgid(getgid()) == 0 ? 0 : 2;
}

static void test_handlers_of_the_c_library_stay(void **state)
{
	(void)state;
	host_run(reset_and_change_group_with_threads);
}

static void test_signals_have_their_usual_names(void **state)
{
	(void)state;
	assert_string_equal(signal_name(SIGKILL), "SIGKILL");
	assert_string_equal(signal_name(SIGSTKFLT), "SIGSTKFLT");
	assert_string_equal(signal_name(SIGRTMIN + 8), "signal 42");
	/* Two results in one expression do not share a buffer. */
	char both[64];
	snprintf(both, sizeof(both), "%s %s", signal_name(SIGSEGV), signal_name(0));
	assert_string_equal(both, "SIGSEGV signal 0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_signal_stays_ignored_not_even_those_of_the_c_library),
		cmocka_unit_test(test_handlers_of_the_c_library_stay),
		cmocka_unit_test(test_signals_have_their_usual_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
