/* SPDX-License-Identifier: MIT */
#include "held_buffer.h"

struct held_buffer {
	PyObject_HEAD
	struct gd_result *held;
};

PyObject *held_buffer_make(const struct gd_event *event)
{
	struct held_buffer *self = PyObject_New(struct held_buffer, engine.held_buffer_type);
	if (!self)
		return NULL;
	self->held = NULL;
	int r = gd_event_hold(event, &self->held);
	if (r < 0) {
		Py_DECREF(self);
		return engine_raise(r, "cannot keep the result");
	}
	return (PyObject *)self;
}

static void held_buffer_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	gd_result_free(((struct held_buffer *)object)->held);
	PyObject_Free(object);
	Py_DECREF(type);
}

static int held_buffer_get_buffer(PyObject *object, Py_buffer *view, int flags)
{
	struct gd_bytes bytes = gd_result_bytes(((struct held_buffer *)object)->held);
	return PyBuffer_FillInfo(view, object, (void *)bytes.data, (Py_ssize_t)bytes.size, 1, flags);
}

static PyType_Slot held_buffer_slots[] = {
	{Py_tp_dealloc, held_buffer_dealloc},
	{Py_bf_getbuffer, held_buffer_get_buffer},
	{Py_tp_doc, "The bytes of a result, in the memory that the worker wrote. Read-only."},
	{0, NULL},
};

PyType_Spec held_buffer_spec = {
	.name = "gpu_dispatch._engine.Result",
	.basicsize = sizeof(struct held_buffer),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = held_buffer_slots,
};
