/* SPDX-License-Identifier: MIT */
/*
 * The handler walks a list that other threads change. It takes no lock, because the interrupted thread may hold it. A
 * watch is unlinked first; then interrupts_unwatch() waits until no handler is running that may have seen it. Handlers
 * only write to counters, so the wait is short.
 */
#include "base/interrupts.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

static const int numbers[] = {SIGINT, SIGTERM};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held with the signals blocked */

/* The handler reads these. */
static _Atomic(struct interrupt_watch *) first_watch;
static _Atomic(void (*)(void)) farewell;
static atomic_int owner; /* the process that watches; children that it forks inherit the handler */
static atomic_int count; /* signals since the first watch */
static atomic_int handlers_running;

static _Noreturn void end_program(int signal)
{
	void (*last)(void) = atomic_load(&farewell);
	if (last && getpid() == atomic_load(&owner))
		last();
	sigset_t set;
	struct sigaction usual = {.sa_handler = SIG_DFL};
	sigaction(signal, &usual, NULL);
	sigemptyset(&set);
	sigaddset(&set, signal);
	raise(signal);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	_exit(128 + signal); /* the kernel ignores default actions in process 1 of a container */
}

static void on_signal(int signal)
{
	int saved = errno;
	atomic_fetch_add(&handlers_running, 1);
	struct interrupt_watch *w = atomic_load(&first_watch);
	if (!w || getpid() != atomic_load(&owner) || atomic_fetch_add(&count, 1) >= INTERRUPTS_PASSED)
		end_program(signal);
	for (; w; w = atomic_load(&w->next)) {
		int none = 0;
		atomic_compare_exchange_strong(&w->signal, &none, signal);
		w->on_signal(w->context);
	}
	atomic_fetch_sub(&handlers_running, 1);
	errno = saved;
}

static void enter(sigset_t *ret_mask)
{
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < NUMBERS; i++)
		sigaddset(&set, numbers[i]);
	pthread_sigmask(SIG_BLOCK, &set, ret_mask);
	pthread_mutex_lock(&lock);
}

static void leave(const sigset_t *mask)
{
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, mask, NULL);
}

static bool has_handler(int number, void (*handler)(int))
{
	struct sigaction now;
	return sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == handler;
}

static void set_handlers(void (*from)(int), void (*to)(int))
{
	struct sigaction action = {.sa_handler = to, .sa_flags = to == SIG_DFL ? 0 : SA_RESTART};
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < NUMBERS; i++)
		sigaddset(&action.sa_mask, numbers[i]); /* one handler at a time on a thread */
	for (size_t i = 0; i < NUMBERS; i++)
		if (has_handler(numbers[i], from))
			sigaction(numbers[i], &action, NULL);
}

/* In a forked child the watches are the parent's: their threads do not exist here. */
static void forget_parent(void)
{
	pid_t self = getpid();
	if (atomic_load(&owner) == self)
		return;
	atomic_store(&first_watch, NULL);
	atomic_store(&farewell, NULL);
	atomic_store(&handlers_running, 0);
	atomic_store(&count, 0);
	atomic_store(&owner, self);
}

static void catch_or_release(void)
{
	if (atomic_load(&first_watch) || atomic_load(&farewell))
		set_handlers(SIG_DFL, on_signal);
	else
		set_handlers(on_signal, SIG_DFL);
}

void interrupts_watch(struct interrupt_watch *w)
{
	sigset_t mask;
	enter(&mask);
	forget_parent();
	struct interrupt_watch *others = atomic_load(&first_watch);
	if (!others)
		atomic_store(&count, 0);
	atomic_store(&w->next, others);
	atomic_store(&first_watch, w);
	catch_or_release();
	leave(&mask);
}

void interrupts_unwatch(struct interrupt_watch *w)
{
	sigset_t mask;
	enter(&mask);
	forget_parent();
	_Atomic(struct interrupt_watch *) *at = &first_watch;
	while (atomic_load(at) && atomic_load(at) != w)
		at = &atomic_load(at)->next;
	if (atomic_load(at))
		atomic_store(at, atomic_load(&w->next));
	while (atomic_load(&handlers_running) > 0)
		sched_yield();
	catch_or_release();
	leave(&mask);
}

int interrupts_count(void)
{
	int passed = atomic_load(&count);
	return passed < INTERRUPTS_PASSED ? passed : INTERRUPTS_PASSED;
}

void interrupts_set_farewell(void (*function)(void))
{
	sigset_t mask;
	enter(&mask);
	forget_parent();
	atomic_store(&farewell, function);
	catch_or_release();
	leave(&mask);
}
