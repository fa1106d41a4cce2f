/* SPDX-License-Identifier: MIT */
/*
 * The worker's side: the library's hooks call Python's.
 *
 * The GIL is held while a hook runs. After a task it is kept for the next one, and on_wait releases it if there is
 * none: taking it costs as much as the rest of a small task. Other threads of the worker get it during process(), when
 * Python switches threads. `released` is NULL while we hold it.
 *
 * Interrupting process(): on_cancel, in a signal handler, trips Python's SIGURG, whose
 * handler is raise_if_due(). That raises only while process() runs, only if its own task is out of time or cancelled,
 * and only once: a trip that comes too late finds another task, or none. A trip just before Python begins to wait in a
 * system call would not end that wait; therefore a timer sends the signal again and again until the exception is
 * raised.
 *
 * setup() is interrupted in the same way when the pool ends or its time limit has passed. While the program is being
 * loaded, before setup(), an exception would run the `finally:` blocks of the program, so the worker ends inside the
 * handler instead.
 */
#include "cargo.h"
#include "compat.h"
#include "engine.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What is running and can be interrupted. */
enum phase {
	PHASE_NONE,
	PHASE_LOAD, /* the program is being loaded */
	PHASE_SETUP,
	PHASE_TASKS, /* process() or process_batch() */
};
#define LARGE ((size_t)256 << 10) /* copied without the GIL */

static struct {
	struct gd_worker *w; /* NULL: this process is not a worker */
	PyObject *hooks;
	PyObject *process;
	PyObject *process_batch;
	PyObject *dumps;
	PyObject *pending; /* after a hook: if this is not empty, `flush` is called; NULL: never */
	PyObject *flush;
	PyThreadState *released;
	bool keeps_gil; /* from task to task */
	pthread_t thread;
	bool in_hook;
	volatile sig_atomic_t phase;  /* enum phase */
	size_t in_hand;               /* in PHASE_TASKS */
	volatile bool continue_asked; /* by another thread, in PHASE_LOAD */
	bool raised;
	timer_t again;               /* interrupts system calls until the exception is raised */
	volatile sig_atomic_t armed; /* `again` is running */
	struct codec_buffer buffer;
} worker;

/* Also called after every gd_*() function that may have waited. */
static void take_gil(void)
{
	if (!worker.released)
		return;
	PyEval_RestoreThread(worker.released);
	worker.released = NULL;
}

static void release_gil(void)
{
	if (!worker.released)
		worker.released = PyEval_SaveThread();
}

static void on_wait(struct gd_worker *w)
{
	(void)w;
	release_gil();
}

static void enter(struct gd_worker *w)
{
	take_gil();
	worker.w = w;
	worker.in_hook = true;
}

static void leave(void)
{
	worker.in_hook = false;
	release_gil();
}

/* The same after a task. */
static void leave_task(void)
{
	worker.in_hook = false;
	if (!worker.keeps_gil)
		release_gil();
}

static PyObject *dumps(void)
{
	return worker.dumps ? worker.dumps : engine.dumps;
}

/* ---- Interrupting ------------------------------------------------------- */

#define AGAIN_NS 20000000

static void set_timer(long interval_ns)
{
	struct itimerspec when = {.it_interval = {.tv_nsec = interval_ns}, .it_value = {.tv_nsec = interval_ns}};
	worker.armed = interval_ns != 0;
	timer_settime(worker.again, 0, &when, NULL); /* fails only for a timer or a time that is wrong */
}

static void on_cancel(struct gd_worker *w, void *state)
{
	(void)w;
	(void)state;
	PyErr_SetInterruptEx(SIGURG);
	if (worker.phase != PHASE_NONE)
		set_timer(AGAIN_NS);
}

static void on_setup_cancel(struct gd_worker *w)
{
	on_cancel(w, NULL);
}

/*
 * 0, -ETIMEDOUT or -ECANCELED. A batch that is out of time is repeated task by task, so it is interrupted; it is
 * interrupted for cancellation only if all of its tasks are cancelled.
 */
