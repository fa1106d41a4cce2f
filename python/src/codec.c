/* SPDX-License-Identifier: MIT */
#include "codec.h"

#include <stdlib.h>
#include <string.h>

#include "compat.h"
#include "seen.h"

#define LENGTH_4 254 /* a length of four bytes follows, or of eight; below: the length itself */
#define LENGTH_8 255

#define BUFFER_FIRST 1024
#define BUFFER_KEPT  ((size_t)1 << 20)

/* A string or bytes object of this size is worth remembering: see codec.h. */
#define REPEATED_SIZE 64

/* ---- Bytes that grow ---------------------------------------------------- */

uint8_t *codec_buffer_extend(struct codec_buffer *b, size_t more)
{
	if (more > b->room - b->size) {
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
	}
	return b->data + b->size;
}

void codec_buffer_trim(struct codec_buffer *b)
{
	b->size = 0;
	if (b->room > BUFFER_KEPT)
		codec_buffer_finish(b);
}

void codec_buffer_finish(struct codec_buffer *b)
{
	free(b->data);
	*b = (struct codec_buffer){0};
}

/* ---- Writing ------------------------------------------------------------ */

struct tree_writer {
	struct codec_buffer *out;
	struct seen seen;
	int depth;
};

static size_t put_head(uint8_t *to, uint8_t tag, size_t length)
{
	to[0] = tag;
	if (length < LENGTH_4) {
		to[1] = (uint8_t)length;
		return 2;
	}
	if (length <= UINT32_MAX) {
		uint32_t four = (uint32_t)length;
		to[1] = LENGTH_4;
		memcpy(to + 2, &four, sizeof(four));
		return 2 + sizeof(four);
	}
	uint64_t eight = length;
	to[1] = LENGTH_8;
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
	int overflow;
	long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
	if (overflow)
		return 0;
	if (value == -1 && PyErr_Occurred())
		return -1;
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
		PyErr_Clear(); /* a lone surrogate: pickle can */
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

/* Whether the object may be written here: not for the second time. As codec_write() returns. */
static int write_once(struct tree_writer *w, PyObject *object)
{
	/* The root is not remembered: if it contains itself, that is seen one turn later. */
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
	struct tree_writer w; /* not cleared: most of it is the set's first places */
	w.out = b;
	w.depth = 0;
	seen_init(&w.seen);
	int r = write_node(&w, object);
	seen_finish(&w.seen);
	if (r <= 0)
		b->size = before;
	return r;
}

/* ---- Reading ------------------------------------------------------------ */

struct tree_reader {
	const uint8_t *at;
	const uint8_t *end;
	int depth;
};

static PyObject *read_node(struct tree_reader *r);

static PyObject *damaged(void)
{
	PyErr_SetString(PyExc_ValueError, "the encoded object is damaged");
	return NULL;
}

static size_t left(const struct tree_reader *r)
{
	return (size_t)(r->end - r->at);
}

static const void *take(struct tree_reader *r, size_t size)
{
	if (size > left(r)) {
		damaged();
		return NULL;
	}
	const void *here = r->at;
	r->at += size;
	return here;
}

/* A length is at most what is left: each unit takes `unit` bytes or more. -1: an exception is set. */
static int read_length(struct tree_reader *r, size_t unit, size_t *ret)
{
	const uint8_t *first = take(r, 1);
	if (!first)
		return -1;
	uint64_t length = *first;
	if (length >= LENGTH_4) {
		size_t size = length == LENGTH_4 ? sizeof(uint32_t) : sizeof(uint64_t);
		const void *more = take(r, size);
		if (!more)
			return -1;
		length = 0;
		memcpy(&length, more, size); /* little-endian, as all that we run on */
	}
	if (length > left(r) / unit) {
		damaged();
		return -1;
	}
	*ret = (size_t)length;
	return 0;
}

static PyObject *read_int(struct tree_reader *r, uint8_t tag)
{
	if (tag == CODEC_INT8) {
		const int8_t *one = take(r, 1);
		return one ? PyLong_FromLong(*one) : NULL;
	}
	if (tag == CODEC_INT32) {
		int32_t four;
		const void *from = take(r, sizeof(four));
		if (!from)
			return NULL;
		memcpy(&four, from, sizeof(four));
		return PyLong_FromLong(four);
	}
	int64_t eight;
	const void *from = take(r, sizeof(eight));
	if (!from)
		return NULL;
	memcpy(&eight, from, sizeof(eight));
	return PyLong_FromLongLong(eight);
}

static PyObject *read_float(struct tree_reader *r)
{
	double value;
	const void *from = take(r, sizeof(value));
	if (!from)
		return NULL;
	memcpy(&value, from, sizeof(value));
	return PyFloat_FromDouble(value);
}

static PyObject *read_bytes(struct tree_reader *r)
{
	size_t size;
	if (read_length(r, 1, &size) < 0)
		return NULL;
	return PyBytes_FromStringAndSize(take(r, size), (Py_ssize_t)size);
}

#ifdef Py_LIMITED_API

static PyObject *make_str(uint8_t tag, const void *data, size_t length)
{
	return tag == CODEC_UTF8 ? PyUnicode_FromStringAndSize(data, (Py_ssize_t)length) : damaged();
}

#else

/* PyUnicode_FromKindAndData() of Python 3.10 raises SystemError for others. */
static bool are_code_points(const void *data, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		uint32_t c;
		memcpy(&c, (const char *)data + i * sizeof(c), sizeof(c));
		if (c > 0x10ffff)
			return false;
	}
	return true;
}

