/* SPDX-License-Identifier: MIT */
#include "support/host.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"
#include "support/process.h"
#include "support/wait.h"

pid_t host_start(int (*host)(void))
{
	fflush(NULL);
	pid_t pid = fork();
	check_true(pid >= 0);
	if (pid > 0)
		return pid;
	check_become_host();
	_exit(host());
}

void host_check(pid_t host)
{
	int status;
	if (!process_await_gone(host, 3 * WAIT_MS)) {
		process_kill_child(host);
		check_failed(__FILE__, __LINE__, "the host does not end");
	}
	check_equal(waitpid(host, &status, 0), host);
	check_equal(status, 0);
}

void host_run(int (*host)(void))
{
	host_check(host_start(host));
}
