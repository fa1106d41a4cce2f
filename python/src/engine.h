/* SPDX-License-Identifier: MIT */
/*
 * The extension gpu_dispatch._engine: objects that its files share.
 *
 * They are set once, when the module is imported, and live as long as the process. All of
 * the extension's memory is guarded by the GIL, except where a struct says otherwise.
 */
#ifndef ENGINE_H
#define ENGINE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "gpu_dispatch.h"

struct engine {
	PyObject *dumps; /* pickle.dumps, pickle.loads */
	PyObject *loads;
	/* Exceptions of gpu_dispatch.errors. */
	PyObject *pool_closed;
	PyObject *no_workers;
	PyObject *gpu_not_found;
	PyObject *task_timed_out;
	PyObject *task_cancelled;
	PyTypeObject *failure_type;
	PyTypeObject *held_buffer_type;
};
extern struct engine engine;

/* Raises the exception for a negative errno value; returns NULL. */
PyObject *engine_raise(int code, const char *message);

/* Takes the current exception, with its traceback. Never NULL if an exception is set. */
PyObject *engine_take_exception(void);

/*
 * Takes the current exception and describes it with gpu_dispatch._failure.describe():
 * (message, payload), both of plain built-in types. NULL: another exception is set.
 */
PyObject *engine_describe_exception(void);

/* pypool.c, held_buffer.c, pyworker_methods.c, gpus.c */
extern PyType_Spec pypool_spec;
extern PyType_Spec held_buffer_spec;
extern PyMethodDef worker_methods[];
extern PyMethodDef gpus_methods[];

#endif
