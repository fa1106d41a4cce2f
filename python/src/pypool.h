/* SPDX-License-Identifier: MIT */
/*
 * The Python object around a gd_pool, for its implementation files.
 *
 * Callbacks are made by the polling thread, which has released the GIL to wait; the first callback of a batch takes the
 * GIL, and it is kept until the batch has ended (`released` is then NULL). `users` counts the threads inside the
 * library without the GIL, except the polling one: gd_pool_close() is called when there are none.
 */
#ifndef PYPOOL_H
#define PYPOOL_H

#include "cargo.h"
#include "engine.h"

struct pypool {
	PyObject_HEAD
	struct gd_pool *gd;  /* NULL: closed, or not open yet */
	unsigned generation; /* of the process: see pypool_usable() */
	bool closing;
	bool polling;
	unsigned long poller; /* the thread that is polling */
	bool feeding;
	bool interrupted;
	bool stopped; /* stop() was called */
	bool zero_copy;
	bool packed;       /* callbacks for ended tasks get one tuple */
	bool muted;        /* no more callbacks: the object is being destroyed */
	bool release_each; /* release the GIL after each callback, not only after a batch */
	bool hurried;      /* after Ctrl-C: callbacks have budget_ns in total, and are skipped after that */
	int64_t budget_ns;
	PyThreadState *released; /* of the polling thread, while it is without the GIL */
	PyObject *error;         /* the first exception of a callback */
	size_t users;
	struct codec_buffer buffer; /* for payloads, while the GIL is held */
	/* The item that feed() has pulled but not placed. */
	bool kept;
	struct cargo kept_cargo;
	struct codec_buffer kept_buffer;
	struct gd_stats last_stats;
	PyObject *last_worker_stats; /* set by close() */

	PyObject *dumps;
	PyObject *on_success;
	PyObject *on_error;
	PyObject *on_timeout;
	PyObject *on_cancelled;
	PyObject *on_task_start;
	PyObject *on_message;
	PyObject *on_setup_fail;
	PyObject *on_cleanup_fail;
};

/* False, and an exception is set, if the pool is closed or belongs to the parent of a fork. */
bool pypool_usable(const struct pypool *self);

/* Whether this is the thread on which Python's signal handlers run. */
bool pypool_on_main_thread(void);

/* False in a forked child: the pool belongs to the parent. */
bool pypool_is_ours(const struct pypool *self);

/* pypool_open.c: the constructor */
int pypool_init(PyObject *object, PyObject *args, PyObject *kwargs);

/* pypool_events.c */
void pypool_fill_callbacks(const struct pypool *self, struct gd_callbacks *callbacks);

/* Limits the time of callbacks; a second call leaves no time. */
void pypool_hurry_callbacks(struct pypool *self);

/* pypool_submit.c */
PyObject *pypool_submit(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *pypool_feed(PyObject *object, PyObject *args, PyObject *kwargs);

/* pypool_poll.c */
int pypool_poll_once(
	struct pypool *self, int timeout_ms, unsigned flags); /* without the GIL until the first callback */
PyObject *pypool_poll(PyObject *object, PyObject *args, PyObject *kwargs);
PyObject *pypool_wait_ready(PyObject *object, PyObject *args, PyObject *kwargs);

/* pypool_close.c */
PyObject *pypool_close(PyObject *object, PyObject *args, PyObject *kwargs);
void pypool_forget_ctrl_c(struct gd_pool *pool); /* the pool that was being closed no longer exists */
void pypool_destroy(struct pypool *self);        /* kills the workers; no callbacks */

/* pypool_stats.c */
PyObject *pypool_stats_dict(const struct gd_stats *stats);
PyObject *pypool_stats(PyObject *object, PyObject *unused);
PyObject *pypool_worker_stats(PyObject *object, PyObject *unused);
PyObject *pypool_list_workers(const struct gd_pool *gd);

#endif
