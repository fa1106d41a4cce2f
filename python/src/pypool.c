/* SPDX-License-Identifier: MIT */
#include "pypool.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

/* ---- Forks -------------------------------------------------------------- */

/* Incremented in every forked child: its value then differs from that stored in the pools of the parent. */
static unsigned generation = 1;

static void count_fork(void)
{
	generation++;
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, count_fork);
}

bool pypool_is_ours(const struct pypool *self)
{
	return self->generation == generation;
}

/* Checked once per thread, and again after a fork, which makes its thread the main thread. */
bool pypool_on_main_thread(void)
{
	static _Thread_local unsigned asked;
	static _Thread_local bool is_main;
	if (asked != generation) {
		asked = generation;
		is_main = gettid() == getpid();
	}
	return is_main;
}

bool pypool_usable(const struct pypool *self)
{
	if (!pypool_is_ours(self)) {
		PyErr_SetString(
			PyExc_RuntimeError, "this pool belongs to the parent process: a forked child cannot use it");
		return false;
	}
	if (!self->gd || self->closing) {
		PyErr_SetString(engine.pool_closed, "the pool is closed");
		return false;
	}
	return true;
}

/* ---- The object --------------------------------------------------------- */

static PyObject *pypool_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	(void)args;
	(void)kwargs;
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct pypool *self = (struct pypool *)alloc(type, 0);
	if (self)
		self->generation = generation;
	return (PyObject *)self;
}

static int pypool_traverse(PyObject *object, visitproc visit, void *arg)
{
	const struct pypool *self = (struct pypool *)object;
	Py_VISIT(Py_TYPE(object));
	Py_VISIT(self->error);
	Py_VISIT(self->dumps);
	Py_VISIT(self->on_success);
	Py_VISIT(self->on_error);
	Py_VISIT(self->on_timeout);
	Py_VISIT(self->on_cancelled);
	Py_VISIT(self->on_task_start);
	Py_VISIT(self->on_message);
	Py_VISIT(self->on_setup_fail);
	Py_VISIT(self->on_cleanup_fail);
	return 0;
}

static int pypool_clear(PyObject *object)
{
	struct pypool *self = (struct pypool *)object;
	Py_CLEAR(self->error);
	Py_CLEAR(self->dumps);
	Py_CLEAR(self->on_success);
	Py_CLEAR(self->on_error);
	Py_CLEAR(self->on_timeout);
	Py_CLEAR(self->on_cancelled);
	Py_CLEAR(self->on_task_start);
	Py_CLEAR(self->on_message);
	Py_CLEAR(self->on_setup_fail);
	Py_CLEAR(self->on_cleanup_fail);
	return 0;
}

static void pypool_dealloc(PyObject *object)
{
	struct pypool *self = (struct pypool *)object;
	PyTypeObject *type = Py_TYPE(object);
	PyObject_GC_UnTrack(object);
	if (self->gd && pypool_is_ours(self))
		pypool_destroy(self);
	if (self->kept)
		cargo_finish(&self->kept_cargo);
	codec_buffer_finish(&self->kept_buffer);
	codec_buffer_finish(&self->buffer);
	pypool_clear(object);
	Py_CLEAR(self->last_worker_stats);
	PyObject_GC_Del(object);
	Py_DECREF(type);
}

/* ---- Short methods ------------------------------------------------------ */

static PyObject *pypool_cancel(PyObject *object, PyObject *id)
{
	struct pypool *self = (struct pypool *)object;
	if (!pypool_usable(self))
		return NULL;
	unsigned long long number = PyLong_AsUnsignedLongLong(id);
	if (number == (unsigned long long)-1 && PyErr_Occurred())
		return NULL;
	int r = gd_pool_cancel(self->gd, number);
	if (r < 0 && r != -ENOENT)
		return engine_raise(r, "cannot cancel the task");
	return PyBool_FromLong(r == 0);
}

/* Works also while the pool is being closed. */
static PyObject *pypool_stop(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct pypool *self = (struct pypool *)object;
	if (self->gd && pypool_is_ours(self)) {
		self->interrupted = true;
		self->stopped = true;
		gd_pool_stop(self->gd);
	}
	Py_RETURN_NONE;
}

