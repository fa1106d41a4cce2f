/* SPDX-License-Identifier: MIT */
#include "codec.h"

#include <stdlib.h>
#include <string.h>

#include "compat.h"
#include "seen.h"

#define BUFFER_FIRST 1024

/* A string or bytes object of this size is worth remembering: see codec.h. */
#define REPEATED_SIZE 64

/* ---- The buffer --------------------------------------------------------- */

uint8_t *codec_buffer_grow(struct codec_buffer *b, size_t more)
{
	size_t room = b->room ? b->room * 2 : BUFFER_FIRST;
	if (room < b->size + more)
		room = b->size + more;
	uint8_t *data = realloc(b->data, room);
	if (!data) {
		PyErr_NoMemory();
		return NULL;
	}
	b->data = data;
	b->room = room;
	return b->data + b->size;
}

void codec_buffer_finish(struct codec_buffer *b)
{
	free(b->data);
	*b = (struct codec_buffer){0};
}

/* ---- Nodes -------------------------------------------------------------- */

struct tree_writer {
	struct codec_buffer *out;
	struct seen seen;
	int depth;
};

static size_t put_head(uint8_t *to, uint8_t tag, size_t length)
{
	to[0] = tag;
	if (length < CODEC_LENGTH_4) {
		to[1] = (uint8_t)length;
		return 2;
	}
	if (length <= UINT32_MAX) {
		uint32_t four = (uint32_t)length;
		to[1] = CODEC_LENGTH_4;
		memcpy(to + 2, &four, sizeof(four));
		return 2 + sizeof(four);
	}
	uint64_t eight = length;
	to[1] = CODEC_LENGTH_8;
	memcpy(to + 2, &eight, sizeof(eight));
	return 2 + sizeof(eight);
}

size_t codec_bytes_head(uint8_t *head, size_t size)
{
	return put_head(head, CODEC_BYTES, size);
}

static int write_tag(struct tree_writer *w, uint8_t tag)
{
	uint8_t *to = codec_buffer_extend(w->out, 1);
	if (!to)
		return -1;
	*to = tag;
	w->out->size++;
	return 1;
}

static int write_run(struct tree_writer *w, uint8_t tag, size_t length, const void *data, size_t size)
{
	uint8_t *to = codec_buffer_extend(w->out, CODEC_HEAD_MAX + size);
	if (!to)
		return -1;
	size_t head = put_head(to, tag, length);
	memcpy(to + head, data, size);
	w->out->size += head + size;
	return 1;
}

static int write_fixed(struct tree_writer *w, uint8_t tag, const void *data, size_t size)
{
	uint8_t *to = codec_buffer_extend(w->out, 1 + sizeof(uint64_t));
	if (!to)
		return -1;
	to[0] = tag;
	memcpy(to + 1, data, size);
	w->out->size += 1 + size;
	return 1;
}

static int write_int(struct tree_writer *w, PyObject *object)
{
	long long value;
	if (!compat_small_int(object, &value)) {
		int overflow;
		value = PyLong_AsLongLongAndOverflow(object, &overflow);
		if (overflow)
			return 0;
		if (value == -1 && PyErr_Occurred())
			return -1;
	}
	if (value >= INT8_MIN && value <= INT8_MAX) {
		int8_t one = (int8_t)value;
		return write_fixed(w, CODEC_INT8, &one, sizeof(one));
	}
	if (value >= INT32_MIN && value <= INT32_MAX) {
		int32_t four = (int32_t)value;
		return write_fixed(w, CODEC_INT32, &four, sizeof(four));
	}
	int64_t eight = value;
	return write_fixed(w, CODEC_INT64, &eight, sizeof(eight));
}

static int write_float(struct tree_writer *w, PyObject *object)
{
	double value = compat_float(object);
	return write_fixed(w, CODEC_FLOAT, &value, sizeof(value));
}

#ifdef Py_LIMITED_API

static int write_str(struct tree_writer *w, PyObject *object)
{
	Py_ssize_t size;
	const char *text = PyUnicode_AsUTF8AndSize(object, &size);
	if (!text) {
		PyErr_Clear(); /* a lone surrogate: leave it to pickle */
		return 0;
	}
	return write_run(w, CODEC_UTF8, (size_t)size, text, (size_t)size);
}

static size_t str_size(PyObject *object)
{
	return (size_t)PyUnicode_GetLength(object);
}

#else

