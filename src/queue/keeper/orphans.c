/* SPDX-License-Identifier: MIT */
#include "queue/keeper/orphans.h"

#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"

bool orphans_kill(orphans_is_own_fn *is_own, void *context)
{
	bool any = false;
	cleanup_(freep) pid_t *children = NULL;
	int count = process_children(getpid(), &children);
	for (int i = 0; i < count; i++) {
		if (is_own(context, children[i]))
			continue;
		any = true;
		process_signal_descendants(children[i], SIGKILL);
		/* A child that has not been reaped yet: the PID is still its own. */
		kill(children[i], SIGKILL);
	}
	return any;
}
