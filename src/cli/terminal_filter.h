/* SPDX-License-Identifier: MIT */
/*
 * Filters the output of this process and its children on a terminal without a panel: colors stay, other control
 * sequences are removed, as above a panel (view/panel/capture.h). A thread forwards the lines.
 */
#ifndef CLI_TERMINAL_FILTER_H
#define CLI_TERMINAL_FILTER_H

#include <pthread.h>
#include <stdbool.h>

#include "view/panel/capture.h"

/* Start from {0}. */
struct terminal_filter {
	bool active;
	int terminal_fd;
	int stop_fd;
	struct capture capture;
	pthread_t thread;
};

/* Filters standard output and standard error if they are the terminal `fd`. Also 0 if `fd` is not a terminal. */
int terminal_filter_begin(struct terminal_filter *f, int fd);
/* Forwards the remaining output. */
void terminal_filter_end(struct terminal_filter *f);

#endif