static int write_str(struct tree_writer *w, PyObject *object)
{
#if PY_VERSION_HEX < 0x030c0000
	if (PyUnicode_READY(object) < 0)
		return -1;
#endif
	size_t length = (size_t)PyUnicode_GET_LENGTH(object);
	const void *data = PyUnicode_DATA(object);
	if (PyUnicode_IS_ASCII(object))
		return write_run(w, CODEC_ASCII, length, data, length);
	switch (PyUnicode_KIND(object)) {
	case PyUnicode_1BYTE_KIND:
		return write_run(w, CODEC_LATIN1, length, data, length);
	case PyUnicode_2BYTE_KIND:
		return write_run(w, CODEC_UCS2, length, data, length * 2);
	default:
		return write_run(w, CODEC_UCS4, length, data, length * 4);
	}
}

static size_t str_size(PyObject *object)
{
	return (size_t)PyUnicode_GET_LENGTH(object);
}

#endif

static int write_node(struct tree_writer *w, PyObject *object);

static int write_head(struct tree_writer *w, uint8_t tag, Py_ssize_t length)
{
	uint8_t *to = codec_buffer_extend(w->out, CODEC_HEAD_MAX);
	if (!to)
		return -1;
	w->out->size += put_head(to, tag, (size_t)length);
	return 1;
}

static int write_tuple(struct tree_writer *w, PyObject *object)
{
	Py_ssize_t size = compat_tuple_size(object);
	int r = write_head(w, CODEC_TUPLE, size);
	for (Py_ssize_t i = 0; r > 0 && i < size; i++)
		r = write_node(w, compat_tuple_get(object, i));
	return r;
}

static int write_list(struct tree_writer *w, PyObject *object)
{
	Py_ssize_t size = compat_list_size(object);
	int r = write_head(w, CODEC_LIST, size);
	for (Py_ssize_t i = 0; r > 0 && i < size; i++)
		r = write_node(w, compat_list_get(object, i));
	return r;
}

static int write_dict(struct tree_writer *w, PyObject *object)
{
	PyObject *key, *value;
	Py_ssize_t at = 0;
	int r = write_head(w, CODEC_DICT, PyDict_Size(object));
	while (r > 0 && PyDict_Next(object, &at, &key, &value)) {
		r = write_node(w, key);
		if (r > 0)
			r = write_node(w, value);
	}
	return r;
}

/* Whether the object is written for the first time. Returns the values of codec_write(). */
static int write_once(struct tree_writer *w, PyObject *object)
{
	/* The root is not remembered: if it contains itself, the cycle is found one level later. */
	if (w->depth == 0 || Py_REFCNT(object) == 1)
		return 1; /* only its container refers to it */
	int r = seen_add(&w->seen, object);
	if (r < 0)
		PyErr_NoMemory();
	return r;
}

static int write_container(
	struct tree_writer *w, PyObject *object, int (*write)(struct tree_writer *w, PyObject *object))
{
	if (w->depth >= CODEC_DEPTH)
		return 0;
	int r = write_once(w, object);
	if (r <= 0)
		return r;
	w->depth++;
	r = write(w, object);
	w->depth--;
	return r;
}

static int write_text(struct tree_writer *w, PyObject *object)
{
	int r = str_size(object) < REPEATED_SIZE ? 1 : write_once(w, object);
	if (r <= 0)
		return r;
	return write_str(w, object);
}

static int write_bytes(struct tree_writer *w, PyObject *object)
{
	size_t size = (size_t)compat_bytes_size(object);
	int r = size < REPEATED_SIZE ? 1 : write_once(w, object);
	if (r <= 0)
		return r;
	return write_run(w, CODEC_BYTES, size, compat_bytes_data(object), size);
}

static int write_node(struct tree_writer *w, PyObject *object)
{
	const PyTypeObject *type = Py_TYPE(object);
	if (type == &PyUnicode_Type)
		return write_text(w, object);
	if (type == &PyLong_Type)
		return write_int(w, object);
	if (type == &PyDict_Type)
		return write_container(w, object, write_dict);
	if (type == &PyList_Type)
		return write_container(w, object, write_list);
	if (type == &PyFloat_Type)
		return write_float(w, object);
	if (type == &PyTuple_Type)
		return write_container(w, object, write_tuple);
	if (type == &PyBytes_Type)
		return write_bytes(w, object);
	if (object == Py_None)
		return write_tag(w, CODEC_NONE);
	if (object == Py_True)
		return write_tag(w, CODEC_TRUE);
	if (object == Py_False)
		return write_tag(w, CODEC_FALSE);
	return 0;
}

int codec_write(struct codec_buffer *b, PyObject *object)
{
	size_t before = b->size;
	struct tree_writer w; /* not cleared: most of it is the initial places of the set */
	w.out = b;
	w.depth = 0;
	seen_init(&w.seen);
	int r = write_node(&w, object);
	seen_finish(&w.seen);
	if (r <= 0)
		b->size = before;
	return r;
}
