/* SPDX-License-Identifier: MIT */
#include "queue/runner/runner_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/loop.h"
#include "queue/runner/runner_orphans.h"
#include "queue/runner/runner_private.h"
#include "queue/runner/runner_say.h"
#include "queue/runner/running.h"

static void cancel_all(struct runner *r, bool at_once)
{
	for (struct running *run = r->executing.running; run; run = run->next)
		running_cancel(run, at_once);
}

static void on_interrupt(struct runner *r)
{
	r->interrupts++;
	r->result.interrupted = true;
	if (r->interrupts == 1 && r->executing.num_running > 0)
		runner_say(r, "gpuq: no new jobs start; waiting for %zu running job%s; Ctrl-C again ends them\n",
			r->executing.num_running, r->executing.num_running == 1 ? "" : "s");
	if (r->interrupts == 2)
		runner_say(r, "gpuq: ending %zu running job%s; Ctrl-C again kills them\n", r->executing.num_running,
			r->executing.num_running == 1 ? "" : "s");
	if (r->interrupts >= 2)
		cancel_all(r, r->interrupts > 2);
}

static void on_terminate(struct runner *r)
{
	/* The jobs cannot outlive the allocation: end them; the next run starts them again. */
	if (*r->allocation) {
		runner_say(r, "gpuq: interrupting %zu running job%s; the next run restarts them\n",
			r->executing.num_running, r->executing.num_running == 1 ? "" : "s");
		r->interrupts = r->interrupts < 2 ? 2 : r->interrupts;
		r->result.interrupted = true;
		for (struct running *run = r->executing.running; run; run = run->next)
			running_interrupt(run);
		return;
	}
	r->leaving = true;
	r->result.left_running = r->executing.num_running > 0;
}

static void on_hangup(struct runner *r)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
	r->options.out = NULL;
}

static void on_signal(void *context, uint32_t events)
{
	struct runner *r = context;
	struct signalfd_siginfo si;
	bool child = false;
	(void)events;
	while (read(r->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGINT)
			on_interrupt(r);
		else if (si.ssi_signo == SIGTERM)
			on_terminate(r);
		else if (si.ssi_signo == SIGHUP)
			on_hangup(r);
		else
			child = true;
	}
	if (child)
		runner_orphans_reap(r);
}

int runner_signals_open(struct runner *r)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, 0};
	return loop_add_signals(r->loop, signals, on_signal, r, &r->signal_fd);
}
