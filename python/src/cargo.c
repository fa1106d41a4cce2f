/* SPDX-License-Identifier: MIT */
#include "cargo.h"

#include <string.h>

#include "compat.h"
#include "held_buffer.h"

#define TAG_PICKLED 'P'
#define TAG_FAILURE 'X'

#define ALIGNMENT    64
#define BYTES_DIRECT 4096 /* a bytes object from this size on is not copied into the codec's buffer */
#define STREAM_SMALL 4096 /* up to this size a copy is cheaper than a memoryview */

/*
 * A pickled payload begins with this, followed by the sizes of the buffers (uint64_t) and
 * the stream. The buffers follow, each at the next multiple of ALIGNMENT.
 */
struct pickled_head {
	uint8_t tag;
	uint8_t zero[3];
	uint32_t num_buffers;
	uint64_t stream_size;
};

static size_t aligned(size_t size)
{
	return (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static size_t stream_offset(size_t num_buffers)
{
	return sizeof(struct pickled_head) + num_buffers * sizeof(uint64_t);
}

/* ---- Creating ----------------------------------------------------------- */

static PyObject *call_dumps(PyObject *dumps, PyObject *object, PyObject *append)
{
	PyObject *args = Py_BuildValue("(Oi)", object, 5);
	PyObject *kwargs = args ? Py_BuildValue("{sO}", "buffer_callback", append) : NULL;
	PyObject *stream = kwargs ? PyObject_Call(dumps, args, kwargs) : NULL;
	Py_XDECREF(args);
	Py_XDECREF(kwargs);
	if (stream && !PyBytes_CheckExact(stream)) {
		PyErr_Format(PyExc_TypeError, "dumps() returned %R instead of bytes", Py_TYPE(stream));
		Py_CLEAR(stream);
	}
	return stream;
}

static int get_buffers(struct cargo *p, PyObject *list)
{
	size_t count = (size_t)PyList_Size(list);
	if (count == 0)
		return 0;
	p->buffers = PyMem_Calloc(count, sizeof(*p->buffers));
	if (!p->buffers) {
		PyErr_NoMemory();
		return -1;
	}
	for (size_t i = 0; i < count; i++) {
		PyObject *raw = PyObject_CallMethod(PyList_GetItem(list, (Py_ssize_t)i), "raw", NULL);
		int r = raw ? PyObject_GetBuffer(raw, &p->buffers[i], PyBUF_SIMPLE) : -1;
		Py_XDECREF(raw);
		if (r < 0)
			return -1;
		p->num_buffers++;
		p->size = aligned(p->size) + (size_t)p->buffers[i].len;
	}
	return 0;
}

/*
 * pickle.dumps, or a variant that sends tensors out of band once the program uses torch. Borrowed. If that fails for
 * this torch, pickle.dumps is used.
 */
static PyObject *usual_dumps(void)
{
	static PyObject *with_tensors;
	if (!with_tensors && PyDict_GetItemString(PyImport_GetModuleDict(), "torch")) {
		PyObject *module = PyImport_ImportModule("gpu_dispatch._tensors");
		with_tensors = module ? PyObject_GetAttrString(module, "dumps") : NULL;
		Py_XDECREF(module);
		if (!with_tensors) {
			PyErr_Clear();
			Py_INCREF(engine.dumps);
			with_tensors = engine.dumps;
		}
	}
	return with_tensors ? with_tensors : engine.dumps;
}

static int make_pickled(struct cargo *p, PyObject *object, PyObject *dumps)
{
	if (dumps == engine.dumps)
		dumps = usual_dumps();
	PyObject *list = PyList_New(0);
	PyObject *append = list ? PyObject_GetAttrString(list, "append") : NULL;
	p->kind = CARGO_PICKLED;
	p->object = append ? call_dumps(dumps, object, append) : NULL;
	int r = -1;
	if (p->object) {
		p->size = stream_offset((size_t)PyList_Size(list)) + (size_t)compat_bytes_size(p->object);
		r = get_buffers(p, list);
	}
	Py_XDECREF(append);
	Py_XDECREF(list);
	if (r < 0)
		cargo_finish(p);
	return r;
}

static void take_tree(struct cargo *p, const struct codec_buffer *buffer)
{
	p->kind = CARGO_TREE;
	p->tree = buffer;
	p->size = buffer->size;
}

int cargo_make(struct cargo *p, struct codec_buffer *buffer, PyObject *object, PyObject *dumps)
{
	*p = (struct cargo){0};
	buffer->size = 0;
	if (PyBytes_CheckExact(object) && compat_bytes_size(object) >= BYTES_DIRECT) {
		uint8_t head[CODEC_HEAD_MAX];
		p->kind = CARGO_BYTES;
		p->size = codec_bytes_head(head, (size_t)compat_bytes_size(object)) + (size_t)compat_bytes_size(object);
		Py_INCREF(object);
		p->object = object;
		return 0;
	}
	int r = codec_write(buffer, object);
	if (r < 0)
		return -1;
	if (r == 0)
		return make_pickled(p, object, dumps);
	take_tree(p, buffer);
	return 0;
}

int cargo_make_failure(struct cargo *p, struct codec_buffer *buffer, PyObject *described)
{
	*p = (struct cargo){0};
	buffer->size = 0;
	uint8_t *to = codec_buffer_extend(buffer, 1);
	if (!to)
		return -1;
	*to = TAG_FAILURE;
	buffer->size = 1;
	int r = codec_write(buffer, described);
	if (r == 0)
		PyErr_SetString(PyExc_TypeError, "the description of a failure must consist of plain built-in types");
	if (r <= 0)
		return -1;
	take_tree(p, buffer);
	return 0;
}

static void write_pickled(const struct cargo *p, char *to)
{
	size_t stream_size = (size_t)compat_bytes_size(p->object);
	const struct pickled_head head = {
		.tag = TAG_PICKLED, .num_buffers = (uint32_t)p->num_buffers, .stream_size = stream_size};
	memcpy(to, &head, sizeof(head));
	size_t at = sizeof(head);
	for (size_t i = 0; i < p->num_buffers; i++, at += sizeof(uint64_t)) {
		uint64_t size = (uint64_t)p->buffers[i].len;
		memcpy(to + at, &size, sizeof(size));
	}
	memcpy(to + at, compat_bytes_data(p->object), stream_size);
	at += stream_size;
	for (size_t i = 0; i < p->num_buffers; i++) {
		memset(to + at, 0, aligned(at) - at);
		at = aligned(at);
		if (p->buffers[i].len > 0)
			memcpy(to + at, p->buffers[i].buf, (size_t)p->buffers[i].len);
		at += (size_t)p->buffers[i].len;
	}
}

void cargo_write(const struct cargo *p, void *to)
{
	switch (p->kind) {
	case CARGO_TREE:
		memcpy(to, p->tree->data, p->size);
		return;
	case CARGO_BYTES: {
		size_t size = (size_t)compat_bytes_size(p->object);
		size_t head = codec_bytes_head(to, size);
		memcpy((char *)to + head, compat_bytes_data(p->object), size);
		return;
	}
	case CARGO_PICKLED:
		write_pickled(p, to);
	}
}

void cargo_finish(struct cargo *p)
{
	for (size_t i = 0; i < p->num_buffers; i++)
		PyBuffer_Release(&p->buffers[i]);
	PyMem_Free(p->buffers);
	Py_CLEAR(p->object);
	p->buffers = NULL;
	p->num_buffers = 0;
}

/* ---- Reading ------------------------------------------------------------ */

static PyObject *damaged(void)
{
	PyErr_SetString(PyExc_ValueError, "the pickled object is damaged");
	return NULL;
}

/* A view of a part of the bytes of `held`. */
static PyObject *view_part(PyObject *held, size_t offset, size_t size)
{
	PyObject *whole = PyMemoryView_FromObject(held);
	PyObject *part = whole ? PySequence_GetSlice(whole, (Py_ssize_t)offset, (Py_ssize_t)(offset + size)) : NULL;
	Py_XDECREF(whole);
	return part;
}

/* `held`: NULL, or the object that keeps the bytes: then the buffers are views of it, otherwise copies. */
static PyObject *read_buffers(const char *data, size_t size, const struct pickled_head *head, PyObject *held)
{
	PyObject *list = PyList_New((Py_ssize_t)head->num_buffers);
	size_t at = stream_offset(head->num_buffers) + (size_t)head->stream_size;
	for (uint32_t i = 0; list && i < head->num_buffers; i++) {
		uint64_t length;
		memcpy(&length, data + sizeof(*head) + i * sizeof(length), sizeof(length));
		at = aligned(at);
		PyObject *buffer = NULL;
		if (at > size || length > size - at)
			damaged();
		else if (held)
			buffer = view_part(held, at, (size_t)length);
		else
			buffer = PyByteArray_FromStringAndSize(data + at, (Py_ssize_t)length);
		at += (size_t)length;
		if (buffer)
			PyList_SetItem(list, (Py_ssize_t)i, buffer);
		else
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *call_loads(PyObject *stream, PyObject *buffers)
{
	PyObject *args = PyTuple_Pack(1, stream);
	PyObject *kwargs = args && buffers ? Py_BuildValue("{sO}", "buffers", buffers) : NULL;
	PyObject *object = args && (kwargs || !buffers) ? PyObject_Call(engine.loads, args, kwargs) : NULL;
	Py_XDECREF(args);
	Py_XDECREF(kwargs);
	return object;
}

static PyObject *read_stream(const char *data, size_t size, PyObject *buffers)
{
	PyObject *stream = size <= STREAM_SMALL ? PyBytes_FromStringAndSize(data, (Py_ssize_t)size)
						: PyMemoryView_FromMemory((char *)data, (Py_ssize_t)size, PyBUF_READ);
	PyObject *object = stream ? call_loads(stream, buffers) : NULL;
	Py_XDECREF(stream);
	return object;
}

static PyObject *read_pickled(const char *data, size_t size, const struct gd_event *event)
{
	struct pickled_head head;
	if (size < sizeof(head))
		return damaged();
	memcpy(&head, data, sizeof(head));
	if (head.num_buffers > (size - sizeof(head)) / sizeof(uint64_t))
		return damaged();
	size_t offset = stream_offset(head.num_buffers);
	if (head.stream_size > size - offset)
		return damaged();
	if (head.num_buffers == 0)
		return read_stream(data + offset, (size_t)head.stream_size, NULL);
	PyObject *held = NULL;
	if (event) {
		held = held_buffer_make(event);
		if (!held)
			return NULL;
	}
	PyObject *buffers = read_buffers(data, size, &head, held);
	PyObject *object = buffers ? read_stream(data + offset, (size_t)head.stream_size, buffers) : NULL;
	Py_XDECREF(buffers);
	Py_XDECREF(held);
	return object;
}

PyObject *cargo_read(const void *data, size_t size, const struct gd_event *event)
{
	if (size > 0 && *(const uint8_t *)data == TAG_PICKLED)
		return read_pickled(data, size, event);
	return codec_read(data, size);
}

bool cargo_is_failure(const void *data, size_t size)
{
	return size > 0 && *(const uint8_t *)data == TAG_FAILURE;
}

PyObject *cargo_read_failure(const void *data, size_t size)
{
	return codec_read((const uint8_t *)data + 1, size - 1);
}
