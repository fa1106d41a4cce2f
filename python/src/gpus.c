/* SPDX-License-Identifier: MIT */
#include "engine.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static const char *const health_names[] = {
	[GD_GPU_HEALTH_OK] = "ok",
	[GD_GPU_HEALTH_LOST] = "lost",
	[GD_GPU_HEALTH_NOT_ANSWERING] = "not answering",
	[GD_GPU_HEALTH_UNREADABLE] = "unreadable",
};

/* Adds a value and consumes it; None if it is unknown. */
static int put(PyObject *dict, const char *key, bool known, PyObject *value)
{
	int r = value ? PyDict_SetItemString(dict, key, known ? value : Py_None) : -1;
	Py_XDECREF(value);
	return r;
}

static PyObject *text(const char *words)
{
	return PyUnicode_DecodeUTF8(words, (Py_ssize_t)strlen(words), "replace");
}

static PyObject *list_processes(const struct gd_gpu *g)
{
	PyObject *list = PyList_New(0);
	for (size_t i = 0; list && i < g->num_processes; i++) {
		const struct gd_gpu_process *p = g->processes[i];
		PyObject *entry = PyDict_New();
		int r = entry ? put(entry, "pid", true, PyLong_FromLongLong(p->pid)) : -1;
		if (r >= 0)
			r = put(entry, "memory_bytes", p->memory_known, PyLong_FromUnsignedLongLong(p->memory_bytes));
		if (r < 0 || PyList_Append(list, entry) < 0)
			Py_CLEAR(list);
		Py_XDECREF(entry);
	}
	return list;
}

static int fill_names(PyObject *dict, const struct gd_gpu *g)
{
	unsigned known = g->known;
	if (put(dict, "index", true, PyLong_FromLong(g->index)) < 0 ||
		put(dict, "vendor", true, text(gd_vendor_name(g->vendor))) < 0 ||
		put(dict, "vendor_index", true, PyLong_FromLong(g->vendor_index)) < 0 ||
		put(dict, "mig_index", g->mig_index >= 0, PyLong_FromLong(g->mig_index)) < 0 ||
		put(dict, "mig_enabled", known & GD_GPU_KNOWN_MIG, PyBool_FromLong(g->mig_enabled)) < 0 ||
		put(dict, "health", true, text(health_names[g->health])) < 0 ||
		put(dict, "usable", true, PyBool_FromLong(gd_gpu_usable(g))) < 0 ||
		put(dict, "uuid", known & GD_GPU_KNOWN_UUID, text(g->uuid)) < 0 ||
		put(dict, "name", known & GD_GPU_KNOWN_NAME, text(g->name)) < 0 ||
		put(dict, "pci_id", known & GD_GPU_KNOWN_PCI_ID, text(g->pci_id)) < 0)
		return -1;
	return 0;
}

static int fill_figures(PyObject *dict, const struct gd_gpu *g)
{
	const struct {
		const char *key;
		unsigned bit;
		long long value;
	} figures[] = {
		{"memory_total_bytes", GD_GPU_KNOWN_MEMORY_TOTAL, (long long)g->memory_total_bytes},
		{"memory_free_bytes", GD_GPU_KNOWN_MEMORY_FREE, (long long)g->memory_free_bytes},
		{"memory_used_bytes", GD_GPU_KNOWN_MEMORY_USED, (long long)g->memory_used_bytes},
		{"memory_reserved_bytes", GD_GPU_KNOWN_MEMORY_RESERVED, (long long)g->memory_reserved_bytes},
		{"utilization_percent", GD_GPU_KNOWN_UTILIZATION, g->utilization_percent},
		{"temperature_celsius", GD_GPU_KNOWN_TEMPERATURE, g->temperature_celsius},
		{"power_milliwatts", GD_GPU_KNOWN_POWER, g->power_milliwatts},
		{"energy_millijoules", GD_GPU_KNOWN_ENERGY, (long long)g->energy_millijoules},
		{"numa_node", GD_GPU_KNOWN_NUMA_NODE, g->numa_node},
	};
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		if (put(dict, figures[i].key, g->known & figures[i].bit, PyLong_FromLongLong(figures[i].value)) < 0)
			return -1;
	if (put(dict, "exclusive", g->known & GD_GPU_KNOWN_COMPUTE_MODE, PyBool_FromLong(g->exclusive)) < 0 ||
		put(dict, "prohibited", g->known & GD_GPU_KNOWN_COMPUTE_MODE, PyBool_FromLong(g->prohibited)) < 0)
		return -1;
	return put(dict, "processes", g->known & GD_GPU_KNOWN_PROCESSES, list_processes(g));
}

