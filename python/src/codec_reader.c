/* SPDX-License-Identifier: MIT */
#include "codec.h"

#include <string.h>

#include "compat.h"

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

/* A length is limited by the bytes left: each element takes at least `unit` bytes. -1: an exception is set. */
static int read_length(struct tree_reader *r, size_t unit, size_t *ret)
{
	const uint8_t *first = take(r, 1);
	if (!first)
		return -1;
	uint64_t length = *first;
	if (length >= CODEC_LENGTH_4) {
		size_t size = length == CODEC_LENGTH_4 ? sizeof(uint32_t) : sizeof(uint64_t);
		const void *more = take(r, size);
		if (!more)
			return -1;
		length = 0;
		memcpy(&length, more, size); /* little-endian, like all supported platforms */
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

/* PyUnicode_FromKindAndData() of Python 3.10 raises SystemError for invalid code points. */
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
		/* The bytes were ASCII when they were written; a worker with corrupted memory may have changed them. */
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
 * Keys of dicts repeat: recently read keys are reused, which saves memory, creation and hashing. `words` is the text,
 * padded with zeros.
 */
#define KEYS      512
#define KEY_WORDS 4

struct key {
	uint64_t words[KEY_WORDS];
	size_t size;
	PyObject *object;
};
static struct key keys[KEYS];

static struct key *find_key(const uint64_t words[KEY_WORDS], size_t size)
{
	uint64_t hash = size;
	for (size_t i = 0; i < KEY_WORDS; i++)
		hash = (hash ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15);
	return &keys[(hash >> 32) % KEYS];
}

static bool is_key(const struct key *k, const uint64_t words[KEY_WORDS], size_t size)
{
	uint64_t differences = 0;
	for (size_t i = 0; i < KEY_WORDS; i++)
		differences |= k->words[i] ^ words[i];
	return k->object && k->size == size && differences == 0;
}

static PyObject *read_key(struct tree_reader *r)
{
	if (left(r) < 2)
		return read_node(r);
	uint8_t head[2]; /* read only once: it is in the worker's memory */
	memcpy(head, r->at, sizeof(head));
	uint8_t tag = head[0];
	size_t size = head[1];
	uint64_t words[KEY_WORDS] = {0};
	if ((tag != CODEC_ASCII && tag != CODEC_UTF8) || size > sizeof(words))
		return read_node(r);
	r->at += 2;
	const void *from = take(r, size);
	if (!from)
		return NULL;
	memcpy(words, from, size);
	struct key *k = find_key(words, size);
	if (!is_key(k, words, size)) {
		PyObject *made = make_str(tag, words, size);
		if (!made)
			return NULL;
		Py_XDECREF(k->object);
		memcpy(k->words, words, sizeof(words));
		k->size = size;
		k->object = made;
	}
	Py_INCREF(k->object);
	return k->object;
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
