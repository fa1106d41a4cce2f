/* SPDX-License-Identifier: MIT */
#include "pool/interrupt.h"

#include <errno.h>
#include <signal.h>

/* A signal handler gets no argument for its data; a worker process has one worker. */
static struct gd_worker *interrupted_worker;

/* Whether a task in hand that has no answer yet is out of time or cancelled. */
static bool is_marked(const struct gd_worker *w)
{
	for (size_t i = w->settled; i < w->in_hand; i++)
		if (inbox_mark(w->channel.in, w->next + i))
			return true;
	return false;
}

static void interrupt_tasks(struct gd_worker *w)
{
	if (!w->ops->on_cancel || !is_marked(w) || atomic_exchange(&w->interrupt.called, 1))
		return;
	atomic_store(&w->channel.out->interrupted, w->next + w->in_hand);
	w->ops->on_cancel(w, w->state);
}

static void interrupt_setup(struct gd_worker *w)
{
	if (!w->ops->on_setup_cancel || !atomic_load(&w->channel.in->ending) ||
		atomic_exchange(&w->interrupt.called, 1))
		return;
	atomic_store(&w->channel.out->setup_interrupted, 1);
	w->ops->on_setup_cancel(w);
}

/* Once per call of the hook, even if another signal arrives meanwhile. */
static void call_once(struct gd_worker *w)
{
	if (w->interrupt.allowed == INTERRUPT_TASKS)
		interrupt_tasks(w);
	else if (w->interrupt.allowed == INTERRUPT_SETUP)
		interrupt_setup(w);
}

static void handle(int sig)
{
	(void)sig;
	struct gd_worker *w = interrupted_worker;
	int saved = errno;
	if (w->interrupt.calls > 0)
		w->interrupt.noted = 1;
	else
		call_once(w);
	errno = saved;
}

void interrupt_deferred(struct gd_worker *w)
{
	if (w->interrupt.calls > 0)
		return;
	w->interrupt.noted = 0;
	int saved = errno;
	call_once(w);
	errno = saved;
}

int interrupt_install(struct gd_worker *w)
{
	unsigned hooks = (w->ops->on_cancel ? CHANNEL_INTERRUPT_TASKS : 0) |
			 (w->ops->on_setup_cancel ? CHANNEL_INTERRUPT_SETUP : 0);
	if (hooks == 0)
		return 0;
	interrupted_worker = w;
	/* Not SA_RESTART: a blocking system call of the hook must return. */
	struct sigaction action = {.sa_handler = handle};
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGURG, &action, NULL) < 0)
		return -errno;
	atomic_store(&w->channel.out->interruptible, hooks);
	return 0;
}
