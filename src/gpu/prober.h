/* SPDX-License-Identifier: MIT */
/*
 * What runs in the probe process. Its first thread never calls a driver: it watches the clock, so a hanging driver is
 * reported and not waited for. Each driver is opened, and each card asked, by a thread of its own.
 */
#ifndef GPU_PROBER_H
#define GPU_PROBER_H

#include <sys/types.h>

#include "gpu/backend.h"

struct prober_settings {
	int socket;         /* records go out; a byte comes in, which lets it begin; not blocking */
	pid_t parent;       /* the probe ends with it */
	unsigned period_ms; /* how often cards are asked; 0: once */
	unsigned answer_ms; /* how long a driver may take */
	bool events;        /* wait for Xids */
};

/*
 * The process, from its very beginning to its end. Closes every descriptor but the
 * socket, and leaves the session, so that a Ctrl-C meant for its parent does not
 * reach it.
 */
_Noreturn void prober_main(const struct prober_settings *settings);

/* The same settings as command-line arguments; the socket is PROBER_SOCKET. */
#define PROBER_SOCKET 3

struct prober_arguments {
	char text[5][96];
	char *argv[7];
};

void prober_write_arguments(const struct prober_settings *settings, struct prober_arguments *ret);
/* -EINVAL if they are invalid, or of another version. */
int prober_read_arguments(int argc, char **argv, struct prober_settings *ret);

#endif
