/* SPDX-License-Identifier: MIT */
#include "queue/input/job_options.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/display.h"
#include "base/error.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/units.h"
#include "queue/input/begin_time.h"
#include "queue/schedule/gpu_pin.h"

static const char *const option_names[JOB_OPTIONS] = {
	[JOB_OPTION_MEM] = "mem",
	[JOB_OPTION_NUM_GPUS] = "num_gpus",
	[JOB_OPTION_TIMEOUT] = "timeout",
	[JOB_OPTION_NAME] = "name",
	[JOB_OPTION_PRIORITY] = "priority",
	[JOB_OPTION_RETRIES] = "retries",
	[JOB_OPTION_AFTER] = "after",
	[JOB_OPTION_GPU] = "gpu",
	[JOB_OPTION_EXCLUSIVE] = "exclusive",
	[JOB_OPTION_HOST_MEM] = "host_mem",
	[JOB_OPTION_CPUS] = "cpus",
	[JOB_OPTION_AFTER_ANY] = "after_any",
	[JOB_OPTION_BEGIN] = "begin",
	[JOB_OPTION_TAG] = "tag",
	[JOB_OPTION_SIGNAL] = "signal",
	[JOB_OPTION_REQUEUE_ON] = "requeue_on",
	[JOB_OPTION_IDLE_WARN] = "idle_warn",
};

const char *job_option_name(enum job_option option)
{
	return option_names[option];
}

void job_options_finish(struct job_options *o)
{
	free(o->name);
	job_selection_finish(&o->after);
	job_selection_finish(&o->after_any);
	free(o->tags);
	free(o->gpu);
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
		return error_set(err, -EINVAL, "empty value; omit it for no name");
	char quote[DISPLAY_QUOTE_ROOM];
	if (!job_selection_is_name(value))
		return error_set(err, -EINVAL,
			"'%s' cannot be the name of a job: it looks like an id (12, 12-15), a group (g12), @ or "
			"tag:NAME; choose another name",
			display_quote(value, quote));
	char *name = strdup(value);
	if (!name)
		return error_set(err, -ENOMEM, "out of memory");
	free(o->name);
	o->name = name;
	return 0;
}

static int set_after(struct job_selection *after, const char *value, struct gd_error *err)
{
	struct job_selection s = {0};
	int r = job_selection_add(&s, value, err);
	if (r < 0) {
		job_selection_finish(&s);
		return r;
	}
	job_selection_finish(after);
	*after = s;
	return 0;
}

/* Tags of several options are combined. */
static int set_tags(struct job_options *o, const char *value, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	char quote[DISPLAY_QUOTE_ROOM];
	for (const char *p = value;; p++) {
		size_t size = strcspn(p, ",");
		if (!job_tag_is_valid(p, size))
			return error_set(err, -EINVAL,
				"'%s': a tag can contain only letters, digits and _.:/@+=-, as in night or exp:7",
				display_quote(value, quote));
		p += size;
		if (!*p)
			break;
	}
	text_appendf(&t, "%s%s%s", o->tags ? o->tags : "", o->tags ? "," : "", value);
	char *tags = text_take(&t);
	if (!tags)
		return error_set(err, -ENOMEM, "out of memory");
	free(o->tags);
	o->tags = tags;
	return 0;
}

/* "USR1@60" or "USR1", as in Slurm. */
static int set_signal(struct job_options *o, const char *value, struct gd_error *err)
{
	char quote[DISPLAY_QUOTE_ROOM];
	const char *at = strchr(value, '@');
	uint64_t before_ms = 60 * 1000;
	int number = signal_parse(value, at ? (size_t)(at - value) : strlen(value));
	if (number < 0)
		return error_set(err, -EINVAL,
			"'%s': expected a signal and how long before the time limit, like USR1@60 or INT@5m",
			display_quote(value, quote));
	if (number == SIGKILL || number == SIGSTOP)
		return error_set(err, -EINVAL, "no process can handle %s", signal_name(number));
	int r = at ? units_parse_duration(at + 1, &before_ms, err) : 0;
	if (r < 0)
		return r;
	o->warn_signal = number;
	o->warn_before_ms = before_ms;
	return 0;
}

