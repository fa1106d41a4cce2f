/* SPDX-License-Identifier: MIT */
#include "pyworker.h"

#include <errno.h>

struct pyworker pyworker;

static void on_wait(struct gd_worker *w)
{
	(void)w;
	pyworker_release_gil();
}

static int take_function(PyObject **place, const char *name)
{
	*place = PyObject_GetAttrString(pyworker.hooks, name);
	return *place ? 0 : -1;
}

static int take_keeps_gil(void)
{
	PyObject *keeps = PyObject_GetAttrString(pyworker.hooks, "runs_python");
	int r = keeps ? PyObject_IsTrue(keeps) : -1;
	Py_XDECREF(keeps);
	pyworker.keeps_gil = r > 0;
	return r < 0 ? -1 : 0;
}

/* Reports the current exception. A setup that gave up on request has not failed. */
static int fail_setup(struct gd_worker *w)
{
	bool gave_up = gd_worker_cancel_reason(w, 0) == -ECANCELED && PyErr_ExceptionMatches(engine.task_cancelled);
	PyObject *described = engine_describe_exception();
	int r = pyworker_fail_as(w, -1, gave_up ? -ECANCELED : -EIO, described);
	Py_XDECREF(described);
	return r;
}

/* Continues after the program has been loaded. With the GIL. */
static int set_up(struct gd_worker *w)
{
	PyObject *result = pyworker_begin_phase(PYWORKER_PHASE_SETUP, 0)
				   ? PyObject_CallMethod(pyworker.hooks, "setup", NULL)
				   : NULL;
	pyworker_end_phase();
	int r = result ? 0 : -1;
	Py_XDECREF(result);
	if (r >= 0)
		r = take_function(&pyworker.process, "process");
	if (r >= 0)
		r = take_function(&pyworker.process_batch, "process_batch");
	if (r >= 0)
		r = take_keeps_gil();
	return r < 0 ? fail_setup(w) : 0;
}

void pyworker_continue_now(void)
{
	struct gd_worker *w = pyworker.w;
	pyworker_end_phase();
	int r = set_up(w);
	pyworker_leave();
	gd_worker_continue(w, NULL, r);
}

static int setup(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	pyworker_enter(w);
	pyworker_begin_phase(PYWORKER_PHASE_LOAD, 0);
	PyObject *loaded = PyObject_CallMethod(
		pyworker.hooks, "load", "iiL", gd_worker_gpu(w), gd_worker_device(w), (long long)gd_worker_seed(w));
	pyworker_end_phase();
	int r = loaded ? set_up(w) : fail_setup(w);
	Py_XDECREF(loaded);
	pyworker_leave();
	return r;
}

static int cleanup(struct gd_worker *w, void *state)
{
	(void)state;
	pyworker_enter(w);
	PyObject *result = PyObject_CallMethod(pyworker.hooks, "cleanup", NULL);
	int r = result ? 0 : pyworker_fail_with_exception(w, -1);
	Py_XDECREF(result);
	pyworker_leave();
	return r;
}

static void on_leave(struct gd_worker *w)
{
	pyworker_enter(w);
	PyObject *result = PyObject_CallMethod(pyworker.hooks, "leave", NULL);
	if (!result)
		PyErr_WriteUnraisable(pyworker.hooks);
	Py_XDECREF(result);
	pyworker_leave();
}

PyObject *pyworker_main(PyObject *self, PyObject *hooks)
{
	(void)self;
	PyObject *batch = PyObject_GetAttrString(hooks, "max_batch");
	long max_batch = batch ? PyLong_AsLong(batch) : -1;
	Py_XDECREF(batch);
	if (PyErr_Occurred() || pyworker_install_handler() < 0)
		return NULL;
	const struct gd_worker_ops ops = {
		.size = sizeof(ops),
		.setup = setup,
		.process = max_batch > 1 ? NULL : pyworker_process,
		.process_batch = max_batch > 1 ? pyworker_process_batch : NULL,
		.max_batch = max_batch > 1 ? (size_t)max_batch : 0,
		.cleanup = cleanup,
		.on_cancel = pyworker_on_cancel,
		.on_leave = on_leave,
		.on_setup_cancel = pyworker_on_setup_cancel,
		.on_wait = on_wait,
	};
	Py_INCREF(hooks);
	pyworker.hooks = hooks;
	pyworker.thread = pthread_self();
	pyworker.released = PyEval_SaveThread();
	int r = gd_worker_main(&ops);
	pyworker_take_gil();
	return PyLong_FromLong(r);
}
