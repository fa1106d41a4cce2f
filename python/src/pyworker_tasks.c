/* SPDX-License-Identifier: MIT */
/* Tasks, one at a time or in batches: objects in, process(), results out. */
#include "compat.h"
#include "pyworker.h"

#include <errno.h>
#include <stdlib.h>

#define LARGE ((size_t)256 << 10) /* copied without the GIL */

/* Passes on the result of a hook, after `flush`. An exception of the hook takes precedence over one of `flush`. */
static PyObject *flushed(PyObject *result)
{
	if (!pyworker.pending)
		return result;
	PyObject *error = result ? NULL : engine_take_exception();
	Py_ssize_t count = PyObject_Size(pyworker.pending);
	PyObject *done = count > 0 ? PyObject_CallNoArgs(pyworker.flush) : NULL;
	if (count != 0 && !done)
		Py_CLEAR(result);
	Py_XDECREF(done);
	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	return result;
}

/* The object of a task; NULL: an exception is set, or *ret_failed is the failure described by the submitter. */
static PyObject *read_task(const struct gd_bytes *task, PyObject **ret_failed)
{
	*ret_failed = NULL;
	if (cargo_is_failure(task->data, task->size)) {
		*ret_failed = cargo_read_failure(task->data, task->size);
		return NULL;
	}
	return cargo_read(task->data, task->size, NULL);
}

/* Consumes the result. */
static int answer(struct gd_worker *w, PyObject *result)
{
	struct cargo p;
	int r = cargo_make(&p, &pyworker.buffer, result, pyworker_dumps());
	Py_DECREF(result);
	if (r < 0)
		return pyworker_fail_with_exception(w, -1);
	if (p.kind == CARGO_TREE)
		return gd_worker_result(w, p.tree->data, p.size);
	void *to = gd_worker_result_reserve(w, p.size);
	if (to && p.size >= LARGE)
		pyworker_release_gil();
	if (to)
		cargo_write(&p, to);
	else
		r = gd_worker_fail(w, -ENOMEM, "not enough memory for a result of %zu bytes", p.size);
	pyworker_take_gil();
	cargo_finish(&p);
	return r;
}

int pyworker_process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	pyworker_enter(w);
	PyObject *failed = NULL;
	PyObject *args[] = {NULL, pyworker_begin_phase(PYWORKER_PHASE_TASKS, 1) ? read_task(task, &failed) : NULL};
	PyObject *result = args[1] ? compat_call(pyworker.process, args + 1, 1) : NULL;
	pyworker_end_phase();
	if (args[1])
		result = flushed(result);
	Py_XDECREF(args[1]);
	int r = result   ? answer(w, result)
		: failed ? pyworker_fail_as(w, -1, -EIO, failed)
			 : pyworker_fail_with_exception(w, -1);
	Py_XDECREF(failed);
	pyworker_leave_task();
	return r;
}

/* ---- Batches ------------------------------------------------------------ */

/* Returns a list of the items of the batch, and answers those that cannot be read; places[] are the indexes of the
 * listed items. */
static PyObject *read_batch(struct gd_worker *w, const struct gd_bytes *tasks, size_t count, size_t *places)
{
	PyObject *list = PyList_New(0);
	size_t used = 0;
	for (size_t i = 0; list && i < count; i++) {
		PyObject *failed;
		PyObject *item = read_task(&tasks[i], &failed);
		if (item) {
			places[used++] = i;
			if (PyList_Append(list, item) < 0)
				Py_CLEAR(list);
			Py_DECREF(item);
		} else if (failed) {
			pyworker_fail_as(w, (Py_ssize_t)i, -EIO, failed);
			Py_DECREF(failed);
		} else if (pyworker.raised) {
			Py_CLEAR(list); /* the batch was interrupted: the exception applies to all items */
		} else {
			pyworker_fail_with_exception(w, (Py_ssize_t)i);
		}
	}
	return list;
}

/* Answers with the result of one item; an exception object is its error. */
static void answer_one(struct gd_worker *w, size_t i, PyObject *result)
{
	struct cargo p;
	if (PyExceptionInstance_Check(result)) {
		PyErr_SetObject((PyObject *)Py_TYPE(result), result);
		pyworker_fail_with_exception(w, (Py_ssize_t)i);
		return;
	}
	if (cargo_make(&p, &pyworker.buffer, result, pyworker_dumps()) < 0) {
		pyworker_fail_with_exception(w, (Py_ssize_t)i);
		return;
	}
	if (p.kind == CARGO_TREE) {
		gd_worker_batch_result(w, i, p.tree->data, p.size);
	} else {
		void *bytes = malloc(p.size);
		if (bytes) {
			cargo_write(&p, bytes);
			gd_worker_batch_result(w, i, bytes, p.size);
		} else {
			gd_worker_batch_fail(w, i, -ENOMEM, "not enough memory for a result of %zu bytes", p.size);
		}
		free(bytes);
	}
	pyworker_take_gil();
	cargo_finish(&p);
}

static int answer_batch(struct gd_worker *w, PyObject *results, const size_t *places, Py_ssize_t count)
{
	PyObject *list = PySequence_List(results);
	if (list && PyList_Size(list) != count) {
		PyErr_Format(PyExc_ValueError, "process_batch() returned %zd results for %zd items", PyList_Size(list),
			count);
		Py_CLEAR(list);
	}
	if (!list)
		return pyworker_fail_with_exception(w, -1);
	for (Py_ssize_t i = 0; i < count; i++)
		answer_one(w, places[i], PyList_GetItem(list, i));
	Py_DECREF(list);
	return 0;
}

int pyworker_process_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t count)
{
	(void)state;
	pyworker_enter(w);
	int r = 0;
	size_t *places = PyMem_Calloc(count, sizeof(*places));
	PyObject *args[] = {NULL, NULL};
	if (!places)
		PyErr_NoMemory();
	else if (pyworker_begin_phase(PYWORKER_PHASE_TASKS, count))
		args[1] = read_batch(w, tasks, count, places);
	Py_ssize_t used = args[1] ? PyList_Size(args[1]) : 0;
	PyObject *results = used > 0 ? compat_call(pyworker.process_batch, args + 1, 1) : NULL;
	pyworker_end_phase();
	if (used > 0)
		results = flushed(results);
	if (results)
		r = answer_batch(w, results, places, used);
	else if (!args[1] || used > 0)
		r = pyworker_fail_with_exception(w, -1);
	Py_XDECREF(args[1]);
	Py_XDECREF(results);
	PyMem_Free(places);
	pyworker_leave_task();
	return r;
}
