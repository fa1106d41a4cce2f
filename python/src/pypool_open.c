/* SPDX-License-Identifier: MIT */
#include "pypool.h"

#include <errno.h>
#include <string.h>

/* The arguments of Pool(), as passed by Python; `keep` owns what the options point to. */
struct pypool_arguments {
	PyObject *argv;
	PyObject *environment;
	PyObject *gpus;
	PyObject *settings;
	const char *output;
	int bind;
	int ordered;
	int fair_start;
	int zero_copy;
	int packed;
	long long base_seed;
	long long task_timeout_ms;
	long long grace_ms;
	long long setup_timeout_ms;
	long long cleanup_timeout_ms;
	unsigned long long max_tasks_per_worker;
	unsigned long long max_worker_rss_bytes;
	unsigned long long total_tasks;
	int workers_per_gpu;
	int queue_size;
	int retries;
	int setup_concurrency;
};

/* C forms of the arguments, and the objects that they point into. */
struct converted {
	PyObject *argv; /* list of bytes */
	const char **words;
	PyObject *environment; /* list of bytes */
	const char **variables;
	PyObject *gpus; /* tuple of int */
	int *gpu_ids;
	PyObject *settings; /* list of (str, bytes) */
	struct gd_setting *pairs;
};

static void converted_finish(struct converted *c)
{
	Py_XDECREF(c->argv);
	Py_XDECREF(c->environment);
	Py_XDECREF(c->gpus);
	Py_XDECREF(c->settings);
	PyMem_Free(c->words);
	PyMem_Free(c->variables);
	PyMem_Free(c->gpu_ids);
	PyMem_Free(c->pairs);
}

/* The strings of a sequence, which end with NULL. *keep owns them. */
static int convert_strings(PyObject *sequence, PyObject **keep, const char ***ret)
{
	*keep = PySequence_List(sequence);
	if (!*keep)
		return -1;
	Py_ssize_t count = PyList_Size(*keep);
	const char **strings = *ret = PyMem_Calloc((size_t)count + 1, sizeof(*strings));
	if (!strings) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < count; i++) {
		PyObject *bytes = NULL; /* like os.fsencode(); refuses NUL */
		if (!PyUnicode_FSConverter(PyList_GetItem(*keep, i), &bytes))
			return -1;
		strings[i] = PyBytes_AsString(bytes);
		PyList_SetItem(*keep, i, bytes);
	}
	return 0;
}

static int convert_command(struct converted *c, const struct pypool_arguments *a, struct gd_options *o)
{
	if (convert_strings(a->argv, &c->argv, &c->words) < 0)
		return -1;
	o->worker_argv = c->words;
	if (a->environment == Py_None)
		return 0;
	if (convert_strings(a->environment, &c->environment, &c->variables) < 0)
		return -1;
	o->worker_env = c->variables;
	return 0;
}

static int convert_gpu_ids(struct converted *c, PyObject *gpus, struct gd_options *o)
{
	c->gpus = PySequence_Tuple(gpus);
	if (!c->gpus)
		return -1;
	Py_ssize_t count = PyTuple_Size(c->gpus);
	c->gpu_ids = PyMem_Calloc((size_t)count + 1, sizeof(*c->gpu_ids));
	if (!c->gpu_ids) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < count; i++) {
		long id = PyLong_AsLong(PyTuple_GetItem(c->gpus, i));
		if (id == -1 && PyErr_Occurred())
			return -1;
		if (id < 0 || id > INT_MAX) {
			PyErr_Format(PyExc_ValueError, "%ld is not the number of a GPU", id);
			return -1;
		}
		c->gpu_ids[i] = (int)id;
	}
	o->gpu_ids = c->gpu_ids;
	o->num_gpu_ids = (size_t)count;
	return 0;
}

static int convert_gpus(struct converted *c, PyObject *gpus, struct gd_options *o)
{
	if (gpus == Py_None)
		return 0;
	if (!PyUnicode_Check(gpus))
		return convert_gpu_ids(c, gpus, o);
	o->gpus = PyUnicode_AsUTF8AndSize(gpus, NULL);
	return o->gpus ? 0 : -1;
}

static int convert_setting(PyObject *item, struct gd_setting *ret)
{
	char *value;
	Py_ssize_t size;
	ret->key = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(item, 0), NULL);
	if (!ret->key || PyBytes_AsStringAndSize(PyTuple_GetItem(item, 1), &value, &size) < 0)
		return -1;
	/* An empty value is an empty string. */
	ret->value = value;
	ret->value_size = (size_t)size;
	return 0;
}

static int convert_settings(struct converted *c, PyObject *settings, struct gd_options *o)
{
	if (settings == Py_None)
		return 0;
	c->settings = PyMapping_Items(settings);
	if (!c->settings)
		return -1;
	Py_ssize_t count = PyList_Size(c->settings);
	c->pairs = PyMem_Calloc((size_t)count + 1, sizeof(*c->pairs));
	if (!c->pairs) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < count; i++)
		if (convert_setting(PyList_GetItem(c->settings, i), &c->pairs[i]) < 0)
			return -1;
	o->settings = c->pairs;
	o->num_settings = (size_t)count;
	return 0;
}

static void convert_output(const char *output, struct gd_options *o)
{
	if (strcmp(output, "inherit") == 0) {
		o->output = GD_OUTPUT_INHERIT;
	} else if (strcmp(output, "silent") == 0) {
		o->output = GD_OUTPUT_SILENT;
	} else {
		o->output = GD_OUTPUT_FILES;
		o->output_dir = output;
	}
}