static int reason_to_raise(void)
{
	if (worker.phase == PHASE_NONE)
		return 0;
	if (worker.phase != PHASE_TASKS)
		return gd_worker_cancel_reason(worker.w, 0);
	size_t cancelled = 0;
	for (size_t i = 0; i < worker.in_hand; i++) {
		int reason = gd_worker_cancel_reason(worker.w, i);
		if (reason == -ETIMEDOUT)
			return reason;
		cancelled += reason == -ECANCELED;
	}
	return cancelled > 0 && cancelled == worker.in_hand ? -ECANCELED : 0;
}

static void set_interrupt(int reason)
{
	bool task = worker.phase == PHASE_TASKS;
	if (reason == -ETIMEDOUT)
		PyErr_SetString(engine.task_timed_out, task ? "the task is out of time" : "setup() is out of time");
	else
		PyErr_SetString(engine.task_cancelled, task ? "the task was cancelled" : "the pool is ending");
}

/* Ends the process from here, as after a failed setup. */
static void give_up_loading(int reason)
{
	struct gd_worker *w = worker.w;
	worker.phase = PHASE_NONE;
	leave();
	gd_worker_continue(w, NULL,
		gd_worker_fail(w, reason, "%s",
			reason == -ETIMEDOUT ? "the program was still being loaded when the time for setup() was over"
					     : "the pool is ending"));
}

static void continue_now(void) __attribute__((noreturn));

/* Python's handler of SIGURG. */
static PyObject *raise_if_due(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	if (worker.continue_asked && worker.phase == PHASE_LOAD)
		continue_now();
	int reason = worker.raised ? 0 : reason_to_raise();
	if (reason == 0)
		Py_RETURN_NONE;
	worker.raised = true;
	set_timer(0);
	if (worker.phase == PHASE_LOAD)
		give_up_loading(reason);
	set_interrupt(reason);
	return NULL;
}

static PyMethodDef raise_if_due_method = {"raise_if_due", raise_if_due, METH_VARARGS, NULL};

/* For Python only: the library later replaces the handler of the process with its own. */
static int install_handler(void)
{
	PyObject *handler = PyCFunction_New(&raise_if_due_method, NULL);
	PyObject *module = handler ? PyImport_ImportModule("signal") : NULL;
	PyObject *before = module ? PyObject_CallMethod(module, "signal", "iO", SIGURG, handler) : NULL;
	Py_XDECREF(handler);
	Py_XDECREF(module);
	Py_XDECREF(before);
	if (!before)
		return -1;
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG};
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid); /* glibc before 2.39 has no public name for this member */
	if (timer_create(CLOCK_MONOTONIC, &event, &worker.again) < 0) {
		PyErr_SetFromErrno(PyExc_OSError);
		return -1;
	}
	return 0;
}

/* False: it is already interrupted, and the exception is set. */
static bool begin_phase(enum phase phase, size_t num_tasks)
{
	worker.raised = false;
	worker.in_hand = num_tasks;
	worker.phase = phase;
	/* A trip before this line found nothing to interrupt, so check again. */
	PyObject *due = raise_if_due(NULL, NULL);
	Py_XDECREF(due);
	return due;
}

static void end_phase(void)
{
	worker.phase = PHASE_NONE;
	if (worker.armed)
		set_timer(0);
}

/* Passes on the result of a hook, after `flush`. An exception of the hook takes precedence over one of `flush`. */
static PyObject *flushed(PyObject *result)
{
	if (!worker.pending)
		return result;
	PyObject *error = result ? NULL : engine_take_exception();
	Py_ssize_t count = PyObject_Size(worker.pending);
	PyObject *done = count > 0 ? PyObject_CallNoArgs(worker.flush) : NULL;
	if (count != 0 && !done)
		Py_CLEAR(result);
	Py_XDECREF(done);
	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	return result;
}