static PyObject *gpu_dict(const struct gd_gpu *g)
{
	PyObject *dict = PyDict_New();
	if (dict && (fill_names(dict, g) < 0 || fill_figures(dict, g) < 0))
		Py_CLEAR(dict);
	return dict;
}

static PyObject *gpu_tuple(const struct gd_gpu_list *list)
{
	PyObject *gpus = PyList_New(0), *warnings = PyList_New(0);
	for (size_t i = 0; gpus && i < list->count; i++) {
		PyObject *dict = gpu_dict(list->gpus[i]);
		if (!dict || PyList_Append(gpus, dict) < 0)
			Py_CLEAR(gpus);
		Py_XDECREF(dict);
	}
	for (size_t i = 0; warnings && i < list->num_warnings; i++) {
		PyObject *words = text(list->warnings[i]);
		if (!words || PyList_Append(warnings, words) < 0)
			Py_CLEAR(warnings);
		Py_XDECREF(words);
	}
	if (gpus && warnings)
		return Py_BuildValue("(NN)", gpus, warnings);
	Py_XDECREF(gpus);
	Py_XDECREF(warnings);
	return NULL;
}

static PyObject *gpu_list(PyObject *self, PyObject *args)
{
	(void)self;
	const char *spec = NULL;
	struct gd_gpu_list *list = NULL;
	struct gd_error err = {0};
	int r;
	if (!PyArg_ParseTuple(args, "|z:gpu_list", &spec))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	r = gd_gpu_list(spec, &list, &err);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return engine_raise(r, err.message);
	PyObject *tuple = gpu_tuple(list);
	gd_gpu_list_free(list);
	return tuple;
}

static PyObject *gpu_survey(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	struct gd_gpu_list *list = NULL;
	struct gd_error err = {0};
	int r;
	Py_BEGIN_ALLOW_THREADS
	r = gd_gpu_survey(&list, &err);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return engine_raise(r, err.message);
	PyObject *tuple = gpu_tuple(list);
	gd_gpu_list_free(list);
	return tuple;
}

#define MOST_IDS 4096

static PyObject *gpu_parse(PyObject *self, PyObject *args)
{
	(void)self;
	const char *spec = NULL;
	struct gd_error err = {0};
	int ids[MOST_IDS], count;
	if (!PyArg_ParseTuple(args, "|z:gpu_parse", &spec))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	count = gd_gpu_parse(spec, ids, MOST_IDS, &err);
	Py_END_ALLOW_THREADS
	if (count < 0)
		return engine_raise(count, err.message);
	if (count > MOST_IDS)
		return engine_raise(-E2BIG, "too many GPUs");
	PyObject *list = PyList_New(count);
	for (int i = 0; list && i < count; i++) {
		PyObject *id = PyLong_FromLong(ids[i]);
		if (id)
			PyList_SetItem(list, i, id);
		else
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *gpu_validate(PyObject *self, PyObject *sequence)
{
	(void)self;
	struct gd_error err = {0};
	int ids[MOST_IDS], r;
	PyObject *tuple = PySequence_Tuple(sequence);
	Py_ssize_t count = tuple ? PyTuple_Size(tuple) : 0;
	for (Py_ssize_t i = 0; i < count && i < MOST_IDS; i++) {
		long id = PyLong_AsLong(PyTuple_GetItem(tuple, i));
		ids[i] = id < INT_MIN || id > INT_MAX ? -1 : (int)id;
	}
	Py_XDECREF(tuple);
	if (PyErr_Occurred())
		return NULL;
	if (count > MOST_IDS)
		return engine_raise(-E2BIG, "too many GPUs");
	Py_BEGIN_ALLOW_THREADS
	r = gd_gpu_validate(ids, (size_t)count, &err);
	Py_END_ALLOW_THREADS
	if (r >= 0)
		Py_RETURN_NONE;
	return r == -ENODEV || r == -EINVAL ? text(err.message) : engine_raise(r, err.message);
}

static PyObject *cuda_available(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	bool available;
	Py_BEGIN_ALLOW_THREADS
	available = gd_gpu_cuda_available();
	Py_END_ALLOW_THREADS
	return PyBool_FromLong(available);
}

PyMethodDef gpus_methods[] = {
	{"gpu_list", gpu_list, METH_VARARGS, "The GPUs that a specification selects, and warnings."},
	{"gpu_survey", gpu_survey, METH_NOARGS, "All GPUs, and warnings."},
	{"gpu_parse", gpu_parse, METH_VARARGS, "The numbers of the GPUs that a specification selects."},
	{"gpu_validate", gpu_validate, METH_O, "None, or a message about the first of these GPUs that is unusable."},
	{"cuda_available", cuda_available, METH_NOARGS, "Whether there is a usable NVIDIA GPU."},
	{0},
};
