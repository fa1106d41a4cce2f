/* SPDX-License-Identifier: MIT */
/*
 * SIGINT, SIGTERM and SIGHUP stop the run of a program that runs a pool.
 *
 * SIGINT stops the run once, SIGTERM and SIGHUP twice: after the first stop no new work begins, the second cancels
 * running work. Signals that arrive before the run exists are kept for it.
 */
#ifndef CLI_STOP_SIGNALS_H
#define CLI_STOP_SIGNALS_H

/* The third stop kills the workers: a signal after it ends a program that hangs. */
#define STOP_SIGNALS_LAST 3

/*
 * Installs the handlers; ignored signals stay ignored. SIGPIPE and SIGXFSZ are ignored from now on. `stop` is called
 * in the signal handler. last: after this many stops the next signal ends the program; 0: never.
 */
void stop_signals_catch(void (*stop)(void *run), int last);
/* Sets the run that signals stop from now on. Earlier signals are applied at once. */
void stop_signals_attach(void *run);
/* Call before the run is destroyed. */
void stop_signals_detach(void);
/* Number of stops so far. */
int stop_signals_count(void);

#endif