static PyObject *make_str(uint8_t tag, const void *data, size_t length)
{
	switch (tag) {
	case CODEC_ASCII: {
		/* The bytes were ASCII when they were written; a worker that broke its memory may have changed them. */
		PyObject *text = PyUnicode_New((Py_ssize_t)length, 127);
		if (!text)
			return NULL;
		uint8_t *to = PyUnicode_1BYTE_DATA(text), bits = 0;
		memcpy(to, data, length);
		for (size_t i = 0; i < length; i++)
			bits |= to[i];
		if (bits < 128)
			return text;
		Py_DECREF(text);
		return damaged();
	}
	case CODEC_LATIN1:
		return PyUnicode_FromKindAndData(PyUnicode_1BYTE_KIND, data, (Py_ssize_t)length);
	case CODEC_UCS2:
		return PyUnicode_FromKindAndData(PyUnicode_2BYTE_KIND, data, (Py_ssize_t)length);
	case CODEC_UCS4:
		if (!are_code_points(data, length))
			return damaged();
		return PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, data, (Py_ssize_t)length);
	default:
		return PyUnicode_FromStringAndSize(data, (Py_ssize_t)length);
	}
}

#endif

static PyObject *read_str(struct tree_reader *r, uint8_t tag)
{
	size_t unit = tag == CODEC_UCS2 ? 2 : tag == CODEC_UCS4 ? 4 : 1;
	size_t length;
	if (read_length(r, unit, &length) < 0)
		return NULL;
	return make_str(tag, take(r, length * unit), length);
}

/*
 * Keys of dicts repeat: those that were read lately are used again, which saves their
 * memory, their making and their hashing.
 */
#define KEYS        512
#define KEY_LONGEST 32

static struct {
	uint8_t size;
	char text[KEY_LONGEST];
	PyObject *object;
} keys[KEYS];

static uint32_t hash_key(const char *text, size_t size)
{
	uint32_t hash = 2166136261u;
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (uint8_t)text[i]) * 16777619u;
	return hash;
}

