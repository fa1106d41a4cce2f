/* SPDX-License-Identifier: MIT */
/*
 * SIGINT and SIGTERM, for all parts of the process that react to them.
 *
 * The signals are caught while there is a watch or a farewell (a function to call before the program ends), and only if
 * their disposition is the default: a handler of the program, or SIG_IGN, is not replaced. The first three signals are
 * passed to every watch; the fourth ends the program. The count restarts when the last watch ends.
 * Without a watch, the first signal ends the program.
 *
 * Before the program ends, the farewell is called. Then the signal's default action happens, so that the parent process
 * sees the signal. When the last watch and the farewell are removed, the default disposition is restored, unless the
 * program has set another one in the meantime.
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

/* Passes signals to `w` from now on. The caller has set on_signal and context; all other fields are zero. */
void interrupts_watch(struct interrupt_watch *w);
/* When this returns, on_signal is not running and will not be called again. */
void interrupts_unwatch(struct interrupt_watch *w);

/* Signals passed on since the first watch. */
int interrupts_count(void);

/* Sets a function to call, in the signal handler, before one of the signals ends the program. NULL: none. */
void interrupts_set_farewell(void (*farewell)(void));

#endif
