/* SPDX-License-Identifier: MIT */
/* Signals to the runner: Ctrl-C, SIGTERM, SIGHUP, SIGCHLD. They arrive through r->signal_fd. */
#ifndef QUEUE_RUNNER_RUNNER_SIGNALS_H
#define QUEUE_RUNNER_RUNNER_SIGNALS_H

struct runner;

int runner_signals_open(struct runner *r);

#endif