static int set_gpu(struct job_options *o, const char *value, struct gd_error *err)
{
	char *pin;
	int r = gpu_pin_parse(value, &pin, err);
	if (r < 0)
		return r;
	free(o->gpu);
	o->gpu = pin;
	return 0;
}

static int set_host_mem(struct job_options *o, const char *value, struct gd_error *err)
{
	uint64_t bytes;
	int r = units_parse_size(value, 0, &bytes, err);
	if (r == 0 && bytes == 0)
		return error_set(err, -EINVAL, "must be greater than 0; omit it if the need is unknown");
	if (r == 0)
		o->host_mem_bytes = bytes;
	return r;
}

int job_options_set(struct job_options *o, enum job_option option, const char *value, struct gd_error *err)
{
	int r = -EINVAL;
	switch (option) {
	case JOB_OPTION_MEM:
		r = units_parse_size(value, 0, &o->mem_bytes, err);
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
		r = set_after(&o->after, value, err);
		break;
	case JOB_OPTION_AFTER_ANY:
		r = set_after(&o->after_any, value, err);
		break;
	case JOB_OPTION_BEGIN:
		r = begin_time_parse(value, date_now_ms(), &o->begin_ms, err);
		break;
	case JOB_OPTION_TAG:
		r = set_tags(o, value, err);
		break;
	case JOB_OPTION_SIGNAL:
		r = set_signal(o, value, err);
		break;
	case JOB_OPTION_REQUEUE_ON:
		r = set_int(value, 1, 255, &o->requeue_on, err);
		break;
	case JOB_OPTION_IDLE_WARN:
		r = units_parse_duration(value, &o->idle_warn_ms, err);
		break;
	case JOB_OPTION_GPU:
		r = set_gpu(o, value, err);
		break;
	case JOB_OPTION_EXCLUSIVE:
		r = units_parse_flag(value, &o->exclusive, err);
		break;
	case JOB_OPTION_HOST_MEM:
		r = set_host_mem(o, value, err);
		break;
	case JOB_OPTION_CPUS:
		r = set_int(value, 1, JOB_OPTION_MAX_CPUS, &o->cpus, err);
		break;
	case JOB_OPTIONS:
		break;
	}
	if (r == 0) {
		o->set |= 1u << option;
		o->cleared &= ~(1u << option);
	}
	return r == -ERANGE ? -EINVAL : r;
}

int job_options_clear(struct job_options *o, enum job_option option, struct gd_error *err)
{
	static const unsigned kept = 1u << JOB_OPTION_NUM_GPUS | 1u << JOB_OPTION_PRIORITY | 1u << JOB_OPTION_RETRIES |
				     1u << JOB_OPTION_EXCLUSIVE | 1u << JOB_OPTION_IDLE_WARN;
	if (kept & 1u << option)
		return error_set(err, -EINVAL, "empty value; this option always needs one");
	/* Discards an earlier value of the same option. */
	struct job_options rest = {.set = 1u << option, .cleared = 1u << option};
	job_options_fill(&rest, o);
	job_options_finish(o);
	*o = rest;
	return 0;
}

static bool has(const struct job_options *o, enum job_option option)
{
	return o->set & 1u << option;
}

static bool is_cleared(const struct job_options *o, enum job_option option)
{
	return o->cleared & 1u << option;
}

void job_options_fill(struct job_options *o, struct job_options *under)
{
	unsigned missing = under->set & ~o->set;
#define FILL(option, field)                                                                                            \
	do {                                                                                                           \
		if (missing & 1u << (option)) {                                                                        \
			o->field = under->field;                                                                       \
			memset(&under->field, 0, sizeof(under->field));                                                \
		}                                                                                                      \
	} while (0)
	FILL(JOB_OPTION_MEM, mem_bytes);
	FILL(JOB_OPTION_NUM_GPUS, num_gpus);
	FILL(JOB_OPTION_TIMEOUT, timeout_ms);
	FILL(JOB_OPTION_NAME, name);
	FILL(JOB_OPTION_PRIORITY, priority);
	FILL(JOB_OPTION_RETRIES, retries);
	FILL(JOB_OPTION_AFTER, after);
	FILL(JOB_OPTION_GPU, gpu);
	FILL(JOB_OPTION_EXCLUSIVE, exclusive);
	FILL(JOB_OPTION_HOST_MEM, host_mem_bytes);
	FILL(JOB_OPTION_CPUS, cpus);
	FILL(JOB_OPTION_AFTER_ANY, after_any);
	FILL(JOB_OPTION_BEGIN, begin_ms);
	FILL(JOB_OPTION_TAG, tags);
	FILL(JOB_OPTION_SIGNAL, warn_signal);
	FILL(JOB_OPTION_SIGNAL, warn_before_ms);
	FILL(JOB_OPTION_REQUEUE_ON, requeue_on);
	FILL(JOB_OPTION_IDLE_WARN, idle_warn_ms);
#undef FILL
	o->set |= missing;
	o->cleared |= under->cleared & missing;
}