/* ---- Failures ----------------------------------------------------------- */

/* Reports a described exception: a failure of the i-th task, or of the hook if i is -1. */
static int fail_as(struct gd_worker *w, Py_ssize_t i, int code, PyObject *described)
{
	const char *message = "the exception could not be described";
	struct cargo p = {0};
	PyObject *text = described && PyTuple_Check(described) ? PyTuple_GetItem(described, 0) : NULL;
	PyObject *object = text ? PyTuple_GetItem(described, 1) : NULL;
	if (text)
		message = PyUnicode_AsUTF8AndSize(text, NULL);
	worker.buffer.size = 0;
	size_t size = 0;
	if (message && object && cargo_make(&p, &worker.buffer, object, engine.dumps) >= 0 && p.kind == CARGO_TREE)
		size = p.size;
	cargo_finish(&p);
	PyErr_Clear();
	message = message ? message : "the exception could not be described";
	if (i < 0)
		return gd_worker_fail_with(w, code, message, worker.buffer.data, size);
	int r = gd_worker_batch_fail_with(w, (size_t)i, code, message, worker.buffer.data, size);
	take_gil();
	return r;
}

static int fail(struct gd_worker *w, Py_ssize_t i, PyObject *described)
{
	return fail_as(w, i, -EIO, described);
}

static int fail_with_exception(struct gd_worker *w, Py_ssize_t i)
{
	PyObject *described = engine_describe_exception();
	int r = fail(w, i, described);
	Py_XDECREF(described);
	return r;
}

/* ---- Setup, cleanup ----------------------------------------------------- */

static int take_function(PyObject **place, const char *name)
{
	*place = PyObject_GetAttrString(worker.hooks, name);
	return *place ? 0 : -1;
}

static int take_keeps_gil(void)
{
	PyObject *keeps = PyObject_GetAttrString(worker.hooks, "runs_python");
	int r = keeps ? PyObject_IsTrue(keeps) : -1;
	Py_XDECREF(keeps);
	worker.keeps_gil = r > 0;
	return r < 0 ? -1 : 0;
}

/* Reports the current exception. A setup that gave up on request has not failed. */
static int fail_setup(struct gd_worker *w)
{
	bool gave_up = gd_worker_cancel_reason(w, 0) == -ECANCELED && PyErr_ExceptionMatches(engine.task_cancelled);
	PyObject *described = engine_describe_exception();
	int r = fail_as(w, -1, gave_up ? -ECANCELED : -EIO, described);
	Py_XDECREF(described);
	return r;
}

/* Continues after the program has been loaded. With the GIL. */
static int set_up(struct gd_worker *w)
{
	PyObject *result = begin_phase(PHASE_SETUP, 0) ? PyObject_CallMethod(worker.hooks, "setup", NULL) : NULL;
	end_phase();
	int r = result ? 0 : -1;
	Py_XDECREF(result);
	if (r >= 0)
		r = take_function(&worker.process, "process");
	if (r >= 0)
		r = take_function(&worker.process_batch, "process_batch");
	if (r >= 0)
		r = take_keeps_gil();
	return r < 0 ? fail_setup(w) : 0;
}

/* On the main thread: continues as a worker. Does not return to its callers. */
static void continue_now(void)
{
	struct gd_worker *w = worker.w;
	end_phase();
	int r = set_up(w);
	leave();
	gd_worker_continue(w, NULL, r);
}

static int setup(struct gd_worker *w, void **ret_state)
{
	(void)ret_state;
	enter(w);
	begin_phase(PHASE_LOAD, 0);
	PyObject *loaded = PyObject_CallMethod(
		worker.hooks, "load", "iiL", gd_worker_gpu(w), gd_worker_device(w), (long long)gd_worker_seed(w));
	end_phase();
	int r = loaded ? set_up(w) : fail_setup(w);
	Py_XDECREF(loaded);
	leave();
	return r;
}