static PyObject *pypool_interrupt(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct pypool *self = (struct pypool *)object;
	if (self->gd && !self->closing && pypool_is_ours(self)) {
		self->interrupted = true;
		gd_pool_interrupt(self->gd);
	}
	Py_RETURN_NONE;
}

static PyObject *pypool_expect_no_more(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct pypool *self = (struct pypool *)object;
	if (!pypool_usable(self))
		return NULL;
	gd_pool_expect_no_more(self->gd);
	Py_RETURN_NONE;
}

static PyObject *pypool_hurry(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct pypool *self = (struct pypool *)object;
	if (!self->hurried)
		pypool_hurry_callbacks(self);
	Py_RETURN_NONE;
}

static PyObject *pypool_fileno(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct pypool *self = (struct pypool *)object;
	return pypool_usable(self) ? PyLong_FromLong(gd_pool_fd(self->gd)) : NULL;
}

static PyObject *pypool_outstanding(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct pypool *self = (struct pypool *)object;
	return pypool_usable(self) ? PyLong_FromSize_t(gd_pool_outstanding(self->gd)) : NULL;
}

static PyObject *pypool_room(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct pypool *self = (struct pypool *)object;
	return pypool_usable(self) ? PyLong_FromSize_t(gd_pool_room(self->gd)) : NULL;
}

static PyObject *pypool_is_polling(PyObject *object, PyObject *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct pypool *)object)->polling);
}

static PyObject *pypool_get_closed(PyObject *object, void *unused)
{
	(void)unused;
	const struct pypool *self = (struct pypool *)object;
	return PyBool_FromLong(!self->gd || self->closing);
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function)

static PyMethodDef methods[] = {
	{"submit", KEYWORDS(pypool_submit), METH_FASTCALL | METH_KEYWORDS, "Adds a task and returns its id."},
	{"feed", KEYWORDS(pypool_feed), METH_VARARGS | METH_KEYWORDS, "Submits the items of an iterator."},
	{"poll", KEYWORDS(pypool_poll), METH_VARARGS | METH_KEYWORDS, "Makes the callbacks that are due."},
	{"wait_ready", KEYWORDS(pypool_wait_ready), METH_VARARGS | METH_KEYWORDS, "Polls until the workers are ready."},
	{"close", KEYWORDS(pypool_close), METH_VARARGS | METH_KEYWORDS, "Ends the workers."},
	{"cancel", pypool_cancel, METH_O, "Cancels a task; False if it has ended."},
	{"stop", pypool_stop, METH_NOARGS, "Ends the work in steps: finish, cancel, kill."},
	{"interrupt", pypool_interrupt, METH_NOARGS, "Makes poll() return."},
	{"expect_no_more", pypool_expect_no_more, METH_NOARGS, "No more tasks will come."},
	{"hurry", pypool_hurry, METH_NOARGS, "Limits the time of callbacks."},
	{"fileno", pypool_fileno, METH_NOARGS, "A descriptor that is readable when poll() has something to do."},
	{"polling", pypool_is_polling, METH_NOARGS, "True while a thread is in poll()."},
	{"outstanding", pypool_outstanding, METH_NOARGS, "Tasks whose callback has not been made."},
	{"room", pypool_room, METH_NOARGS, "How many tasks can be submitted without waiting."},
	{"stats", pypool_stats, METH_NOARGS, "Statistics of the pool."},
	{"worker_stats", pypool_worker_stats, METH_NOARGS, "Statistics of each worker."},
	{0},
};

static PyGetSetDef properties[] = {
	{"closed", pypool_get_closed, NULL, "True after close().", NULL},
	{0},
};

static PyType_Slot slots[] = {
	{Py_tp_new, pypool_new},
	{Py_tp_init, pypool_init},
	{Py_tp_dealloc, pypool_dealloc},
	{Py_tp_traverse, pypool_traverse},
	{Py_tp_clear, pypool_clear},
	{Py_tp_methods, methods},
	{Py_tp_getset, properties},
	{Py_tp_doc, "Worker processes, and the tasks that they process."},
	{0, NULL},
};

PyType_Spec pypool_spec = {
	.name = "gpu_dispatch._engine.Pool",
	.basicsize = sizeof(struct pypool),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
	.slots = slots,
};