static int64_t megabytes(uint64_t bytes)
{
	return (int64_t)((bytes + UNITS_MB - 1) / UNITS_MB);
}

void job_spec_set_defaults(struct job_spec *s, const struct config *c)
{
	s->exclusive = c->exclusive;
	s->host_mem_mb = megabytes(c->host_mem_bytes);
	s->cpus = (int)c->cpus;
	if (config_has(c, CONFIG_IDLE_WARN))
		s->idle_warn_ms = c->idle_warn_ms ? (int64_t)c->idle_warn_ms : -1;
}

static void apply_needs(const struct job_options *o, struct job_spec *s)
{
	if (has(o, JOB_OPTION_MEM))
		s->mem_mb = is_cleared(o, JOB_OPTION_MEM) ? -1 : megabytes(o->mem_bytes);
	if (has(o, JOB_OPTION_GPU)) {
		s->gpu = o->gpu;
		s->num_gpus = o->gpu ? (int)gpu_pin_count(o->gpu) : -1;
	}
	if (has(o, JOB_OPTION_NUM_GPUS))
		s->num_gpus = o->num_gpus;
	if (has(o, JOB_OPTION_EXCLUSIVE))
		s->exclusive = o->exclusive;
	if (has(o, JOB_OPTION_HOST_MEM))
		s->host_mem_mb = megabytes(o->host_mem_bytes);
	if (has(o, JOB_OPTION_CPUS))
		s->cpus = o->cpus;
}

static int check_needs(const struct job_options *o, const struct job_spec *s, struct gd_error *err)
{
	int named = s->gpu ? (int)gpu_pin_count(s->gpu) : 0;
	if (s->gpu && s->num_gpus == 0)
		return error_set(err, -EINVAL,
			"the job is pinned to GPU %s but requests no GPU; give only one of the two", s->gpu);
	if (s->gpu && s->num_gpus != named)
		return error_set(err, -EINVAL,
			"the job is pinned to %d GPU%s (%s) but requests %d; the numbers must be equal", named,
			named == 1 ? "" : "s", s->gpu, s->num_gpus);
	if (has(o, JOB_OPTION_MEM) && o->mem_bytes > 0 && s->num_gpus == 0)
		return error_set(err, -EINVAL,
			"the job requests GPU memory but no GPU; omit one of the two, or use host_mem for main memory");
	if (has(o, JOB_OPTION_EXCLUSIVE) && o->exclusive && s->num_gpus == 0)
		return error_set(err, -EINVAL, "the job is exclusive but requests no GPU");
	return 0;
}

static int refuse_signal(const struct job_spec *s, struct gd_error *err)
{
	char before[UNITS_ROOM], limit[UNITS_ROOM];
	return error_set(err, -EINVAL, "the signal cannot be sent %s before the time limit, which is only %s",
		units_format_duration((uint64_t)s->warn_before_ms, before),
		units_format_duration((uint64_t)s->timeout_ms, limit));
}

