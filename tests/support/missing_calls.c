/* SPDX-License-Identifier: MIT */
#include "support/missing_calls.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Numbers, because kernel headers may lack the names. From 424 on they are the same on all machines. */
const struct missing_call missing_calls[] = {
	{"pidfd_send_signal", 424},
	{"pidfd_open", 434},
	{"clone3", 435},
	{"close_range", 436},
	{"openat2", 437},
	{"pidfd_getfd", 438},
	{"faccessat2", 439},
	{"process_madvise", 440},
	{"epoll_pwait2", 441},
	{"memfd_secret", 447},
	{"futex_waitv", 449},
};
const size_t num_missing_calls = sizeof(missing_calls) / sizeof(missing_calls[0]);

static int forbid(long number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		return -errno;
	return syscall(number, -1, -1, -1, -1) < 0 && errno == ENOSYS ? 0 : -EINVAL;
}

int missing_calls_forbid(const char *name)
{
	/* All kernels have these, but some file systems cannot change modes. */
	int modes = name && strcmp(name, "fchmod") == 0 ? forbid(SYS_fchmod) : 1;
	if (modes <= 0)
		return modes < 0 ? modes : forbid(SYS_fchmodat);
	int r = name ? -ENOENT : 0;
	for (size_t i = 0; i < num_missing_calls && (r >= 0 || r == -ENOENT); i++)
		if (!name || strcmp(name, missing_calls[i].name) == 0)
			r = forbid(missing_calls[i].number);
	return r;
}
