/* SPDX-License-Identifier: MIT */
/*
 * SIGINT and SIGTERM, shared by everything in the process that wants to react to them.
 *
 * The signals are caught while there is a watch or a farewell, and only where their
 * disposition is the default: a handler of the program, or SIG_IGN, stays. The first
 * three signals are passed to every watch; the fourth ends the program. They are counted
 * from the first watch until there is none. Without a watch the first signal ends the
 * program.
 *
 * Before the program ends, the farewell is called. Then the signal's default action
 * happens, so that the parent process sees the signal. When the last watch and the
 * farewell are gone, the default disposition is restored, unless somebody else has set
 * another one meanwhile.
 *
 * All functions may be called by any thread, but not in signal handlers.
 */
#ifndef BASE_INTERRUPTS_H
#define BASE_INTERRUPTS_H

#include <stdatomic.h>
#include <stdbool.h>

#define INTERRUPTS_PASSED 3 /* signals that are passed on; the next one ends the program */

struct interrupt_watch {
	/* Called for each signal, in the signal handler, on any thread. */
	void (*on_signal)(void *context);
	void *context;
	atomic_int signal; /* the first one that was passed to this watch; 0: none */
	_Atomic(struct interrupt_watch *) next;
};

/* From now on `w` gets the signals. The caller has filled on_signal and context; the rest is zero. */
void interrupts_watch(struct interrupt_watch *w);
/* When this returns, on_signal is not running and is not called any more. */
void interrupts_unwatch(struct interrupt_watch *w);

/* Signals passed on since the first watch. */
int interrupts_count(void);

/* What to do, in the signal handler, before the program ends by one of the signals. NULL: nothing. */
void interrupts_set_farewell(void (*farewell)(void));

#endif
