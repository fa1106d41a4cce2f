/* SPDX-License-Identifier: MIT */
/*
 * Interrupting process(): on_cancel, in a signal handler, calls PyErr_SetInterruptEx(SIGURG), so that Python soon calls
 * its handler of SIGURG, raise_if_due(). This function raises only while process() runs, only if its own task is out of
 * time or cancelled, and only once: an interrupt that comes too late finds another task, or none. An interrupt just
 * before Python begins to wait in a system call would not end that wait; therefore a timer sends the signal again and
 * again until the exception is raised.
 *
 * setup() is interrupted in the same way when the pool ends or its time limit has passed. While the program is being
 * loaded, before setup(), an exception would run the `finally:` blocks of the program, so the worker ends inside the
 * handler instead.
 */
#include "pyworker.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AGAIN_NS 20000000

static void set_timer(long interval_ns)
{
	struct itimerspec when = {.it_interval = {.tv_nsec = interval_ns}, .it_value = {.tv_nsec = interval_ns}};
	pyworker.armed = interval_ns != 0;
	timer_settime(pyworker.again, 0, &when, NULL); /* fails only for a timer or a time that is wrong */
}

void pyworker_on_cancel(struct gd_worker *w, void *state)
{
	(void)w;
	(void)state;
	PyErr_SetInterruptEx(SIGURG);
	if (pyworker.phase != PYWORKER_PHASE_NONE)
		set_timer(AGAIN_NS);
}

void pyworker_on_setup_cancel(struct gd_worker *w)
{
	pyworker_on_cancel(w, NULL);
}

/*
 * 0, -ETIMEDOUT or -ECANCELED. A batch that is out of time is repeated task by task, so it is interrupted; it is
 * interrupted for cancellation only if all of its tasks are cancelled.
 */
static int reason_to_raise(void)
{
	if (pyworker.phase == PYWORKER_PHASE_NONE)
		return 0;
	if (pyworker.phase != PYWORKER_PHASE_TASKS)
		return gd_worker_cancel_reason(pyworker.w, 0);
	size_t cancelled = 0;
	for (size_t i = 0; i < pyworker.in_hand; i++) {
		int reason = gd_worker_cancel_reason(pyworker.w, i);
		if (reason == -ETIMEDOUT)
			return reason;
		cancelled += reason == -ECANCELED;
	}
	return cancelled > 0 && cancelled == pyworker.in_hand ? -ECANCELED : 0;
}

static void set_interrupt(int reason)
{
	bool task = pyworker.phase == PYWORKER_PHASE_TASKS;
	if (reason == -ETIMEDOUT)
		PyErr_SetString(engine.task_timed_out, task ? "the task is out of time" : "setup() is out of time");
	else
		PyErr_SetString(engine.task_cancelled, task ? "the task was cancelled" : "the pool is ending");
}

/* Ends the process from here, as after a failed setup. */
static void give_up_loading(int reason)
{
	struct gd_worker *w = pyworker.w;
	pyworker.phase = PYWORKER_PHASE_NONE;
	pyworker_leave();
	gd_worker_continue(w, NULL,
		gd_worker_fail(w, reason, "%s",
			reason == -ETIMEDOUT ? "the program was still being loaded when the time for setup() was over"
					     : "the pool is ending"));
}

/* Python's handler of SIGURG. */
static PyObject *raise_if_due(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	if (pyworker.continue_asked && pyworker.phase == PYWORKER_PHASE_LOAD)
		pyworker_continue_now();
	int reason = pyworker.raised ? 0 : reason_to_raise();
	if (reason == 0)
		Py_RETURN_NONE;
	pyworker.raised = true;
	set_timer(0);
	if (pyworker.phase == PYWORKER_PHASE_LOAD)
		give_up_loading(reason);
	set_interrupt(reason);
	return NULL;
}

static PyMethodDef raise_if_due_method = {"raise_if_due", raise_if_due, METH_VARARGS, NULL};

/* For Python only: the library later replaces the handler of the process with its own. */
int pyworker_install_handler(void)
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
	if (timer_create(CLOCK_MONOTONIC, &event, &pyworker.again) < 0) {
		PyErr_SetFromErrno(PyExc_OSError);
		return -1;
	}
	return 0;
}

bool pyworker_begin_phase(enum pyworker_phase phase, size_t num_tasks)
{
	pyworker.raised = false;
	pyworker.in_hand = num_tasks;
	pyworker.phase = phase;
	/* An interrupt before this line found nothing to interrupt, so check again. */
	PyObject *due = raise_if_due(NULL, NULL);
	Py_XDECREF(due);
	return due;
}

void pyworker_end_phase(void)
{
	pyworker.phase = PYWORKER_PHASE_NONE;
	if (pyworker.armed)
		set_timer(0);
}

void pyworker_ask_to_continue(void)
{
	pyworker.continue_asked = true;
	PyErr_SetInterruptEx(SIGURG);
	set_timer(AGAIN_NS);
}
