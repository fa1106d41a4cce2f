/* SPDX-License-Identifier: MIT */
/*
 * Makes harmless what this process and its children print on a terminal on which there is no panel: colors stay, other
 * control sequences go, as above a panel (view/panel/capture.h). A thread passes the lines on.
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

/* For standard output and error, as far as they are the terminal `fd`. 0 also if `fd` is not a terminal. */
int terminal_filter_begin(struct terminal_filter *f, int fd);
/* Passes the rest on. */
void terminal_filter_end(struct terminal_filter *f);

#endif
