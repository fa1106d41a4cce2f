/* SPDX-License-Identifier: MIT */
#include "queue/keeper/keeper_lease.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "queue/journal/job.h"
#include "queue/keeper/keeper_private.h"

/* How long to wait for the front before the command is started. */
#define GO_MS 1000

static void tell(struct keeper *k, enum lease_message_kind kind, int code, const char *words)
{
	struct lease_message m = {.kind = kind, .code = code};
	snprintf(m.words, sizeof(m.words), "%s", words ? words : "");
	/* If the front is gone, its closed socket shows it. */
	if (k->lease->fd >= 0)
		(void)lease_send(k->lease->fd, &m);
}

bool keeper_lease_may_start(const struct keeper *k)
{
	return k->phase == KEEPER_IDLE && k->lease->fd >= 0 && !k->lease->over;
}

static void on_message(struct keeper *k, const struct lease_message *m)
{
	/* Only `gpuq resume` continues a job that `gpuq pause` stopped. */
	if (m->code == SIGCONT && k->paused_ns)
		return;
	if (m->kind == LEASE_SIGNAL && k->phase != KEEPER_IDLE && !k->reaped)
		kill(k->pid, m->code);
}

void keeper_lease_on_front(struct keeper *k)
{
	struct lease_message m;
	if (lease_receive(k->lease->fd, &m) == 0) {
		on_message(k, &m);
		return;
	}
	close_fd(&k->lease->fd);
	if (k->phase != KEEPER_IDLE)
		keeper_end_job(k, REASON_LEASE_ENDED, false);
}

/* From here on only the command holds the standard files: readers of its output wait for its end, not for ours. */
static void drop_standard_files(void)
{
	cleanup_(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		(void)dup2(null, fd);
}

/* A stopped front does not answer; the command starts anyway. */
void keeper_lease_starting(struct keeper *k)
{
	cleanup_(text_finish) struct text gpus = {0};
	const struct attempt *a = &k->attempt;
	struct lease_message m = {0};
	for (uint32_t i = 0; i < a->order.num_gpus; i++)
		text_appendf(&gpus, "%s%d", i ? ", " : a->order.num_gpus > 1 ? " on GPUs " : " on GPU ", a->gpus[i]);
	tell(k, LEASE_STARTING, 0, text_string(&gpus));
	uint64_t until = clock_now_ns() + GO_MS * NS_PER_MS;
	while (m.kind != LEASE_GO && k->lease->fd >= 0) {
		struct pollfd p = {k->lease->fd, POLLIN, 0};
		if (poll(&p, 1, clock_ms_until(until, clock_now_ns())) <= 0 || lease_receive(p.fd, &m) < 0)
			return;
	}
}

void keeper_lease_started(struct keeper *k)
{
	drop_standard_files();
	tell(k, LEASE_STARTED, k->pid, NULL);
}

/* Ignores a stop by `gpuq pause`, and any stop while the command is being ended: it is continued to get the signal. */
void keeper_lease_look_for_stop(struct keeper *k)
{
	siginfo_t info = {0};
	if (!k->lease || k->reaped || k->phase != KEEPER_RUNNING || k->paused_ns)
		return;
	if (waitid(P_PID, (id_t)k->pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == k->pid)
		tell(k, LEASE_STOPPED, info.si_status, NULL);
}

void keeper_lease_ended(struct keeper *k, const char *reason)
{
	k->lease->over = true;
	/* An exit code that was reported must survive a power cut. */
	(void)journal_sync(k->journal, NULL);
	if (k->page.stage == ATTEMPT_NO_EXEC)
		tell(k, LEASE_NOT_EXECUTED, k->page.code, reason);
	else
		tell(k, LEASE_ENDED, k->status, reason);
}

_Noreturn void keeper_lease_main(const struct nursery_options *options, const struct attempt_front *front, int fd)
{
	struct keeper_lease lease = {.front = front, .fd = fd};
	struct keeper k = {.options = options, .lease = &lease};
	sigset_t all;
	/* The terminal's signals must not reach the keeper. The command gets the front's signal mask back. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setpgid(0, 0);
	int r = keeper_init(&k);
	if (r == 0)
		r = keeper_open(&k);
	tell(&k, r < 0 ? LEASE_FAILED : LEASE_READY, r, k.name);
	while (r == 0 && !lease.over && (lease.fd >= 0 || k.phase != KEEPER_IDLE))
		keeper_round(&k);
	keeper_leave(&k);
}
