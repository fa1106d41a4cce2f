/* SPDX-License-Identifier: MIT */
#include "pypool.h"

#include <errno.h>
#include <time.h>

/*
 * On the main thread, the longest wait without checking Python's signals: a signal just before a wait begins does not
 * end it.
 */
#define SLICE_MS 100

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int next_slice(int64_t deadline_ms, bool main_thread)
{
	int64_t left = deadline_ms < 0 ? INT_MAX : deadline_ms - now_ms();
	if (left < 0)
		left = 0;
	if (main_thread && left > SLICE_MS)
		left = SLICE_MS;
	return left == INT_MAX ? -1 : (int)left;
}

/* If both a signal handler and a callback raised, raises the handler's exception with the other as its context. */
static int check_errors(struct pypool *self)
{
	int r = PyErr_CheckSignals();
	if (!self->error)
		return r;
	PyObject *error = self->error;
	self->error = NULL;
	if (r < 0) {
		PyObject *interrupt = engine_take_exception();
		PyException_SetContext(interrupt, error);
		error = interrupt;
	}
	PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_DECREF(error);
	return -1;
}

int pypool_poll_once(struct pypool *self, int timeout_ms, unsigned flags)
{
	self->released = PyEval_SaveThread();
	int r = gd_pool_poll(self->gd, timeout_ms, flags);
	if (self->released)
		PyEval_RestoreThread(self->released);
	self->released = NULL;
	return r;
}

static PyObject *raise_for(int code)
{
	switch (code) {
	case -ECANCELED:
		PyErr_SetString(engine.pool_closed, "the pool was stopped, and all of its tasks have ended");
		return NULL;
	case -ENODEV:
		PyErr_SetString(engine.no_workers, "no worker is left");
		return NULL;
	default:
		return engine_raise(code, "cannot poll the pool");
	}
}

static PyObject *poll(struct pypool *self, int64_t deadline_ms, bool idle)
{
	unsigned flags = GD_POLL_SIGNALS | (idle ? GD_POLL_IDLE : 0);
	bool main_thread = deadline_ms != 0 && pypool_on_main_thread();
	for (;;) {
		int r = pypool_poll_once(self, deadline_ms == 0 ? 0 : next_slice(deadline_ms, main_thread), flags);
		if (check_errors(self) < 0)
			return NULL;
		if (r < 0 && r != -EINTR)
			return raise_for(r);
		bool over = r > 0 || self->interrupted || deadline_ms == 0 || self->closing ||
			    (!idle && gd_pool_outstanding(self->gd) == 0) ||
			    (deadline_ms > 0 && now_ms() >= deadline_ms);
		if (over) {
			if (r <= 0)
				self->interrupted = false;
			return PyLong_FromLong(r > 0 ? r : 0);
		}
	}
}

enum turn {
	TURN_FAILED = -1, /* an exception is set */
	TURN_BUSY,
	TURN_MINE,
};

/* Only one thread at a time polls. */
static enum turn begin(struct pypool *self)
{
	if (!pypool_usable(self))
		return TURN_FAILED;
	if (self->polling && self->poller != PyThread_get_thread_ident())
		return TURN_BUSY;
	if (self->polling) {
		PyErr_SetString(PyExc_RuntimeError, "a callback cannot poll its pool");
		return TURN_FAILED;
	}
	self->polling = true;
	self->poller = PyThread_get_thread_ident();
	return TURN_MINE;
}

static PyObject *refuse(enum turn turn)
{
	return turn == TURN_BUSY ? PyLong_FromLong(-1) : NULL;
}

/* 0: no wait; negative: no limit. */
static int64_t deadline_in(int timeout_ms)
{
	return timeout_ms <= 0 ? timeout_ms : now_ms() + timeout_ms;
}

PyObject *pypool_poll(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct pypool *self = (struct pypool *)object;
	static char *names[] = {"timeout_ms", "idle", NULL};
	int timeout_ms = -1, idle = 0;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|ip:poll", names, &timeout_ms, &idle))
		return NULL;
	enum turn turn = begin(self);
	if (turn != TURN_MINE)
		return refuse(turn);
	PyObject *made = poll(self, deadline_in(timeout_ms), idle);
	self->polling = false;
	return made;
}

/* The GIL is released between callbacks. */
static PyObject *wait_ready(struct pypool *self, int64_t deadline_ms)
{
	bool main_thread = pypool_on_main_thread();
	self->release_each = true;
	int r = -ETIMEDOUT;
	while (r == -ETIMEDOUT) {
		int slice = deadline_ms == 0 ? 0 : next_slice(deadline_ms, main_thread);
		self->released = PyEval_SaveThread();
		r = gd_pool_wait_ready(self->gd, slice);
		PyEval_RestoreThread(self->released);
		self->released = NULL;
		if (check_errors(self) < 0) {
			self->release_each = false;
			return NULL;
		}
		if (self->closing || (deadline_ms >= 0 && now_ms() >= deadline_ms))
			break;
	}
	self->release_each = false;
	if (r == -ETIMEDOUT) {
		PyErr_SetString(PyExc_TimeoutError, "the workers are not ready yet");
		return NULL;
	}
	return r < 0 ? raise_for(r) : PyLong_FromLong(r);
}

PyObject *pypool_wait_ready(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct pypool *self = (struct pypool *)object;
	static char *names[] = {"timeout_ms", NULL};
	int timeout_ms = -1;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|i:wait_ready", names, &timeout_ms))
		return NULL;
	enum turn turn = begin(self);
	if (turn != TURN_MINE)
		return refuse(turn);
	PyObject *ready = wait_ready(self, deadline_in(timeout_ms));
	self->polling = false;
	return ready;
}
