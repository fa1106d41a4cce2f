/* SPDX-License-Identifier: MIT */
#include "queue/input/job_options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/units.h"

static const char *const option_names[JOB_OPTIONS] = {
	[JOB_OPTION_MEM] = "mem",
	[JOB_OPTION_NUM_GPUS] = "num_gpus",
	[JOB_OPTION_TIMEOUT] = "timeout",
	[JOB_OPTION_NAME] = "name",
	[JOB_OPTION_PRIORITY] = "priority",
	[JOB_OPTION_RETRIES] = "retries",
	[JOB_OPTION_AFTER] = "after",
};

const char *job_option_name(enum job_option option)
{
	return option_names[option];
}

void job_options_finish(struct job_options *o)
{
	free(o->name);
	free(o->after);
	*o = (struct job_options){0};
}

static int set_int(const char *value, int64_t min, int64_t max, int *ret, struct gd_error *err)
{
	int64_t number;
	int r = units_parse_integer(value, min, max, &number, err);
	if (r < 0)
		return r;
	*ret = (int)number;
	return 0;
}

static int set_name(struct job_options *o, const char *value, struct gd_error *err)
{
	if (!*value)
		return error_set(err, -EINVAL, "it is empty; leave it out for no name");
	char *name = strdup(value);
	if (!name)
		return error_set(err, -ENOMEM, "out of memory");
	free(o->name);
	o->name = name;
	return 0;
}

/* "7" or "7,8,9". */
static int set_after(struct job_options *o, const char *value, struct gd_error *err)
{
	size_t count = 1;
	for (const char *p = value; *p; p++)
		count += *p == ',';
	cleanup_(freep) uint64_t *ids = calloc(count, sizeof(*ids));
	cleanup_(freep) char *copy = strdup(value);
	if (!ids || !copy)
		return error_set(err, -ENOMEM, "out of memory");

	char *rest = copy;
	for (size_t i = 0; i < count; i++) {
		int64_t id;
		const char *word = strsep(&rest, ",");
		if (units_parse_integer(word, 1, INT64_MAX, &id, NULL) < 0)
			return error_set(err, -EINVAL, "expected ids of jobs, like 7 or 7,8");
		ids[i] = (uint64_t)id;
	}
	free(o->after);
	o->after = take_ptr(ids);
	o->num_after = count;
	return 0;
}

int job_options_set(struct job_options *o, enum job_option option, const char *value, struct gd_error *err)
{
	int r = -EINVAL;
	switch (option) {
	case JOB_OPTION_MEM:
		r = units_parse_size(value, UNITS_MB, &o->mem_bytes, err);
		break;
	case JOB_OPTION_NUM_GPUS:
		r = set_int(value, 0, JOB_OPTION_MAX_GPUS, &o->num_gpus, err);
		break;
	case JOB_OPTION_TIMEOUT:
		r = units_parse_duration(value, &o->timeout_ms, err);
		break;
	case JOB_OPTION_NAME:
		r = set_name(o, value, err);
		break;
	case JOB_OPTION_PRIORITY:
		r = set_int(value, -JOB_OPTION_MAX_PRIORITY, JOB_OPTION_MAX_PRIORITY, &o->priority, err);
		break;
	case JOB_OPTION_RETRIES:
		r = set_int(value, 0, INT_MAX, &o->retries, err);
		break;
	case JOB_OPTION_AFTER:
		r = set_after(o, value, err);
		break;
	case JOB_OPTIONS:
		break;
	}
	if (r == 0)
		o->set |= 1u << option;
	return r == -ERANGE ? -EINVAL : r;
}
