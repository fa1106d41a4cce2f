/* SPDX-License-Identifier: MIT */
/*
 * The worker's side, for its implementation files: the library's hooks call Python's.
 *
 * The GIL is held while a hook runs. After a task it is kept for the next one, and on_wait releases it if there is
 * none: taking it costs as much as the rest of a small task. Other threads of the worker get it during process(), when
 * Python switches threads. `released` is NULL while we hold it.
 */
#ifndef PYWORKER_H
#define PYWORKER_H

#include "cargo.h"
#include "engine.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

/* What is running and can be interrupted. */
enum pyworker_phase {
	PYWORKER_PHASE_NONE,
	PYWORKER_PHASE_LOAD, /* the program is being loaded */
	PYWORKER_PHASE_SETUP,
	PYWORKER_PHASE_TASKS, /* process() or process_batch() */
};

struct pyworker {
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
	volatile sig_atomic_t phase;  /* enum pyworker_phase */
	size_t in_hand;               /* in PYWORKER_PHASE_TASKS */
	volatile bool continue_asked; /* by another thread, in PYWORKER_PHASE_LOAD */
	bool raised;
	timer_t again;               /* interrupts system calls until the exception is raised */
	volatile sig_atomic_t armed; /* `again` is running */
	struct codec_buffer buffer;
};
extern struct pyworker pyworker; /* there is one in a process */

/* Also called after every gd_*() function that may have waited. */
static inline void pyworker_take_gil(void)
{
	if (!pyworker.released)
		return;
	PyEval_RestoreThread(pyworker.released);
	pyworker.released = NULL;
}

static inline void pyworker_release_gil(void)
{
	if (!pyworker.released)
		pyworker.released = PyEval_SaveThread();
}

/* At the beginning and at the end of a hook. */
static inline void pyworker_enter(struct gd_worker *w)
{
	pyworker_take_gil();
	pyworker.w = w;
	pyworker.in_hook = true;
}

static inline void pyworker_leave(void)
{
	pyworker.in_hook = false;
	pyworker_release_gil();
}

/* The same after a task. */
static inline void pyworker_leave_task(void)
{
	pyworker.in_hook = false;
	if (!pyworker.keeps_gil)
		pyworker_release_gil();
}

/* The function that pickles results. */
static inline PyObject *pyworker_dumps(void)
{
	return pyworker.dumps ? pyworker.dumps : engine.dumps;
}

/* ---- pyworker.c ---- */

/* worker_main() of the module: runs the worker with these hooks, and ends the process. */
PyObject *pyworker_main(PyObject *self, PyObject *hooks);
/* On the main thread, while the program is being loaded: continues as a worker. Does not return to its callers. */
void pyworker_continue_now(void) __attribute__((noreturn));

/* ---- pyworker_interrupt.c ---- */

/* Prepares interrupts. -1: an exception is set. */
int pyworker_install_handler(void);
/* Hooks of the library, which calls them in a signal handler. */
void pyworker_on_cancel(struct gd_worker *w, void *state);
void pyworker_on_setup_cancel(struct gd_worker *w);
/* What runs from here on can be interrupted. False: it is already interrupted, and the exception is set. */
bool pyworker_begin_phase(enum pyworker_phase phase, size_t num_tasks);
void pyworker_end_phase(void);
/* From another thread: the main thread continues as a worker, even if it waits for this one. */
void pyworker_ask_to_continue(void);

/* ---- pyworker_tasks.c ---- */

/* Hooks of the library. */
int pyworker_process(struct gd_worker *w, void *state, const struct gd_bytes *task);
int pyworker_process_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t count);

/* ---- pyworker_failure.c ---- */

/* Reports a described exception: a failure of the i-th task, or of the hook if i is -1. */
int pyworker_fail_as(struct gd_worker *w, Py_ssize_t i, int code, PyObject *described);
/* The same for the current exception. */
int pyworker_fail_with_exception(struct gd_worker *w, Py_ssize_t i);

#endif
