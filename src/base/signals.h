/* SPDX-License-Identifier: MIT */
/* Signals: their names, and their dispositions in a new process. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <stddef.h>

/*
 * In a new process: resets all signals to the default, except those that the C library handles itself.
 * Signals 32 and 33, which the C library keeps to itself, can still be ignored because a
 * parent ignored them, and would stay so in what we execute.
 */
void signals_reset(void);

/* "SIGKILL" for 9; "signal 42" for one without a name. Valid until the end of the calling block. */
#define SIGNAL_NAME_ROOM    24
#define signal_name(signal) signal_name_into((signal), (char[SIGNAL_NAME_ROOM]){0})
const char *signal_name_into(int signal, char buf[SIGNAL_NAME_ROOM]);

/* "USR1", "SIGUSR1" or "10", in any case; -EINVAL for others. */
int signal_parse(const char *text, size_t size);

#endif
