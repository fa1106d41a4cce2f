/* SPDX-License-Identifier: MIT */
#include "compat.h"
#include "pypool.h"

#include <errno.h>

#define LARGE ((size_t)256 << 10) /* copied without the GIL */

/* ---- Placing ------------------------------------------------------------ */

/* Called without the GIL, or with it if it cannot take long. */
static int place(struct gd_pool *gd, const struct cargo *p, PyObject *tag, const struct gd_task_options *options,
	uint64_t *ret_id)
{
	if (p->kind == CARGO_TREE)
		return gd_pool_submit(gd, p->tree->data, p->size, tag, options, ret_id);
	struct gd_draft *draft;
	void *to;
	int r = gd_pool_reserve(gd, p->size, options, &draft, &to);
	if (r < 0)
		return r;
	cargo_write(p, to);
	return gd_draft_commit(draft, p->size, tag, ret_id);
}

static int place_without_gil(struct pypool *self, const struct cargo *p, PyObject *tag,
	const struct gd_task_options *options, uint64_t *ret_id)
{
	int r;
	self->users++;
	Py_BEGIN_ALLOW_THREADS
	r = place(self->gd, p, tag, options, ret_id);
	Py_END_ALLOW_THREADS
	self->users--;
	return r;
}

/* Returns at once: -EAGAIN if there is no space. Keeps the GIL unless the payload is large. */
static int place_now(struct pypool *self, const struct cargo *p, PyObject *tag, int64_t timeout_ms, uint64_t *ret_id)
{
	const struct gd_task_options options = {.size = sizeof(options), .timeout_ms = timeout_ms, .nowait = 1};
	if (p->size >= LARGE && p->kind != CARGO_TREE) /* a tree is in a buffer that the GIL guards */
		return place_without_gil(self, p, tag, &options, ret_id);
	return place(self->gd, p, tag, &options, ret_id);
}

/* Waits for space. If the payload is in the pool's buffer, the buffer is set aside meanwhile. */
static int place_soon(struct pypool *self, struct cargo *p, PyObject *tag, int64_t timeout_ms, uint64_t *ret_id)
{
	const struct gd_task_options options = {.size = sizeof(options), .timeout_ms = timeout_ms};
	struct codec_buffer mine = {0};
	bool tree = p->kind == CARGO_TREE && p->tree == &self->buffer;
	if (tree) {
		mine = self->buffer;
		self->buffer = (struct codec_buffer){0};
		p->tree = &mine;
	}
	int r = place_without_gil(self, p, tag, &options, ret_id);
	if (tree)
		codec_buffer_finish(&mine);
	return r;
}

static PyObject *raise_for(int code)
{
	switch (code) {
	case -EAGAIN:
		PyErr_SetString(PyExc_BlockingIOError, "there is no room for the task");
		return NULL;
	case -ESHUTDOWN:
		PyErr_SetString(engine.pool_closed, "the pool takes no more tasks: it was stopped");
		return NULL;
	case -ENODEV:
		PyErr_SetString(engine.no_workers, "no worker is left");
		return NULL;
	default:
		return engine_raise(code, "cannot submit the task");
	}
}

static PyObject *dumps_of(const struct pypool *self)
{
	return self->dumps ? self->dumps : engine.dumps;
}

/* ---- submit() ----------------------------------------------------------- */

/*
 * PyArg_ParseTupleAndKeywords() takes a third of the time of submitting a small task, so this
 * is done by hand. The order of the arguments: item, tag, timeout_ms, nowait.
 */
enum { ARG_ITEM, ARG_TAG, ARG_TIMEOUT_MS, ARG_NOWAIT, NUM_ARGS };

static int take_keyword(PyObject *name, PyObject *value, PyObject *ret[NUM_ARGS])
{
	static const char *const names[NUM_ARGS] = {"item", "tag", "timeout_ms", "nowait"};
	for (size_t i = 0; i < NUM_ARGS; i++) {
		if (PyUnicode_CompareWithASCIIString(name, names[i]) != 0)
			continue;
		if (ret[i]) {
			PyErr_Format(PyExc_TypeError, "submit() got multiple values for '%U'", name);
			return -1;
		}
		ret[i] = value;
		return 0;
	}
	PyErr_Format(PyExc_TypeError, "submit() got an unexpected keyword argument '%U'", name);
	return -1;
}

static int take_arguments(PyObject *const *args, Py_ssize_t count, PyObject *keywords, PyObject *ret[NUM_ARGS])
{
	if (count > NUM_ARGS) {
		PyErr_Format(PyExc_TypeError, "submit() takes at most %d arguments", NUM_ARGS);
		return -1;
	}
	for (Py_ssize_t i = 0; i < count; i++)
		ret[i] = args[i];
	for (Py_ssize_t i = 0; keywords && i < compat_tuple_size(keywords); i++)
		if (take_keyword(compat_tuple_get(keywords, i), args[count + i], ret) < 0)
			return -1;
	if (!ret[ARG_ITEM])
		PyErr_SetString(PyExc_TypeError, "submit() needs an item");
	return ret[ARG_ITEM] ? 0 : -1;
}

