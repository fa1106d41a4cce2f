/* SPDX-License-Identifier: MIT */
#include "pool/crash_handler.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#define STACK_SIZE 65536

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};

/* A signal handler gets no argument for its data; a worker process has one outbox. */
static struct outbox *crash_outbox;
static char crash_stack[STACK_SIZE];

static void note_and_die(int sig, siginfo_t *info, void *context)
{
	(void)context;
	/* si_code > 0: a fault of this process, not a kill() by another one. */
	if (info->si_code > 0)
		atomic_store(&crash_outbox->crash_address, (uint64_t)(uintptr_t)info->si_addr);
	atomic_store(&crash_outbox->crash_signal, (uint32_t)sig);
	raise(sig); /* SA_RESETHAND and SA_NODEFER: raising it again kills the process, with a core dump if enabled */
}

int crash_handler_install(struct outbox *out)
{
	crash_outbox = out;
	/* A separate stack, because the crash may be a stack overflow. */
	stack_t stack = {.ss_sp = crash_stack, .ss_size = sizeof(crash_stack)};
	if (sigaltstack(&stack, NULL) < 0)
		return -errno;
	struct sigaction action = {
		.sa_sigaction = note_and_die,
		.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER,
	};
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(crash_signals) / sizeof(crash_signals[0]); i++)
		if (sigaction(crash_signals[i], &action, NULL) < 0)
			return -errno;
	return 0;
}