static int cleanup(struct gd_worker *w, void *state)
{
	(void)state;
	enter(w);
	PyObject *result = PyObject_CallMethod(worker.hooks, "cleanup", NULL);
	int r = result ? 0 : fail_with_exception(w, -1);
	Py_XDECREF(result);
	leave();
	return r;
}

static void on_leave(struct gd_worker *w)
{
	enter(w);
	PyObject *result = PyObject_CallMethod(worker.hooks, "leave", NULL);
	if (!result)
		PyErr_WriteUnraisable(worker.hooks);
	Py_XDECREF(result);
	leave();
}

/* ---- Tasks -------------------------------------------------------------- */

/* The object of a task; NULL: an exception is set, or *ret_failed is the failure described by the submitter. */
static PyObject *read_task(const struct gd_bytes *task, PyObject **ret_failed)
{
	*ret_failed = NULL;
	if (cargo_is_failure(task->data, task->size)) {
		*ret_failed = cargo_read_failure(task->data, task->size);
		return NULL;
	}
	return cargo_read(task->data, task->size, NULL);
}

/* Consumes the result. */
static int answer(struct gd_worker *w, PyObject *result)
{
	struct cargo p;
	int r = cargo_make(&p, &worker.buffer, result, dumps());
	Py_DECREF(result);
	if (r < 0)
		return fail_with_exception(w, -1);
	if (p.kind == CARGO_TREE)
		return gd_worker_result(w, p.tree->data, p.size);
	void *to = gd_worker_result_reserve(w, p.size);
	if (to && p.size >= LARGE)
		release_gil();
	if (to)
		cargo_write(&p, to);
	else
		r = gd_worker_fail(w, -ENOMEM, "no memory for a result of %zu bytes", p.size);
	take_gil();
	cargo_finish(&p);
	return r;
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	enter(w);
	PyObject *failed = NULL;
	PyObject *args[] = {NULL, begin_phase(PHASE_TASKS, 1) ? read_task(task, &failed) : NULL};
	PyObject *result = args[1] ? compat_call(worker.process, args + 1, 1) : NULL;
	end_phase();
	if (args[1])
		result = flushed(result);
	Py_XDECREF(args[1]);
	int r = result ? answer(w, result) : failed ? fail(w, -1, failed) : fail_with_exception(w, -1);
	Py_XDECREF(failed);
	leave_task();
	return r;
}

/* ---- Batches ------------------------------------------------------------ */

/* Returns a list of the items of the batch, and answers those that cannot be read; places[] are the indexes of the
 * listed items. */
static PyObject *read_batch(struct gd_worker *w, const struct gd_bytes *tasks, size_t count, size_t *places)
{
	PyObject *list = PyList_New(0);
	size_t used = 0;
	for (size_t i = 0; list && i < count; i++) {
		PyObject *failed;
		PyObject *item = read_task(&tasks[i], &failed);
		if (item) {
			places[used++] = i;
			if (PyList_Append(list, item) < 0)
				Py_CLEAR(list);
			Py_DECREF(item);
		} else if (failed) {
			fail(w, (Py_ssize_t)i, failed);
			Py_DECREF(failed);
		} else if (worker.raised) {
			Py_CLEAR(list); /* the batch was interrupted: the exception applies to all items */
		} else {
			fail_with_exception(w, (Py_ssize_t)i);
		}
	}
	return list;
}

/* Answers with the result of one item; an exception object is its error. */
static void answer_one(struct gd_worker *w, size_t i, PyObject *result)
{
	struct cargo p;
	if (PyExceptionInstance_Check(result)) {
		PyErr_SetObject((PyObject *)Py_TYPE(result), result);
		fail_with_exception(w, (Py_ssize_t)i);
		return;
	}
	if (cargo_make(&p, &worker.buffer, result, dumps()) < 0) {
		fail_with_exception(w, (Py_ssize_t)i);
		return;
	}
	if (p.kind == CARGO_TREE) {
		gd_worker_batch_result(w, i, p.tree->data, p.size);
	} else {
		void *bytes = malloc(p.size);
		if (bytes) {
			cargo_write(&p, bytes);
			gd_worker_batch_result(w, i, bytes, p.size);
		} else {
			gd_worker_batch_fail(w, i, -ENOMEM, "no memory for a result of %zu bytes", p.size);
		}
		free(bytes);
	}
	take_gil();
	cargo_finish(&p);
}

