/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "support/host.h"

#ifndef SYS_close_range /* of kernel headers before 5.9 */
#define SYS_close_range 436
#endif

/* From now on close_range() fails as on a kernel that does not have it. */
static int forbid_close_range(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		return -errno;
	return syscall(SYS_close_range, 3u, 2u, 0u) < 0 && errno == ENOSYS ? 0 : -EINVAL;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* 0, or which check failed. The last descriptor lies above the limit that holds when they are closed. */
static int check_close_range(void)
{
	const int fds[] = {20, 21, 22, 23, 300, 900};
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (dup2(STDERR_FILENO, fds[i]) < 0)
			return 1;
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 2;
	limit.rlim_cur = 400;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 3;
	file_close_range(22, 21);
	if (!is_open(21) || !is_open(22))
		return 4;
	file_close_range(21, 22);
	if (!is_open(20) || is_open(21) || is_open(22) || !is_open(23) || !is_open(300))
		return 5;
	file_close_range(23, INT_MAX);
	if (!is_open(20) || is_open(23) || is_open(300) || is_open(900))
		return 6;
	return is_open(STDERR_FILENO) ? 0 : 7;
}

static int check_without_close_range(void)
{
	return forbid_close_range() < 0 ? 100 : check_close_range();
}

static void test_descriptors_of_a_range_are_closed_and_no_others(void **state)
{
	(void)state;
	host_run(check_close_range);
}

static void test_a_kernel_without_close_range_closes_the_same(void **state)
{
	(void)state;
	host_run(check_without_close_range);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptors_of_a_range_are_closed_and_no_others),
		cmocka_unit_test(test_a_kernel_without_close_range_closes_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
