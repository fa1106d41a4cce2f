/* SPDX-License-Identifier: MIT */
#include "pypool.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#define LOOK_NS 200000 /* while other threads leave the library */

/* ---- Ctrl-C while the pool is being closed ------------------------------- */

/*
 * gd_pool_close() does not return for a signal, and Python's own handler only sets a flag. So while the main thread
 * closes a pool, this handler runs before Python's: it counts the signals and finally kills the workers, after which
 * closing is quick.
 */
static struct {
	struct gd_pool *_Atomic pool;
	atomic_int left; /* number of signals until the workers are killed */
	struct sigaction python;
} ctrl_c;

static void handle_ctrl_c(int sig, siginfo_t *info, void *context)
{
	struct gd_pool *pool = atomic_load(&ctrl_c.pool);
	if (pool && atomic_fetch_sub(&ctrl_c.left, 1) <= 1)
		for (int i = 0; i < 3; i++)
			gd_pool_stop(pool);
	if (ctrl_c.python.sa_flags & SA_SIGINFO)
		ctrl_c.python.sa_sigaction(sig, info, context);
	else
		ctrl_c.python.sa_handler(sig);
}

/* Installs the handler; only on the main thread, and only if Python handles SIGINT. */
static bool ctrl_c_watch(struct gd_pool *pool, int interrupts)
{
	if (!pypool_on_main_thread() || sigaction(SIGINT, NULL, &ctrl_c.python) < 0)
		return false;
	if (!(ctrl_c.python.sa_flags & SA_SIGINFO) &&
		(ctrl_c.python.sa_handler == SIG_DFL || ctrl_c.python.sa_handler == SIG_IGN))
		return false;
	atomic_store(&ctrl_c.left, interrupts);
	atomic_store(&ctrl_c.pool, pool);
	struct sigaction action = ctrl_c.python;
	action.sa_flags |= SA_SIGINFO;
	action.sa_sigaction = handle_ctrl_c;
	return sigaction(SIGINT, &action, NULL) == 0;
}

static void ctrl_c_unwatch(void)
{
	struct sigaction current;
	if (sigaction(SIGINT, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) &&
		current.sa_sigaction == handle_ctrl_c)
		sigaction(SIGINT, &ctrl_c.python, NULL);
}

void pypool_forget_ctrl_c(struct gd_pool *pool)
{
	atomic_compare_exchange_strong(&ctrl_c.pool, &pool, NULL);
}

/* ---- Closing ------------------------------------------------------------ */

/* A stop takes effect, and wakes threads that wait for space, only in a poll. */
static void poll_for_stop(struct pypool *self)
{
	self->polling = true;
	self->poller = PyThread_get_thread_ident();
	pypool_poll_once(self, 0, 0);
	self->polling = false;
}

/* Makes other threads leave the library, and waits until they have. */
static void wait_for_others(struct pypool *self)
{
	/* Refuse threads that wait for space. Only once: further stops would also end running tasks. */
	if (self->users > 0 && !self->stopped) {
		self->stopped = true;
		gd_pool_stop(self->gd);
	}
	while (self->users > 0 || self->polling) {
		if (self->polling)
			gd_pool_interrupt(self->gd);
		else
			poll_for_stop(self);
		Py_BEGIN_ALLOW_THREADS
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
		Py_END_ALLOW_THREADS
	}
}

static int close_now(struct pypool *self, struct gd_error *err)
{
	self->release_each = true;
	self->released = PyEval_SaveThread();
	int r = gd_pool_close(self->gd, NULL, 0, err);
	PyEval_RestoreThread(self->released);
	self->released = NULL;
	self->release_each = false;
	return r;
}

static PyObject *finish(struct pypool *self, int code, const struct gd_error *err)
{
	if (PyErr_CheckSignals() < 0)
		return NULL;
	if (self->error) {
		PyObject *error = self->error;
		self->error = NULL;
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
		Py_DECREF(error);
		return NULL;
	}
	if (code < 0 && PyErr_WarnEx(PyExc_RuntimeWarning, err->message, 2) < 0)
		return NULL;
	return pypool_stats_dict(&self->last_stats);
}

PyObject *pypool_close(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct pypool *self = (struct pypool *)object;
	static char *names[] = {"interrupts", NULL};
	int interrupts = 2;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|i:close", names, &interrupts))
		return NULL;
	if (!self->gd && pypool_is_ours(self))
		return pypool_stats_dict(&self->last_stats);
	if (!pypool_usable(self))
		return NULL;
	if (self->polling && self->poller == PyThread_get_thread_ident()) {
		PyErr_SetString(PyExc_RuntimeError, "a callback cannot close its pool");
		return NULL;
	}
	self->closing = true;
	wait_for_others(self);
	self->polling = true;
	self->poller = PyThread_get_thread_ident();
	struct gd_error err = {0};
	bool watched = ctrl_c_watch(self->gd, interrupts);
	int r = close_now(self, &err);
	if (watched)
		ctrl_c_unwatch();
	self->polling = false;
	return finish(self, r, &err);
}

void pypool_destroy(struct pypool *self)
{
	PyObject *type, *value, *traceback;
	PyErr_Fetch(&type, &value, &traceback);
	self->muted = true;
	self->closing = true;
	for (int i = 0; i < 3; i++)
		gd_pool_stop(self->gd);
	close_now(self, NULL);
	PyErr_Restore(type, value, traceback);
}
