/* SPDX-License-Identifier: MIT */
/*
 * Trees of plain built-in types as bytes: None, bool, int of 64 bits, float, str, bytes,
 * tuple, list, dict; exact types only, at most CODEC_DEPTH deep.
 *
 * An object that occurs twice would be duplicated, and a cycle would never end. So an object with other references is
 * remembered while its tree is written; if it occurs again, the tree is left to pickle, which keeps the identity of
 * objects. Short strings and numbers are the exception: they are written each time.
 *
 * Nothing here runs foreign Python code.
 */
#ifndef CODEC_H
#define CODEC_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#define CODEC_DEPTH 64

/* The first byte of a node. The first bytes of payloads that are not trees are in cargo.c. */
enum codec_tag {
	CODEC_NONE = 'N',
	CODEC_TRUE = 'T',
	CODEC_FALSE = 'F',
	CODEC_INT8 = 'i',
	CODEC_INT32 = 'j',
	CODEC_INT64 = 'l',
	CODEC_FLOAT = 'f',
	CODEC_BYTES = 'b',
	CODEC_ASCII = 'a',
	CODEC_UTF8 = 'u',
	CODEC_LATIN1 = '1', /* characters as Python stores them */
	CODEC_UCS2 = '2',
	CODEC_UCS4 = '4',
	CODEC_TUPLE = 't',
	CODEC_LIST = 'L',
	CODEC_DICT = 'D',
};

/*
 * A length is one byte below CODEC_LENGTH_4; CODEC_LENGTH_4 and CODEC_LENGTH_8 are followed by a length of this many
 * bytes.
 */
#define CODEC_LENGTH_4 254
#define CODEC_LENGTH_8 255

/* A growing buffer. */
struct codec_buffer {
	uint8_t *data;
	size_t size;
	size_t room;
};

void codec_buffer_finish(struct codec_buffer *b);

/* Makes space for `more` bytes after `size`; NULL: no memory, and MemoryError is set. */
uint8_t *codec_buffer_grow(struct codec_buffer *b, size_t more);
static inline uint8_t *codec_buffer_extend(struct codec_buffer *b, size_t more)
{
	return more <= b->room - b->size ? b->data + b->size : codec_buffer_grow(b, more);
}

/* Frees the memory if it is much larger than usual; otherwise keeps it for the next tree. */
#define CODEC_BUFFER_KEPT ((size_t)1 << 20)
static inline void codec_buffer_trim(struct codec_buffer *b)
{
	b->size = 0;
	if (b->room > CODEC_BUFFER_KEPT)
		codec_buffer_finish(b);
}

/* Appends the tree to `b`. 1; 0: this object needs pickle; -1: an exception is set. */
int codec_write(struct codec_buffer *b, PyObject *object);

/* The object of a tree that fills data[0…size) exactly; NULL: ValueError or MemoryError is set. */
PyObject *codec_read(const void *data, size_t size);

/* The head of a bytes node: `head` has space for CODEC_HEAD_MAX bytes; returns its size. */
#define CODEC_HEAD_MAX 10
size_t codec_bytes_head(uint8_t *head, size_t size);

#endif
