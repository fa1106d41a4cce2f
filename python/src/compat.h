/* SPDX-License-Identifier: MIT */
/* Replacements for functions that the limited API lacks. Without Py_LIMITED_API, each is the fast form. */
#ifndef COMPAT_H
#define COMPAT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#ifdef Py_LIMITED_API

#define compat_tuple_get(tuple, i)         PyTuple_GetItem(tuple, i)
#define compat_tuple_set(tuple, i, object) ((void)PyTuple_SetItem(tuple, i, object))
#define compat_tuple_size(tuple)           PyTuple_Size(tuple)
#define compat_list_get(list, i)           PyList_GetItem(list, i)
#define compat_list_set(list, i, object)   ((void)PyList_SetItem(list, i, object))
#define compat_list_size(list)             PyList_Size(list)
#define compat_bytes_data(bytes)           PyBytes_AsString(bytes)
#define compat_bytes_size(bytes)           PyBytes_Size(bytes)
#define compat_float(object)               PyFloat_AsDouble(object)

/* False: the int is large, or this cannot be determined. */
static inline bool compat_small_int(PyObject *object, long long *ret)
{
	(void)object;
	(void)ret;
	return false;
}

static inline PyObject *compat_call(PyObject *callable, PyObject *const *args, size_t count)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)count);
	if (!tuple)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		Py_INCREF(args[i]);
		PyTuple_SetItem(tuple, (Py_ssize_t)i, args[i]);
	}
	PyObject *result = PyObject_Call(callable, tuple, NULL);
	Py_DECREF(tuple);
	return result;
}

#else

#define compat_tuple_get(tuple, i)         PyTuple_GET_ITEM(tuple, i)
#define compat_tuple_set(tuple, i, object) PyTuple_SET_ITEM(tuple, i, object)
#define compat_tuple_size(tuple)           PyTuple_GET_SIZE(tuple)
#define compat_list_get(list, i)           PyList_GET_ITEM(list, i)
#define compat_list_set(list, i, object)   PyList_SET_ITEM(list, i, object)
#define compat_list_size(list)             PyList_GET_SIZE(list)
#define compat_bytes_data(bytes)           PyBytes_AS_STRING(bytes)
#define compat_bytes_size(bytes)           PyBytes_GET_SIZE(bytes)
#define compat_float(object)               PyFloat_AS_DOUBLE(object)

static inline bool compat_small_int(PyObject *object, long long *ret)
{
#if PY_VERSION_HEX >= 0x030c0000
	if (!PyUnstable_Long_IsCompact((PyLongObject *)object))
		return false;
	*ret = PyUnstable_Long_CompactValue((PyLongObject *)object);
#else
	Py_ssize_t size = Py_SIZE(object);
	if (size < -1 || size > 1)
		return false;
	*ret = size == 0 ? 0 : (long long)size * (long long)((PyLongObject *)object)->ob_digit[0];
#endif
	return true;
}

/* The callee may use args[-1], which the caller must provide. */
static inline PyObject *compat_call(PyObject *callable, PyObject *const *args, size_t count)
{
	return PyObject_Vectorcall(callable, args, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

#endif

#endif