int job_options_apply(const struct job_options *o, struct job_spec *s, struct gd_error *err)
{
	apply_needs(o, s);
	if (has(o, JOB_OPTION_TIMEOUT))
		s->timeout_ms = is_cleared(o, JOB_OPTION_TIMEOUT) ? -1 : (int64_t)o->timeout_ms;
	if (has(o, JOB_OPTION_NAME))
		s->name = o->name;
	if (has(o, JOB_OPTION_PRIORITY))
		s->priority = o->priority;
	if (has(o, JOB_OPTION_RETRIES))
		s->retries = o->retries;
	if (has(o, JOB_OPTION_BEGIN))
		s->begin_ms = o->begin_ms;
	if (has(o, JOB_OPTION_TAG))
		s->tags = o->tags;
	if (has(o, JOB_OPTION_REQUEUE_ON))
		s->requeue_on = o->requeue_on;
	if (has(o, JOB_OPTION_IDLE_WARN))
		s->idle_warn_ms = o->idle_warn_ms ? (int64_t)o->idle_warn_ms : -1;
	if (has(o, JOB_OPTION_SIGNAL)) {
		s->warn_signal = o->warn_signal;
		s->warn_before_ms = (int64_t)o->warn_before_ms;
	}
	if (s->warn_signal && s->timeout_ms > 0 && s->warn_before_ms >= s->timeout_ms)
		return refuse_signal(s, err);
	return check_needs(o, s, err);
}

/* ---- Jobs that a job waits for ---------------------------------------------------------- */

void job_after_finish(struct job_after *a)
{
	id_list_finish(&a->after);
	id_list_finish(&a->any);
}

bool job_options_have_after(const struct job_options *o)
{
	return has(o, JOB_OPTION_AFTER) || has(o, JOB_OPTION_AFTER_ANY);
}

/* Resolves the terms of `s` that name jobs being added; puts the others into `rest`. */
static int take_names(
	const struct job_selection *s, const struct job_names *names, struct id_list *ids, struct job_selection *rest)
{
	for (size_t i = 0; i < s->count; i++) {
		bool is_name = names && s->terms[i].kind == JOB_TERM_NAME;
		int r = is_name ? names->find(names->context, s->terms[i].name, ids) : 0;
		if (r < 0)
			return r;
		if (r == 0)
			rest->terms[rest->count++] = s->terms[i];
	}
	return 0;
}

static int resolve(const struct job_selection *s, const struct jobs *js, const struct job_names *names,
	struct id_list *ids, struct gd_error *err)
{
	struct gd_error why;
	cleanup_(freep) struct job_term *terms = calloc(s->count + 1, sizeof(*terms));
	cleanup_(id_list_finish) struct id_list added = {0}; /* jobs being added, which are not in the journal */
	struct job_selection rest = {.terms = terms};        /* borrows the strings of `s` */
	ids->count = 0;
	if (!terms || take_names(s, names, &added, &rest) < 0)
		return error_set(err, -ENOMEM, "cannot select the jobs: out of memory");
	int r = job_selection_resolve(&rest, js, ids, NULL, &why);
	if (r == -ENOENT)
		return error_set(
			err, -EINVAL, "after %s%s", why.message, names ? "; no earlier line has this name" : "");
	if (r < 0)
		return error_set(err, r, "%s", why.message);
	for (size_t i = 0; i < ids->count; i++)
		if (!jobs_find(js, ids->ids[i]))
			return error_set(
				err, -EINVAL, "after job %" PRIu64 ": %s", ids->ids[i], jobs_absence(js, ids->ids[i]));
	for (size_t i = 0; r == 0 && i < added.count; i++)
		r = id_list_add(ids, added.ids[i]);
	id_list_sort(ids);
	return r < 0 ? error_set(err, r, "cannot select the jobs: out of memory") : 0;
}

int job_options_resolve(const struct job_options *o, const struct jobs *js, const struct job_names *names,
	struct job_after *scratch, struct job_spec *s, struct gd_error *err)
{
	int r = has(o, JOB_OPTION_AFTER) ? resolve(&o->after, js, names, &scratch->after, err) : 0;
	if (r == 0 && has(o, JOB_OPTION_AFTER)) {
		s->after = scratch->after.ids;
		s->num_after = scratch->after.count;
	}
	if (r == 0 && has(o, JOB_OPTION_AFTER_ANY))
		r = resolve(&o->after_any, js, names, &scratch->any, err);
	if (r == 0 && has(o, JOB_OPTION_AFTER_ANY)) {
		s->after_any = scratch->any.ids;
		s->num_after_any = scratch->any.count;
	}
	return r;
}
