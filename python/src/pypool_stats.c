/* SPDX-License-Identifier: MIT */
#include "pypool.h"

PyObject *pypool_stats_dict(const struct gd_stats *s)
{
	return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsKsdsKsKsKsK}", "expected", s->expected, "submitted",
		s->submitted, "queued", s->queued, "running", s->running, "completed", s->completed, "failed",
		s->failed, "timeouts", s->timeouts, "cancelled", s->cancelled, "retries", s->retries, "setup_failures",
		s->setup_failures, "restarts", s->restarts, "queue_size", s->queue_size, "workers", s->workers,
		"workers_alive", s->workers_alive, "start_ns", s->start_ns, "end_ns", s->end_ns, "tasks_per_second",
		s->tasks_per_second, "duration_p50_ns", s->duration_p50_ns, "duration_p90_ns", s->duration_p90_ns,
		"duration_p99_ns", s->duration_p99_ns, "duration_max_ns", s->duration_max_ns);
}

PyObject *pypool_stats(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct pypool *self = (struct pypool *)object;
	struct gd_stats stats = self->last_stats;
	if (self->gd && !self->closing && pypool_is_ours(self))
		gd_pool_stats(self->gd, &stats, sizeof(stats));
	return pypool_stats_dict(&stats);
}

static PyObject *task_id(const struct gd_worker_stats *s)
{
	if (s->has_task)
		return PyLong_FromUnsignedLongLong(s->task_id);
	Py_RETURN_NONE;
}

static PyObject *worker_dict(const struct gd_worker_stats *s)
{
	return Py_BuildValue("{sisisssssLsNsKsKsKsKsKsKsKsKsKss}", "slot", s->slot, "gpu", s->gpu, "vendor",
		gd_vendor_name(s->vendor), "state", gd_worker_state_name(s->state), "pid", (long long)s->pid, "task_id",
		task_id(s), "since_ns", s->since_ns, "last_duration_ns", s->last_duration_ns, "busy_ns", s->busy_ns,
		"completed", s->completed, "failed", s->failed, "timeouts", s->timeouts, "cancelled", s->cancelled,
		"restarts", s->restarts, "queued", s->queued, "message", s->message);
}

PyObject *pypool_list_workers(const struct gd_pool *gd)
{
	PyObject *list = PyList_New(0);
	struct gd_worker_stats stats;
	for (int slot = 0; list && gd_pool_worker_stats(gd, slot, &stats, sizeof(stats)) == 0; slot++) {
		PyObject *dict = worker_dict(&stats);
		if (!dict || PyList_Append(list, dict) < 0)
			Py_CLEAR(list);
		Py_XDECREF(dict);
	}
	return list;
}

PyObject *pypool_worker_stats(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct pypool *self = (struct pypool *)object;
	if (self->gd && !self->closing && pypool_is_ours(self))
		return pypool_list_workers(self->gd);
	if (!self->last_worker_stats)
		return PyList_New(0);
	return PyList_GetSlice(self->last_worker_stats, 0, PyList_Size(self->last_worker_stats));
}