/* Workers are executed, not only forked: starting them neither copies this program's memory nor depends on its threads.
 */
static int open_pool(struct pypool *self, const struct gd_options *o)
{
	struct gd_callbacks callbacks;
	struct gd_error err = {0};
	pypool_fill_callbacks(self, &callbacks);
	struct gd_pool *gd = NULL;
	int r;
	Py_BEGIN_ALLOW_THREADS
	r = gd_pool_open(o, &callbacks, &gd, &err);
	Py_END_ALLOW_THREADS
	if (r < 0) {
		engine_raise(r, err.message);
		return -1;
	}
	self->gd = gd;
	return 0;
}

static int convert_and_open(struct pypool *self, const struct pypool_arguments *a)
{
	struct gd_options o = {
		.size = sizeof(o),
		.bind = a->bind ? GD_BIND_VISIBLE : GD_BIND_NONE,
		.workers_per_gpu = a->workers_per_gpu,
		.base_seed = a->base_seed,
		.has_base_seed = 1,
		.queue_size = a->queue_size,
		.retries = a->retries,
		.ordered = a->ordered,
		.setup_concurrency = a->setup_concurrency,
		.max_tasks_per_worker = a->max_tasks_per_worker,
		.max_worker_rss_bytes = a->max_worker_rss_bytes,
		.total_tasks = a->total_tasks,
		.task_timeout_ms = a->task_timeout_ms,
		.grace_ms = a->grace_ms,
		.setup_timeout_ms = a->setup_timeout_ms,
		.cleanup_timeout_ms = a->cleanup_timeout_ms,
		.fair_start = a->fair_start,
	};
	struct converted c = {0};
	convert_output(a->output, &o);
	int r = convert_command(&c, a, &o);
	if (r >= 0)
		r = convert_gpus(&c, a->gpus, &o);
	if (r >= 0)
		r = convert_settings(&c, a->settings, &o);
	if (r >= 0)
		r = open_pool(self, &o);
	converted_finish(&c);
	return r;
}

/* None becomes NULL; anything else must be callable. */
static int keep_callable(PyObject **place, PyObject *object, const char *name)
{
	if (object == Py_None)
		return 0;
	if (!PyCallable_Check(object)) {
		PyErr_Format(PyExc_TypeError, "%s must be callable, not %R", name, object);
		return -1;
	}
	Py_INCREF(object);
	*place = object;
	return 0;
}

int pypool_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct pypool *self = (struct pypool *)object;
	static char *names[] = {"argv", "on_success", "gpus", "bind", "workers_per_gpu", "settings", "base_seed",
		"queue_size", "retries", "ordered", "task_timeout_ms", "grace_ms", "setup_timeout_ms",
		"cleanup_timeout_ms", "max_tasks_per_worker", "max_worker_rss_bytes", "setup_concurrency", "fair_start",
		"output", "zero_copy", "total_tasks", "dumps", "on_error", "on_timeout", "on_cancelled",
		"on_task_start", "on_message", "on_setup_fail", "on_cleanup_fail", "packed", "environment", NULL};
	struct pypool_arguments a = {
		.environment = Py_None,
		.gpus = Py_None,
		.settings = Py_None,
		.output = "inherit",
		.bind = 1,
		.workers_per_gpu = 1,
		.base_seed = 42,
		.queue_size = 1024,
		.grace_ms = 10000,
		.cleanup_timeout_ms = 10000,
	};
	PyObject *success = Py_None, *dumps = Py_None, *error = Py_None, *timeout = Py_None, *cancelled = Py_None;
	PyObject *start = Py_None, *message = Py_None, *setup_fail = Py_None, *cleanup_fail = Py_None;
	if (self->gd || self->on_success) {
		PyErr_SetString(PyExc_RuntimeError, "the pool is already open");
		return -1;
	}
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOpiOLiipLLLLKKipspKOOOOOOOOpO:Pool", names, &a.argv,
		    &success, &a.gpus, &a.bind, &a.workers_per_gpu, &a.settings, &a.base_seed, &a.queue_size,
		    &a.retries, &a.ordered, &a.task_timeout_ms, &a.grace_ms, &a.setup_timeout_ms, &a.cleanup_timeout_ms,
		    &a.max_tasks_per_worker, &a.max_worker_rss_bytes, &a.setup_concurrency, &a.fair_start, &a.output,
		    &a.zero_copy, &a.total_tasks, &dumps, &error, &timeout, &cancelled, &start, &message, &setup_fail,
		    &cleanup_fail, &a.packed, &a.environment))
		return -1;
	if (!a.argv || success == Py_None) {
		PyErr_SetString(PyExc_TypeError, "Pool() needs argv and on_success");
		return -1;
	}
	self->zero_copy = a.zero_copy;
	self->packed = a.packed;
	if (keep_callable(&self->on_success, success, "on_success") < 0 ||
		keep_callable(&self->dumps, dumps, "dumps") < 0 ||
		keep_callable(&self->on_error, error, "on_error") < 0 ||
		keep_callable(&self->on_timeout, timeout, "on_timeout") < 0 ||
		keep_callable(&self->on_cancelled, cancelled, "on_cancelled") < 0 ||
		keep_callable(&self->on_task_start, start, "on_task_start") < 0 ||
		keep_callable(&self->on_message, message, "on_message") < 0 ||
		keep_callable(&self->on_setup_fail, setup_fail, "on_setup_fail") < 0 ||
		keep_callable(&self->on_cleanup_fail, cleanup_fail, "on_cleanup_fail") < 0)
		return -1;
	return convert_and_open(self, &a);
}
