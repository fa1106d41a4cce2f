/* SPDX-License-Identifier: MIT */
/* The functions of the module for workers. */
#include "pyworker.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static bool in_worker(void)
{
	if (!pyworker.w)
		PyErr_SetString(PyExc_RuntimeError, "this process is not a worker");
	return pyworker.w;
}

/* Only the first thread may call the library's functions for workers, inside a hook. */
static bool in_hook(void)
{
	if (!in_worker())
		return false;
	if (pyworker.in_hook && pthread_equal(pyworker.thread, pthread_self()))
		return true;
	PyErr_SetString(PyExc_RuntimeError, "only the worker's main thread can do this");
	return false;
}

static PyObject *setting(PyObject *self, PyObject *key)
{
	(void)self;
	struct gd_bytes value;
	const char *name = in_worker() ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
	if (!name)
		return NULL;
	if (gd_worker_setting_bytes(pyworker.w, name, &value) < 0)
		Py_RETURN_NONE;
	return PyMemoryView_FromMemory((char *)value.data, (Py_ssize_t)value.size, PyBUF_READ);
}

static PyObject *send(PyObject *self, PyObject *object)
{
	(void)self;
	if (!in_hook())
		return NULL;
	struct codec_buffer buffer = {0};
	struct cargo p;
	if (cargo_make(&p, &buffer, object, pyworker_dumps()) < 0) {
		codec_buffer_finish(&buffer);
		return NULL;
	}
	int r = -ENOMEM;
	void *bytes = malloc(p.size);
	if (bytes) {
		cargo_write(&p, bytes);
		r = gd_worker_send(pyworker.w, bytes, p.size);
		pyworker_take_gil();
	}
	free(bytes);
	cargo_finish(&p);
	codec_buffer_finish(&buffer);
	if (r < 0)
		return engine_raise(r, "cannot send the message");
	Py_RETURN_NONE;
}

static PyObject *cancelled(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyBool_FromLong(pyworker.w && pyworker.in_hook && gd_worker_cancelled(pyworker.w, 0));
}

static PyObject *task_id(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	uint64_t id = pyworker.w && pyworker.in_hook ? gd_worker_task_id(pyworker.w, 0) : GD_NO_TASK;
	return id == GD_NO_TASK ? PyLong_FromLong(-1) : PyLong_FromUnsignedLongLong(id);
}

static PyObject *attempt(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyLong_FromLong(pyworker.w && pyworker.in_hook ? gd_worker_attempt(pyworker.w, 0) : 0);
}

/* The program has been loaded as far as workers need it. */
static PyObject *continue_worker(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	if (!in_worker())
		return NULL;
	if (pthread_equal(pyworker.thread, pthread_self())) {
		if (pyworker.phase == PYWORKER_PHASE_LOAD)
			pyworker_continue_now();
		return engine_raise(-EINVAL, "no program is being loaded");
	}
	/* The main thread may be waiting for this one: interrupt it, so that it continues in its handler. */
	pyworker_ask_to_continue();
	Py_BEGIN_ALLOW_THREADS
	for (;;)
		pause();
	Py_END_ALLOW_THREADS
}

static PyObject *set_worker_dumps(PyObject *self, PyObject *function)
{
	(void)self;
	Py_CLEAR(pyworker.dumps);
	if (function != Py_None) {
		Py_INCREF(function);
		pyworker.dumps = function;
	}
	Py_RETURN_NONE;
}

static PyObject *set_worker_flush(PyObject *self, PyObject *args)
{
	(void)self;
	PyObject *pending, *flush;
	if (!PyArg_ParseTuple(args, "OO:set_worker_flush", &pending, &flush))
		return NULL;
	Py_INCREF(pending);
	Py_INCREF(flush);
	Py_XDECREF(pyworker.pending);
	Py_XDECREF(pyworker.flush);
	pyworker.pending = pending;
	pyworker.flush = flush;
	Py_RETURN_NONE;
}

PyMethodDef worker_methods[] = {
	{"worker_main", pyworker_main, METH_O, "Runs the worker and ends the process."},
	{"setting", setting, METH_O, "A setting of the pool, as a memoryview, or None."},
	{"send", send, METH_O, "Passes an object to the pool's on_message."},
	{"cancelled", cancelled, METH_NOARGS, "Whether the running task should end."},
	{"task_id", task_id, METH_NOARGS, "The id of the running task, or -1."},
	{"attempt", attempt, METH_NOARGS, "The attempt of the running task: 1…"},
	{"continue_worker", continue_worker, METH_NOARGS,
		"Continues as a worker, from inside load(), and ends the process."},
	{"set_worker_dumps", set_worker_dumps, METH_O, "The function that pickles results; None: pickle.dumps."},
	{"set_worker_flush", set_worker_flush, METH_VARARGS,
		"set_worker_flush(pending, flush): calls flush() after a task if `pending` is not empty."},
	{0},
};
