/* SPDX-License-Identifier: MIT */
/* Failures of hooks and tasks: exceptions on their way to the pool. */
#include "pyworker.h"

#include <errno.h>

int pyworker_fail_as(struct gd_worker *w, Py_ssize_t i, int code, PyObject *described)
{
	const char *message = "the exception could not be described";
	struct cargo p = {0};
	PyObject *text = described && PyTuple_Check(described) ? PyTuple_GetItem(described, 0) : NULL;
	PyObject *object = text ? PyTuple_GetItem(described, 1) : NULL;
	if (text)
		message = PyUnicode_AsUTF8AndSize(text, NULL);
	pyworker.buffer.size = 0;
	size_t size = 0;
	if (message && object && cargo_make(&p, &pyworker.buffer, object, engine.dumps) >= 0 && p.kind == CARGO_TREE)
		size = p.size;
	cargo_finish(&p);
	PyErr_Clear();
	message = message ? message : "the exception could not be described";
	if (i < 0)
		return gd_worker_fail_with(w, code, message, pyworker.buffer.data, size);
	int r = gd_worker_batch_fail_with(w, (size_t)i, code, message, pyworker.buffer.data, size);
	pyworker_take_gil();
	return r;
}

int pyworker_fail_with_exception(struct gd_worker *w, Py_ssize_t i)
{
	PyObject *described = engine_describe_exception();
	int r = pyworker_fail_as(w, i, -EIO, described);
	Py_XDECREF(described);
	return r;
}
