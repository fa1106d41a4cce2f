/* SPDX-License-Identifier: MIT */
/*
 * SIGINT, SIGTERM and SIGHUP of a program that runs a pool: they stop the run.
 *
 * SIGINT stops the run once, SIGTERM and SIGHUP twice: the first stop begins no new work, the second cancels running
 * work. Signals that arrive before the run exists are kept for it.
 */
#ifndef CLI_STOP_SIGNALS_H
#define CLI_STOP_SIGNALS_H

/*
 * Installs the handlers; ignored signals stay ignored. SIGPIPE and SIGXFSZ are ignored from here on. `stop` is called
 * from the signal handler. last: after so many stops the next signal ends the program; 0: never.
 */
void stop_signals_catch(void (*stop)(void *run), int last);
/* The run that signals stop from now on. Earlier signals stop it here. */
void stop_signals_attach(void *run);
/* The run is about to be destroyed. */
void stop_signals_detach(void);
/* Stops so far. */
int stop_signals_count(void);

#endif