static PyObject *read_key(struct tree_reader *r)
{
	if (left(r) < 2)
		return read_node(r);
	uint8_t head[2]; /* read once: it lies in the worker's memory */
	memcpy(head, r->at, sizeof(head));
	uint8_t tag = head[0];
	size_t size = head[1];
	char text[KEY_LONGEST];
	if ((tag != CODEC_ASCII && tag != CODEC_UTF8) || size > KEY_LONGEST)
		return read_node(r);
	r->at += 2;
	const void *from = take(r, size);
	if (!from)
		return NULL;
	memcpy(text, from, size);
	size_t place = hash_key(text, size) % KEYS;
	if (!keys[place].object || keys[place].size != size || memcmp(keys[place].text, text, size) != 0) {
		PyObject *made = make_str(tag, text, size);
		if (!made)
			return NULL;
		Py_XDECREF(keys[place].object);
		keys[place].object = made;
		keys[place].size = (uint8_t)size;
		memcpy(keys[place].text, text, size);
	}
	Py_INCREF(keys[place].object);
	return keys[place].object;
}

static PyObject *read_tuple(struct tree_reader *r)
{
	size_t size;
	if (read_length(r, 1, &size) < 0)
		return NULL;
	PyObject *tuple = PyTuple_New((Py_ssize_t)size);
	for (size_t i = 0; tuple && i < size; i++) {
		PyObject *item = read_node(r);
		if (item)
			compat_tuple_set(tuple, (Py_ssize_t)i, item);
		else
			Py_CLEAR(tuple);
	}
	return tuple;
}

static PyObject *read_list(struct tree_reader *r)
{
	size_t size;
	if (read_length(r, 1, &size) < 0)
		return NULL;
	PyObject *list = PyList_New((Py_ssize_t)size);
	for (size_t i = 0; list && i < size; i++) {
		PyObject *item = read_node(r);
		if (item)
			compat_list_set(list, (Py_ssize_t)i, item);
		else
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *read_dict(struct tree_reader *r)
{
	size_t size;
	if (read_length(r, 2, &size) < 0)
		return NULL;
	PyObject *dict = PyDict_New();
	for (size_t i = 0; dict && i < size; i++) {
		PyObject *key = read_key(r);
		PyObject *value = key ? read_node(r) : NULL;
		if (!value || PyDict_SetItem(dict, key, value) < 0)
			Py_CLEAR(dict);
		Py_XDECREF(key);
		Py_XDECREF(value);
	}
	return dict;
}

static PyObject *read_container(struct tree_reader *r, PyObject *(*read)(struct tree_reader *r))
{
	if (r->depth >= CODEC_DEPTH)
		return damaged();
	r->depth++;
	PyObject *object = read(r);
	r->depth--;
	return object;
}

static PyObject *constant(PyObject *object)
{
	Py_INCREF(object);
	return object;
}

static PyObject *read_node(struct tree_reader *r)
{
	const uint8_t *first = take(r, 1);
	if (!first)
		return NULL;
	uint8_t tag = *first;
	switch (tag) {
	case CODEC_NONE:
		return constant(Py_None);
	case CODEC_TRUE:
		return constant(Py_True);
	case CODEC_FALSE:
		return constant(Py_False);
	case CODEC_INT8:
	case CODEC_INT32:
	case CODEC_INT64:
		return read_int(r, tag);
	case CODEC_FLOAT:
		return read_float(r);
	case CODEC_BYTES:
		return read_bytes(r);
	case CODEC_ASCII:
	case CODEC_UTF8:
	case CODEC_LATIN1:
	case CODEC_UCS2:
	case CODEC_UCS4:
		return read_str(r, tag);
	case CODEC_TUPLE:
		return read_container(r, read_tuple);
	case CODEC_LIST:
		return read_container(r, read_list);
	case CODEC_DICT:
		return read_container(r, read_dict);
	default:
		return damaged();
	}
}

PyObject *codec_read(const void *data, size_t size)
{
	struct tree_reader r = {.at = data, .end = (const uint8_t *)data + size};
	PyObject *object = read_node(&r);
	if (object && r.at != r.end) {
		Py_DECREF(object);
		return damaged();
	}
	return object;
}
