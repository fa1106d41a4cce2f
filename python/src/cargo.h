/* SPDX-License-Identifier: MIT */
/*
 * A Python object on its way to another process.
 *
 * A tree of plain built-in types is written by the codec, into a buffer of the caller.
 * Anything else is pickled with protocol 5; its large buffers (numpy arrays) stay where
 * they are and are copied once, by cargo_write(), into the memory that the other process
 * reads, each aligned to 64 bytes.
 */
#ifndef CARGO_H
#define CARGO_H

#include "codec.h"
#include "engine.h"

enum cargo_kind {
	CARGO_TREE,  /* the bytes are in the codec's buffer */
	CARGO_BYTES, /* one large bytes object */
	CARGO_PICKLED,
};

struct cargo {
	enum cargo_kind kind;
	size_t size;
	const struct codec_buffer *tree;
	PyObject *object; /* CARGO_BYTES: the object; CARGO_PICKLED: the stream, as bytes */
	Py_buffer *buffers;
	size_t num_buffers;
};

/* `dumps`: a function like pickle.dumps. -1: an exception is set. The buffer must stay until cargo_finish(). */
int cargo_make(struct cargo *p, struct codec_buffer *buffer, PyObject *object, PyObject *dumps);

/* A payload that makes the worker's task fail. `described`: see engine_describe_exception(). */
int cargo_make_failure(struct cargo *p, struct codec_buffer *buffer, PyObject *described);

/* Needs no GIL. `to` has space for `size` bytes. */
void cargo_write(const struct cargo *p, void *to);

void cargo_finish(struct cargo *p);

/* Whether the bytes come from cargo_make_failure(). */
bool cargo_is_failure(const void *data, size_t size);

/* The argument of cargo_make_failure(). */
PyObject *cargo_read_failure(const void *data, size_t size);

/*
 * Reads the object. `event`: NULL, or the event whose result the bytes are; then the object may refer to the bytes
 * without a copy, read-only, and keeps them alive.
 */
PyObject *cargo_read(const void *data, size_t size, const struct gd_event *event);

#endif