PyObject *pypool_submit(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
	struct pypool *self = (struct pypool *)object;
	PyObject *given[NUM_ARGS] = {NULL};
	if (!pypool_usable(self) || take_arguments(args, count, keywords, given) < 0)
		return NULL;
	PyObject *item = given[ARG_ITEM], *tag = given[ARG_TAG];
	long long timeout_ms = given[ARG_TIMEOUT_MS] ? PyLong_AsLongLong(given[ARG_TIMEOUT_MS]) : 0;
	int nowait = given[ARG_NOWAIT] ? PyObject_IsTrue(given[ARG_NOWAIT]) : 0;
	if (PyErr_Occurred())
		return NULL;
	struct cargo p;
	if (cargo_make(&p, &self->buffer, item, dumps_of(self)) < 0)
		return NULL;
	if (!pypool_usable(self)) { /* pickling runs foreign code */
		cargo_finish(&p);
		return NULL;
	}
	uint64_t id = 0;
	tag = tag == Py_None ? NULL : tag;
	Py_XINCREF(tag);
	int r = place_now(self, &p, tag, timeout_ms, &id);
	if (r == -EAGAIN && !nowait && self->gd && !self->closing)
		r = place_soon(self, &p, tag, timeout_ms, &id);
	cargo_finish(&p);
	codec_buffer_trim(&self->buffer);
	if (r >= 0)
		return PyLong_FromUnsignedLongLong(id);
	Py_XDECREF(tag);
	return raise_for(r);
}

/* ---- feed() ------------------------------------------------------------- */

/* An item that cannot be pickled becomes a task that fails with the current exception. */
static int make_failing(struct pypool *self, struct cargo *p)
{
	if (!PyErr_ExceptionMatches(PyExc_Exception))
		return -1;
	PyObject *described = engine_describe_exception();
	if (!described)
		return -1;
	int r = cargo_make_failure(p, &self->buffer, described);
	Py_DECREF(described);
	return r;
}

/* Keeps the payload for the next call. */
static void keep(struct pypool *self, struct cargo *p)
{
	self->kept = true;
	self->kept_cargo = *p;
	if (p->kind != CARGO_TREE)
		return;
	codec_buffer_finish(&self->kept_buffer);
	self->kept_buffer = self->buffer;
	self->buffer = (struct codec_buffer){0};
	self->kept_cargo.tree = &self->kept_buffer;
}

/* 1: placed; 0: no space, and the payload is kept; -1: an exception is set, and the payload is released. */
static int place_or_keep(struct pypool *self, struct cargo *p, bool wait)
{
	int r = self->gd && !self->closing ? place_now(self, p, NULL, 0, NULL) : -ESHUTDOWN;
	if (r == -EAGAIN && wait && self->gd && !self->closing)
		r = place_soon(self, p, NULL, 0, NULL);
	if (r == -EAGAIN) {
		keep(self, p);
		return 0;
	}
	cargo_finish(p);
	codec_buffer_trim(&self->buffer);
	if (r >= 0)
		return 1;
	raise_for(r);
	return -1;
}

static int feed_kept(struct pypool *self, bool wait)
{
	struct cargo p = self->kept_cargo;
	self->kept = false;
	if (p.kind == CARGO_TREE) { /* back into the buffer that place_or_keep() uses */
		codec_buffer_finish(&self->buffer);
		self->buffer = self->kept_buffer;
		self->kept_buffer = (struct codec_buffer){0};
		p.tree = &self->buffer;
	}
	return place_or_keep(self, &p, wait);
}

static int feed_item(struct pypool *self, PyObject *item, bool wait)
{
	struct cargo p;
	if (cargo_make(&p, &self->buffer, item, dumps_of(self)) < 0 && make_failing(self, &p) < 0)
		return -1;
	return place_or_keep(self, &p, wait);
}

/* 1: the iterator has ended; 0: no space, or the limit is reached; -1: an exception is set. */
static int feed(struct pypool *self, PyObject *iterator, unsigned long long limit, bool wait)
{
	iternextfunc next = (iternextfunc)PyType_GetSlot(Py_TYPE(iterator), Py_tp_iternext);
	if (self->kept) {
		int r = feed_kept(self, wait);
		if (r <= 0)
			return r;
	}
	for (unsigned long long count = 0; limit == 0 || count < limit; count++) {
		PyObject *item = next(iterator);
		if (!item) {
			if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_StopIteration))
				return -1;
			PyErr_Clear();
			return 1;
		}
		int r = feed_item(self, item, wait);
		Py_DECREF(item);
		if (r <= 0)
			return r;
	}
	return 0;
}

PyObject *pypool_feed(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct pypool *self = (struct pypool *)object;
	static char *names[] = {"iterator", "limit", "wait", NULL};
	PyObject *iterator;
	unsigned long long limit = 0;
	int wait = 0;
	if (!pypool_usable(self) ||
		!PyArg_ParseTupleAndKeywords(args, kwargs, "O|Kp:feed", names, &iterator, &limit, &wait))
		return NULL;
	if (!PyIter_Check(iterator)) {
		PyErr_Format(PyExc_TypeError, "feed() takes an iterator, not %R", Py_TYPE(iterator));
		return NULL;
	}
	if (self->feeding) {
		PyErr_SetString(PyExc_RuntimeError, "another thread is feeding this pool");
		return NULL;
	}
	self->feeding = true;
	int r = feed(self, iterator, limit, wait);
	self->feeding = false;
	return r < 0 ? NULL : PyBool_FromLong(r);
}