static int answer_batch(struct gd_worker *w, PyObject *results, const size_t *places, Py_ssize_t count)
{
	PyObject *list = PySequence_List(results);
	if (list && PyList_Size(list) != count) {
		PyErr_Format(PyExc_ValueError, "process_batch() returned %zd results for %zd items", PyList_Size(list),
			count);
		Py_CLEAR(list);
	}
	if (!list)
		return fail_with_exception(w, -1);
	for (Py_ssize_t i = 0; i < count; i++)
		answer_one(w, places[i], PyList_GetItem(list, i));
	Py_DECREF(list);
	return 0;
}

static int process_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t count)
{
	(void)state;
	enter(w);
	int r = 0;
	size_t *places = PyMem_Calloc(count, sizeof(*places));
	PyObject *args[] = {NULL, NULL};
	if (!places)
		PyErr_NoMemory();
	else if (begin_phase(PHASE_TASKS, count))
		args[1] = read_batch(w, tasks, count, places);
	Py_ssize_t used = args[1] ? PyList_Size(args[1]) : 0;
	PyObject *results = used > 0 ? compat_call(worker.process_batch, args + 1, 1) : NULL;
	end_phase();
	if (used > 0)
		results = flushed(results);
	if (results)
		r = answer_batch(w, results, places, used);
	else if (!args[1] || used > 0)
		r = fail_with_exception(w, -1);
	Py_XDECREF(args[1]);
	Py_XDECREF(results);
	PyMem_Free(places);
	leave_task();
	return r;
}

/* ---- Functions of the module -------------------------------------------- */

static PyObject *worker_main(PyObject *self, PyObject *hooks)
{
	(void)self;
	PyObject *batch = PyObject_GetAttrString(hooks, "max_batch");
	long max_batch = batch ? PyLong_AsLong(batch) : -1;
	Py_XDECREF(batch);
	if (PyErr_Occurred() || install_handler() < 0)
		return NULL;
	const struct gd_worker_ops ops = {
		.size = sizeof(ops),
		.setup = setup,
		.process = max_batch > 1 ? NULL : process,
		.process_batch = max_batch > 1 ? process_batch : NULL,
		.max_batch = max_batch > 1 ? (size_t)max_batch : 0,
		.cleanup = cleanup,
		.on_cancel = on_cancel,
		.on_leave = on_leave,
		.on_setup_cancel = on_setup_cancel,
		.on_wait = on_wait,
	};
	Py_INCREF(hooks);
	worker.hooks = hooks;
	worker.thread = pthread_self();
	worker.released = PyEval_SaveThread();
	int r = gd_worker_main(&ops);
	take_gil();
	return PyLong_FromLong(r);
}

static bool in_worker(void)
{
	if (!worker.w)
		PyErr_SetString(PyExc_RuntimeError, "this process is not a worker");
	return worker.w;
}

/* Only the first thread may call the library's functions for workers, inside a hook. */
static bool in_hook(void)
{
	if (!in_worker())
		return false;
	if (worker.in_hook && pthread_equal(worker.thread, pthread_self()))
		return true;
	PyErr_SetString(PyExc_RuntimeError, "only the worker's main thread can do this");
	return false;
}

static PyObject *setting(PyObject *self, PyObject *key)
{
	(void)self;
	struct gd_bytes value;
	const char *name = in_worker() ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
	if (!name)
		return NULL;
	if (gd_worker_setting_bytes(worker.w, name, &value) < 0)
		Py_RETURN_NONE;
	return PyMemoryView_FromMemory((char *)value.data, (Py_ssize_t)value.size, PyBUF_READ);
}

