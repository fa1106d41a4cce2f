/* SPDX-License-Identifier: MIT */
/* Signals: their names, and their dispositions in a new process. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <stddef.h>

/*
 * In a new process, resets all signals to the default, but keeps handlers of the C library, which uses signals 32 and
 * 33 itself. If a parent has ignored these two, they are reset, too; otherwise they would be ignored in the programs
 * that we execute.
 */
void signals_reset(void);

/* "SIGKILL" for 9; "signal 42" for one without a name. Valid until the end of the calling block. */
#define SIGNAL_NAME_ROOM    24
#define signal_name(signal) signal_name_into((signal), (char[SIGNAL_NAME_ROOM]){0})
const char *signal_name_into(int signal, char buf[SIGNAL_NAME_ROOM]);

/* "USR1", "SIGUSR1" or "10", in any case; -EINVAL for others. */
int signal_parse(const char *text, size_t size);

#endif
