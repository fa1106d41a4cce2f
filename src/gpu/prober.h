/* SPDX-License-Identifier: MIT */
/*
 * The code of the probe process. Its first thread never calls a driver: it only watches the clock, so a hanging driver
 * is reported without waiting for it. A separate thread opens each driver, and a separate thread queries each card.
 */
#ifndef GPU_PROBER_H
#define GPU_PROBER_H

#include <sys/types.h>

#include "gpu/backend.h"

struct prober_settings {
	int socket;         /* for records to the parent; a byte from the parent starts the probe; non-blocking */
	pid_t parent;       /* the probe ends with it */
	unsigned period_ms; /* how often cards are asked; 0: once */
	unsigned answer_ms; /* how long a driver may take */
	bool events;        /* wait for Xids */
};

/*
 * The main function of the process. Closes every descriptor except the socket, and creates a new session, so that a
 * Ctrl-C for its parent does not reach it.
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