static PyObject *send(PyObject *self, PyObject *object)
{
	(void)self;
	if (!in_hook())
		return NULL;
	struct codec_buffer buffer = {0};
	struct cargo p;
	if (cargo_make(&p, &buffer, object, dumps()) < 0) {
		codec_buffer_finish(&buffer);
		return NULL;
	}
	int r = -ENOMEM;
	void *bytes = malloc(p.size);
	if (bytes) {
		cargo_write(&p, bytes);
		r = gd_worker_send(worker.w, bytes, p.size);
		take_gil();
	}
	free(bytes);
	cargo_finish(&p);
	codec_buffer_finish(&buffer);
	if (r < 0)
		return engine_raise(r, "cannot send the message");
	Py_RETURN_NONE;
}

static PyObject *cancelled(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyBool_FromLong(worker.w && worker.in_hook && gd_worker_cancelled(worker.w, 0));
}

static PyObject *task_id(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	uint64_t id = worker.w && worker.in_hook ? gd_worker_task_id(worker.w, 0) : GD_NO_TASK;
	return id == GD_NO_TASK ? PyLong_FromLong(-1) : PyLong_FromUnsignedLongLong(id);
}

static PyObject *attempt(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyLong_FromLong(worker.w && worker.in_hook ? gd_worker_attempt(worker.w, 0) : 0);
}

/* The program has been loaded as far as workers need it. */
static PyObject *continue_worker(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	if (!in_worker())
		return NULL;
	if (pthread_equal(worker.thread, pthread_self())) {
		if (worker.phase == PHASE_LOAD)
			continue_now();
		return engine_raise(-EINVAL, "no program is being loaded");
	}
	/* The main thread may be waiting for this one: interrupt it, so that it continues in its handler. */
	worker.continue_asked = true;
	PyErr_SetInterruptEx(SIGURG);
	set_timer(AGAIN_NS);
	Py_BEGIN_ALLOW_THREADS
	for (;;)
		pause();
	Py_END_ALLOW_THREADS
}

static PyObject *set_worker_dumps(PyObject *self, PyObject *function)
{
	(void)self;
	Py_CLEAR(worker.dumps);
	if (function != Py_None) {
		Py_INCREF(function);
		worker.dumps = function;
	}
	Py_RETURN_NONE;
}

static PyObject *set_worker_flush(PyObject *self, PyObject *args)
{
	(void)self;
	PyObject *pending, *flush;
	if (!PyArg_ParseTuple(args, "OO:set_worker_flush", &pending, &flush))
		return NULL;
	Py_INCREF(pending);
	Py_INCREF(flush);
	Py_XDECREF(worker.pending);
	Py_XDECREF(worker.flush);
	worker.pending = pending;
	worker.flush = flush;
	Py_RETURN_NONE;
}

PyMethodDef worker_methods[] = {
	{"worker_main", worker_main, METH_O, "Runs the worker and ends the process."},
	{"setting", setting, METH_O, "A setting of the pool, as a memoryview, or None."},
	{"send", send, METH_O, "Passes an object to the pool's on_message."},
	{"cancelled", cancelled, METH_NOARGS, "Whether the running task is to end."},
	{"task_id", task_id, METH_NOARGS, "The id of the running task, or -1."},
	{"attempt", attempt, METH_NOARGS, "The attempt of the running task: 1…"},
	{"continue_worker", continue_worker, METH_NOARGS,
		"Goes on as a worker, from inside of load(), and ends the process."},
	{"set_worker_dumps", set_worker_dumps, METH_O, "What pickles results; None: pickle.dumps."},
	{"set_worker_flush", set_worker_flush, METH_VARARGS,
		"set_worker_flush(pending, flush): calls flush() after a task if `pending` is not empty."},
	{0},
};
