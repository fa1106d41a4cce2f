/* SPDX-License-Identifier: MIT */
/*
 * A host: a child process of the test that uses the library, so that it can be killed, or change its limits, signals
 * and descriptors. In a host checks of support/check.h end the host; assertions of cmocka do not work.
 */
#ifndef TESTS_SUPPORT_HOST_H
#define TESTS_SUPPORT_HOST_H

#include <sys/types.h>

/* Runs `host` in a child process, which exits with its return value; 0: success. */
pid_t host_start(int (*host)(void));

/* Waits for the host; it must have exited with 0. */
void host_check(pid_t host);

/* Starts a host and checks it. */
void host_run(int (*host)(void));

#endif
