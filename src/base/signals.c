/* SPDX-License-Identifier: MIT */
#include "base/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's struct: sigaction() refuses the signals that the C library uses itself. */
struct kernel_action {
	void (*handler)(int);
	unsigned long flags;
	void *restorer;
	uint64_t mask[2];
};

void signals_reset(void)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL};
	for (int s = 1; s < NSIG; s++) {
		/*
		 * Fails for SIGKILL and SIGSTOP, which cannot be changed, and for the signals of the C library, which
		 * are reset below.
		 */
		if (sigaction(s, &plain, NULL) == 0 || s == SIGKILL || s == SIGSTOP)
			continue;
		const struct kernel_action usual = {.handler = SIG_DFL};
		struct kernel_action now = usual;
		/*
		 * Only SIG_IGN is reset. A handler belongs to the C library, which may still need it: setuid() with
		 * threads does.
		 */
		if (syscall(SYS_rt_sigaction, s, NULL, &now, (NSIG - 1) / 8) == 0 && now.handler == SIG_IGN)
			syscall(SYS_rt_sigaction, s, &usual, NULL, (NSIG - 1) / 8);
	}
}

const char *signal_name_into(int signal, char buf[SIGNAL_NAME_ROOM])
{
	const char *name = sigabbrev_np(signal);
	if (name)
		snprintf(buf, SIGNAL_NAME_ROOM, "SIG%s", name);
	else
		snprintf(buf, SIGNAL_NAME_ROOM, "signal %d", signal);
	return buf;
}

int signal_parse(const char *text, size_t size)
{
	if (size > 3 && strncasecmp(text, "SIG", 3) == 0) {
		text += 3;
		size -= 3;
	}
	for (int s = 1; s < NSIG; s++) {
		char number[8];
		const char *name = sigabbrev_np(s);
		snprintf(number, sizeof(number), "%d", s);
		if ((name && strlen(name) == size && strncasecmp(name, text, size) == 0) ||
			(strlen(number) == size && memcmp(number, text, size) == 0))
			return s;
	}
	return -EINVAL;
}
