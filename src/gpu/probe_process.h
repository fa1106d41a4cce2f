/* SPDX-License-Identifier: MIT */
/*
 * The process that calls the drivers, as seen by its parent.
 *
 * It is the program gpuq-probe: $GPUQ_PROBE, or next to the file that contains this code, or where it was installed. A
 * fork of this process would inherit locks that other threads hold, including those of the dynamic loader, which it
 * needs to load a driver. So a fork is used only if the program is missing (for example in a statically linked program
 * on another machine).
 */
#ifndef GPU_PROBE_PROCESS_H
#define GPU_PROBE_PROCESS_H

#include "base/pidref.h"
#include "gpu/prober.h"

struct probe_process {
	int fd; /* the socket */
	struct pidref ref;
	int exit_signal; /* the signal that ended it, if that is known */
};
#define PROBE_PROCESS_NONE ((struct probe_process){.fd = -1, .ref = PIDREF_NONE})

/* Starts the process and waits until it runs (not until a driver answers). */
int probe_process_start(const struct prober_settings *settings, struct probe_process *ret);

/* Kills and reaps it, which takes at most a second, or ten if it gets no CPU time; closes what belongs to it. */
void probe_process_end(struct probe_process *p);

#endif
