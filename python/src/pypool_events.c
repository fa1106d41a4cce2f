/* SPDX-License-Identifier: MIT */
/* From the library's events to Python's callbacks. */
#include <string.h>
#include <time.h>

#include "compat.h"
#include "pypool.h"

/* ---- Around a callback -------------------------------------------------- */

static void enter(struct pypool *self)
{
	if (!self->released)
		return;
	PyEval_RestoreThread(self->released);
	self->released = NULL;
}

static int leave(struct pypool *self)
{
	if (self->release_each)
		self->released = PyEval_SaveThread();
	return 0;
}

#define HURRY_NS 2000000000

void pypool_hurry_callbacks(struct pypool *self)
{
	self->budget_ns = self->hurried ? 0 : HURRY_NS;
	self->hurried = true;
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Calls the callback and subtracts its time from the budget. NULL without an exception: no time was left. */
static PyObject *call_hurried(struct pypool *self, PyObject *callback, PyObject **args, size_t count)
{
	if (self->budget_ns <= 0)
		return NULL;
	int64_t start = now_ns();
	PyObject *result = compat_call(callback, args + 1, count);
	self->budget_ns -= now_ns() - start;
	return result;
}

/* Not with PyErr_WriteUnraisable(): it opens the files that the traceback names, such as a pipe of another user. */
static void print_exception(void)
{
	PyObject *error = engine_take_exception();
	PyObject *module = PyImport_ImportModule("gpu_dispatch._traceback");
	PyObject *printed = module && error ? PyObject_CallMethod(module, "print_ignored", "O", error) : NULL;
	if (!printed)
		PyErr_Clear();
	Py_XDECREF(printed);
	Py_XDECREF(module);
	Py_XDECREF(error);
}

/* An exception of a callback is raised at the end of the batch. There can be only one: others are printed. */
static void keep_error(struct pypool *self)
{
	/* Ctrl-C in a callback: otherwise the callbacks of all tasks that have ended would run before the reaction. */
	if (!self->packed && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
		pypool_hurry_callbacks(self);
	if (self->error)
		print_exception();
	else
		self->error = engine_take_exception();
}

/* args[0] is for the callee's use. Consumes the references to the arguments; a NULL argument is an error. */
static inline void call(struct pypool *self, PyObject *callback, PyObject **args, size_t count)
{
	bool complete = true;
	for (size_t i = 1; i <= count; i++)
		complete = complete && args[i];
	PyObject *result = NULL;
	if (complete)
		result = self->hurried ? call_hurried(self, callback, args, count)
				       : compat_call(callback, args + 1, count);
	for (size_t i = 1; i <= count; i++)
		Py_XDECREF(args[i]);
	if (result)
		Py_DECREF(result);
	else if (PyErr_Occurred())
		keep_error(self);
}

/* ---- Arguments ---------------------------------------------------------- */

/* The key of an ended task: takes over the reference of the tag. */
static PyObject *last_key(const struct gd_event *e)
{
	return e->tag ? e->tag : PyLong_FromLong((long)e->id); /* far below LONG_MAX */
}

static PyObject *key(const struct gd_event *e)
{
	Py_XINCREF((PyObject *)e->tag);
	return last_key(e);
}

static PyObject *gpu(const struct gd_event *e)
{
	return PyLong_FromLong(e->gpu);
}

static PyObject *failure_payload(const struct gd_event *e)
{
	PyObject *payload = e->result.size > 0 ? cargo_read(e->result.data, e->result.size, NULL) : NULL;
	if (payload)
		return payload;
	PyErr_Clear(); /* the message still describes the failure */
	Py_RETURN_NONE;
}

/* Takes ownership of the payload, which may be NULL: then an exception is set, and stays set. */
static PyObject *make_failure(const struct gd_event *e, const char *kind, PyObject *message, PyObject *payload)
{
	PyObject *failure = message && payload ? PyStructSequence_New(engine.failure_type) : NULL;
	if (!failure) {
		Py_XDECREF(message);
		Py_XDECREF(payload);
		return NULL;
	}
	PyStructSequence_SetItem(failure, 0, PyUnicode_FromString(kind));
	PyStructSequence_SetItem(failure, 1, message);
	PyStructSequence_SetItem(failure, 2, payload);
	PyStructSequence_SetItem(failure, 3, PyLong_FromLong(e->code));
	PyStructSequence_SetItem(failure, 4, PyLong_FromLong(e->signal));
	PyStructSequence_SetItem(failure, 5, PyLong_FromLong(e->attempt));
	PyStructSequence_SetItem(failure, 6, PyLong_FromLong(e->gpu));
	PyStructSequence_SetItem(failure, 7, PyLong_FromLong(e->slot));
	if (!PyErr_Occurred())
		return failure;
	Py_DECREF(failure);
	return NULL;
}

static PyObject *failure(const struct gd_event *e)
{
	PyObject *message = PyUnicode_DecodeUTF8(e->message, (Py_ssize_t)strlen(e->message), "replace");
	return make_failure(e, gd_failure_name(e->failure), message, failure_payload(e));
}

/* ---- Ended tasks -------------------------------------------------------- */

enum task_end {
	END_SUCCESS,
	END_ERROR,
	END_TIMEOUT,
	END_CANCELLED,
};

/*
 * Packed, the callback gets one tuple with the kind of the end, so it can be a C function such as
 * deque.append. In a Python function a signal handler may raise an exception before its first line,
 * and the end of the task would be lost.
 */
static void call_packed(struct pypool *self, enum task_end end, PyObject *callback, PyObject **args)
{
	PyObject *kind = PyLong_FromLong(end);
	PyObject *tuple =
		kind && args[1] && args[2] && args[3] ? PyTuple_Pack(4, kind, args[1], args[2], args[3]) : NULL;
	Py_XDECREF(kind);
	for (size_t i = 1; i <= 3; i++)
		Py_XDECREF(args[i]);
	PyObject *packed[] = {NULL, tuple};
	call(self, callback, packed, 1);
}

static inline void call_end(struct pypool *self, enum task_end end, PyObject *callback, PyObject **args)
{
	if (self->packed)
		call_packed(self, end, callback, args);
	else
		call(self, callback, args, 3);
}

static void call_failure(struct pypool *self, enum task_end end, PyObject *callback, const struct gd_event *e)
{
	if (!callback || self->muted) {
		Py_XDECREF((PyObject *)e->tag);
		return;
	}
	PyObject *args[] = {NULL, last_key(e), failure(e), gpu(e)};
	call_end(self, end, callback, args);
}

/* The result arrived but cannot be decoded: for example, its class does not exist in this process. */
static void call_undecodable(struct pypool *self, const struct gd_event *e)
{
	PyObject *error = engine_take_exception();
	if (!self->on_error) {
		Py_XDECREF((PyObject *)e->tag);
		Py_XDECREF(error);
		return;
	}
	PyObject *message = PyUnicode_FromFormat("the result could not be decoded: %R", error);
	PyObject *args[] = {NULL, last_key(e), make_failure(e, "undecodable", message, error), gpu(e)};
	call_end(self, END_ERROR, self->on_error, args);
}

/*
 * The object of a result; NULL: an exception is set. A signal handler may raise its exception while Python code
 * decodes: then that exception counts as the callback's, and decoding succeeds the second time.
 */
static PyObject *read_result(struct pypool *self, const struct gd_event *e)
{
	const struct gd_event *hold = self->zero_copy ? e : NULL;
	PyObject *value = cargo_read(e->result.data, e->result.size, hold);
	if (value || PyErr_ExceptionMatches(PyExc_Exception))
		return value;
	PyObject *error = engine_take_exception();
	value = cargo_read(e->result.data, e->result.size, hold);
	if (value && error && !self->error)
		self->error = error;
	else
		Py_XDECREF(error);
	return value;
}

static int on_success(void *context, const struct gd_event *e)
{
	struct pypool *self = context;
	enter(self);
	if (self->muted) {
		Py_XDECREF((PyObject *)e->tag);
		return leave(self);
	}
	PyObject *value = read_result(self, e);
	if (!value) {
		call_undecodable(self, e);
		return leave(self);
	}
	PyObject *args[] = {NULL, last_key(e), value, gpu(e)};
	call_end(self, END_SUCCESS, self->on_success, args);
	return leave(self);
}

static int on_error(void *context, const struct gd_event *e)
{
	struct pypool *self = context;
	enter(self);
	call_failure(self, END_ERROR, self->on_error, e);
	return leave(self);
}

static int on_cancelled(void *context, const struct gd_event *e)
{
	struct pypool *self = context;
	enter(self);
	call_failure(self, END_CANCELLED, self->on_cancelled, e);
	return leave(self);
}

static int on_timeout(void *context, const struct gd_event *e)
{
	struct pypool *self = context;
	enter(self);
	if (!self->on_timeout || self->muted) {
		Py_XDECREF((PyObject *)e->tag);
		return leave(self);
	}
	PyObject *args[] = {NULL, last_key(e), PyFloat_FromDouble((double)e->timeout_ms / 1000), gpu(e)};
	call_end(self, END_TIMEOUT, self->on_timeout, args);
	return leave(self);
}

/* ---- Other events ------------------------------------------------------- */

static int on_task_start(void *context, const struct gd_event *e)
{
	struct pypool *self = context;
	enter(self);
	if (!self->muted) {
		PyObject *args[] = {NULL, key(e), gpu(e)};
		call(self, self->on_task_start, args, 2);
	}
	return leave(self);
}

static int on_message(void *context, const struct gd_event *e)
{
	struct pypool *self = context;
	enter(self);
	if (!self->muted && e->failure == GD_FAILURE_NONE) {
		PyObject *args[] = {
			NULL, cargo_read(e->result.data, e->result.size, NULL), gpu(e), PyLong_FromLong(e->slot)};
		call(self, self->on_message, args, 3);
	}
	return leave(self);
}

static void call_worker_failure(struct pypool *self, PyObject *callback, const struct gd_event *e)
{
	enter(self);
	if (!self->muted) {
		PyObject *args[] = {NULL, gpu(e), failure(e)};
		call(self, callback, args, 2);
	}
	leave(self);
}

static int on_setup_fail(void *context, const struct gd_event *e)
{
	struct pypool *self = context;
	call_worker_failure(self, self->on_setup_fail, e);
	return 0;
}

static int on_cleanup_fail(void *context, const struct gd_event *e)
{
	struct pypool *self = context;
	call_worker_failure(self, self->on_cleanup_fail, e);
	return 0;
}

/* The workers have ended: from here on nothing may use the pool. */
static void on_exit_now(void *context, const struct gd_stats *stats)
{
	struct pypool *self = context;
	enter(self);
	self->last_stats = *stats;
	self->last_worker_stats = pypool_list_workers(self->gd);
	if (!self->last_worker_stats)
		PyErr_Clear();
	pypool_forget_ctrl_c(self->gd);
	self->gd = NULL;
	leave(self);
}

void pypool_fill_callbacks(const struct pypool *self, struct gd_callbacks *callbacks)
{
	*callbacks = (struct gd_callbacks){
		.size = sizeof(*callbacks),
		.context = (void *)self,
		/* All kinds of ended tasks, even without a callback: they release the tag. */
		.on_success = on_success,
		.on_error = on_error,
		.on_timeout = on_timeout,
		.on_cancelled = on_cancelled,
		.on_task_start = self->on_task_start ? on_task_start : NULL,
		.on_message = self->on_message ? on_message : NULL,
		.on_setup_fail = self->on_setup_fail ? on_setup_fail : NULL,
		.on_cleanup_fail = self->on_cleanup_fail ? on_cleanup_fail : NULL,
		.on_exit = on_exit_now,
	};
}
