/* SPDX-License-Identifier: MIT */
#include "engine.h"

#include <errno.h>

#include "cargo.h"

struct engine engine;

/* ---- Exceptions --------------------------------------------------------- */

PyObject *engine_raise(int code, const char *message)
{
	switch (code) {
	case -EINVAL:
	case -E2BIG:
		PyErr_SetString(PyExc_ValueError, message);
		return NULL;
	case -ENODEV:
		PyErr_SetString(engine.gpu_not_found, message);
		return NULL;
	case -ENOMEM:
		PyErr_SetString(PyExc_MemoryError, message);
		return NULL;
	case -EDEADLK:
		PyErr_Format(PyExc_RuntimeError, "%s: not allowed inside a callback", message);
		return NULL;
	default: {
		PyObject *args = Py_BuildValue("(is)", -code, message);
		if (args)
			PyErr_SetObject(PyExc_OSError, args);
		Py_XDECREF(args);
		return NULL;
	}
	}
}

PyObject *engine_take_exception(void)
{
	PyObject *type, *value, *traceback;
	PyErr_Fetch(&type, &value, &traceback);
	PyErr_NormalizeException(&type, &value, &traceback);
	if (value && traceback)
		PyException_SetTraceback(value, traceback);
	Py_XDECREF(type);
	Py_XDECREF(traceback);
	return value;
}

PyObject *engine_describe_exception(void)
{
	PyObject *error = engine_take_exception();
	PyObject *module = PyImport_ImportModule("gpu_dispatch._failure");
	PyObject *described = module ? PyObject_CallMethod(module, "describe", "O", error) : NULL;
	Py_XDECREF(module);
	Py_XDECREF(error);
	return described;
}

/* ---- The codec, for tests ----------------------------------------------- */

static PyObject *encode(PyObject *self, PyObject *object)
{
	(void)self;
	struct codec_buffer buffer = {0};
	struct cargo p;
	PyObject *bytes = NULL;
	if (cargo_make(&p, &buffer, object, engine.dumps) >= 0) {
		bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)p.size);
		if (bytes)
			cargo_write(&p, PyBytes_AsString(bytes));
		cargo_finish(&p);
	}
	codec_buffer_finish(&buffer);
	return bytes;
}

static PyObject *decode(PyObject *self, PyObject *object)
{
	(void)self;
	Py_buffer view;
	if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0)
		return NULL;
	PyObject *decoded = cargo_read(view.buf, (size_t)view.len, NULL);
	PyBuffer_Release(&view);
	return decoded;
}

static PyObject *uses_codec(PyObject *self, PyObject *object)
{
	(void)self;
	struct codec_buffer buffer = {0};
	int r = codec_write(&buffer, object);
	codec_buffer_finish(&buffer);
	return r < 0 ? NULL : PyBool_FromLong(r);
}

static PyMethodDef codec_methods[] = {
	{"encode", encode, METH_O, "The bytes that are sent between the processes."},
	{"decode", decode, METH_O, "The object that was encoded in these bytes."},
	{"uses_codec", uses_codec, METH_O, "Whether the object can be sent without pickle."},
	{0},
};

/* ---- The module --------------------------------------------------------- */

static PyStructSequence_Field failure_fields[] = {
	{"kind", NULL},
	{"message", NULL},
	{"payload", NULL},
	{"code", NULL},
	{"signal", NULL},
	{"attempt", NULL},
	{"gpu", NULL},
	{"slot", NULL},
	{NULL, NULL},
};

static PyStructSequence_Desc failure_desc = {
	.name = "gpu_dispatch._engine.Failure",
	.doc = "Why a task, a setup or a cleanup did not succeed.",
	.fields = failure_fields,
	.n_in_sequence = 8,
};

/* -1: an exception is set. Imports are not repeated: these objects are kept. */
static int import(const char *module_name, const char *name, PyObject **ret)
{
	PyObject *module = PyImport_ImportModule(module_name);
	*ret = module ? PyObject_GetAttrString(module, name) : NULL;
	Py_XDECREF(module);
	return *ret ? 0 : -1;
}

static int import_all(void)
{
	const struct {
		const char *module;
		const char *name;
		PyObject **place;
	} wanted[] = {
		/* The functions of pickle, whose import takes several milliseconds. */
		{"_pickle", "dumps", &engine.dumps},
		{"_pickle", "loads", &engine.loads},
		{"gpu_dispatch.errors", "PoolClosed", &engine.pool_closed},
		{"gpu_dispatch.errors", "NoWorkers", &engine.no_workers},
		{"gpu_dispatch.errors", "GPUNotFound", &engine.gpu_not_found},
		{"gpu_dispatch.errors", "TaskTimedOut", &engine.task_timed_out},
		{"gpu_dispatch.errors", "TaskCancelled", &engine.task_cancelled},
	};
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (import(wanted[i].module, wanted[i].name, wanted[i].place) < 0)
			return -1;
	return 0;
}

static int add_types(PyObject *module)
{
	engine.failure_type = PyStructSequence_NewType(&failure_desc);
	engine.held_buffer_type = (PyTypeObject *)PyType_FromSpec(&held_buffer_spec);
	PyObject *pool = PyType_FromSpec(&pypool_spec);
	int r = engine.failure_type && engine.held_buffer_type && pool ? 0 : -1;
	if (r >= 0)
		r = PyModule_AddObjectRef(module, "Failure", (PyObject *)engine.failure_type);
	if (r >= 0)
		r = PyModule_AddObjectRef(module, "Pool", pool);
	Py_XDECREF(pool);
	return r;
}

static int fill(PyObject *module)
{
	if (import_all() < 0 || add_types(module) < 0)
		return -1;
	if (PyModule_AddFunctions(module, codec_methods) < 0 || PyModule_AddFunctions(module, worker_methods) < 0 ||
		PyModule_AddFunctions(module, gpus_methods) < 0)
		return -1;
	return PyModule_AddStringConstant(module, "version", gd_version());
}

static PyModuleDef_Slot slots[] = {
	{Py_mod_exec, fill},
	{0, NULL},
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "gpu_dispatch._engine",
	.m_doc = "A pool of worker processes, in C.",
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__engine(void);
PyMODINIT_FUNC PyInit__engine(void)
{
	return PyModuleDef_Init(&definition);
}
