/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"
#include "pool/pool_private.h"

static const char *phase(const struct slot *s)
{
	if (s->state == SLOT_STARTING)
		return "in setup";
	return s->state == SLOT_CLOSING ? "in cleanup" : "while it was running";
}

static void died_of_signal(
	const struct slot *s, const struct warden_report *r, struct gd_event *event, char *words, size_t size)
{
	int sig = WTERMSIG(r->status);
	const char *name = sigabbrev_np(sig), *description = sigdescr_np(sig);
	event->failure = GD_FAILURE_CRASHED;
	event->signal = sig;
	if (r->flags & WARDEN_END_OUT_OF_MEMORY) {
		event->failure = GD_FAILURE_OUT_OF_MEMORY;
		snprintf(words, size,
			"the worker was killed %s, probably because the machine or its cgroup ran out of memory",
			phase(s));
		return;
	}
	bool noted = s->channel.out && atomic_load(&s->channel.out->crash_signal) == (uint32_t)sig;
	if (noted && (sig == SIGSEGV || sig == SIGBUS)) {
		event->address = atomic_load(&s->channel.out->crash_address);
		snprintf(words, size, "the worker crashed %s: SIG%s (%s) at address 0x%llx", phase(s),
			name ? name : "?", description ? description : "?", (unsigned long long)event->address);
		return;
	}
	snprintf(words, size, "the worker %s %s: SIG%s (%s)", sig == SIGKILL ? "was killed" : "crashed", phase(s),
		name ? name : "?", description ? description : "?");
}

void death_describe_broken(const struct slot *s, char *words, size_t size)
{
	snprintf(words, size, "the worker was killed because it broke the protocol: %s", s->broken);
}

/* The executed program did not become a worker. */
static bool is_no_worker(const struct gd_pool *p, const struct slot *s)
{
	return p->program && s->state == SLOT_STARTING && s->channel.out && !atomic_load(&s->channel.out->entered);
}

void death_describe(const struct gd_pool *p, const struct slot *s, const struct warden_report *r,
	struct gd_event *event, char *words, size_t size)
{
	event->failure = GD_FAILURE_CRASHED;
	event->message = words;
	if (p->warden_gone) {
		snprintf(words, size, "the warden process was killed, and the worker with it");
	} else if (r->flags & WARDEN_END_STUCK) {
		event->failure = GD_FAILURE_STUCK;
		snprintf(words, size,
			"the worker (pid %d) cannot be killed: it is stuck in the kernel or frozen; its GPU is out of use",
			r->pid);
	} else if (r->flags & WARDEN_END_NOT_EXECUTED) {
		event->failure = GD_FAILURE_ERROR;
		event->code = r->error;
		snprintf(words, size, "the worker could not be started (%s%s%s%s%s): %s", p->program ? "'" : "",
			p->program ? p->program : "forked", p->program ? "'" : "", p->output_dir ? ", output to " : "",
			p->output_dir ? p->output_dir : "", error_words(r->error));
	} else if (r->kind == WARDEN_REPORT_NOT_STARTED) {
		event->failure = GD_FAILURE_ERROR;
		event->code = r->error;
		snprintf(words, size, "cannot create a process for the worker: %s", error_words(r->error));
	} else if (s->broken) {
		death_describe_broken(s, words, size);
	} else if (r->flags & WARDEN_END_SETUP_TIMEOUT) {
		event->failure = GD_FAILURE_TIMED_OUT;
		snprintf(words, size, "setup did not finish within %lld ms", (long long)p->options.setup_timeout_ms);
	} else if (r->flags & WARDEN_END_CLEANUP_TIMEOUT) {
		event->failure = GD_FAILURE_TIMED_OUT;
		snprintf(
			words, size, "cleanup did not finish within %lld ms", (long long)p->options.cleanup_timeout_ms);
	} else if (r->flags & (WARDEN_END_CANCELLED | WARDEN_END_ORDERED)) {
		event->failure = GD_FAILURE_CANCELLED;
		event->code = -ECANCELED;
		snprintf(words, size, "the run was stopped");
	} else if (WIFSIGNALED(r->status)) {
		died_of_signal(s, r, event, words, size);
	} else if (is_no_worker(p, s)) {
		snprintf(words, size,
			"the program '%s' ended with status %d without calling gd_worker_main() of this version of gpu_dispatch",
			p->program, WEXITSTATUS(r->status));
	} else {
		snprintf(words, size, "the worker called exit(%d) %s", WEXITSTATUS(r->status), phase(s));
	}
}
