/* SPDX-License-Identifier: MIT */
#include "pool/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/sized.h"
#include "pool/settings.h"

SIZED_NO_TAIL(gd_options, worker_env);
SIZED_NO_TAIL(gd_callbacks, on_exit);
SIZED_NO_TAIL(gd_worker_ops, on_wait);

#define DEFAULT_SEED         42
#define DEFAULT_QUEUE_SIZE   1024
#define DEFAULT_GRACE_MS     1000
#define DEFAULT_CLEANUP_MS   10000
#define DEFAULT_KILL_WAIT_MS 5000
#define MOST_QUEUED          (1 << 24)
#define MOST_WORKERS_PER_GPU 1024

static int check_worker(const struct gd_options *o, struct gd_error *err)
{
	if (!o->worker && !o->worker_argv)
		return error_set(
			err, -EINVAL, "no worker: set worker (hooks of this program) or worker_argv (a program)");
	if (o->worker && o->worker_argv)
		return error_set(err, -EINVAL, "two workers; set either worker or worker_argv");
	if (o->worker && !o->worker->process && !o->worker->process_batch)
		return error_set(err, -EINVAL, "the worker has no process hook: set process or process_batch");
	if (o->worker && o->worker->process && o->worker->process_batch)
		return error_set(err, -EINVAL, "the worker has two process hooks; set either process or process_batch");
	if (o->worker_argv && !o->worker_argv[0])
		return error_set(err, -EINVAL, "worker_argv is empty: its first entry is the program");
	if (o->worker_env && !o->worker_argv)
		return error_set(err, -EINVAL, "worker_env is given without worker_argv");
	return 0;
}

static int check_gpus(const struct gd_options *o, struct gd_error *err)
{
	if (o->gpus && o->gpu_ids)
		return error_set(err, -EINVAL, "the GPUs are given twice; set either gpus or gpu_ids");
	if (o->gpu_ids && o->num_gpu_ids == 0)
		return error_set(err, -EINVAL, "no GPUs: gpu_ids is given, but num_gpu_ids is 0");
	if (!o->gpu_ids && o->num_gpu_ids > 0)
		return error_set(err, -EINVAL, "no GPUs: num_gpu_ids is %zu, but gpu_ids is NULL", o->num_gpu_ids);
	return 0;
}

static int check_range(const char *name, int64_t value, int64_t most, struct gd_error *err)
{
	if (value >= 0 && value <= most)
		return 0;
	return error_set(
		err, -EINVAL, "%s is %lld; expected 0 (the default) to %lld", name, (long long)value, (long long)most);
}

static int check_numbers(const struct gd_options *o, struct gd_error *err)
{
	const struct {
		const char *name;
		int64_t value;
		int64_t most;
	} numbers[] = {
		{"queue_size", o->queue_size, MOST_QUEUED},
		{"retries", o->retries, INT32_MAX - 1},
		{"workers_per_gpu", o->workers_per_gpu, MOST_WORKERS_PER_GPU},
		{"setup_concurrency", o->setup_concurrency, INT32_MAX},
		{"task_timeout_ms", o->task_timeout_ms, OPTIONS_MOST_MS},
		{"grace_ms", o->grace_ms, OPTIONS_MOST_MS},
		{"setup_timeout_ms", o->setup_timeout_ms, OPTIONS_MOST_MS},
		{"cleanup_timeout_ms", o->cleanup_timeout_ms, OPTIONS_MOST_MS},
		{"kill_wait_ms", o->kill_wait_ms, OPTIONS_MOST_MS},
	};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		int r = check_range(numbers[i].name, numbers[i].value, numbers[i].most, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_rest(const struct gd_options *o, struct gd_error *err)
{
	if (o->num_settings > 0 && !o->settings)
		return error_set(err, -EINVAL, "num_settings is %zu, but settings is NULL", o->num_settings);
	for (size_t i = 0; i < o->num_settings; i++)
		if (!o->settings[i].key || !o->settings[i].value)
			return error_set(
				err, -EINVAL, "setting %zu has no %s", i, o->settings[i].key ? "value" : "key");
	if (o->output == GD_OUTPUT_FILES && !o->output_dir)
		return error_set(err, -EINVAL, "output to files needs output_dir");
	if ((unsigned)o->output > GD_OUTPUT_FILES)
		return error_set(err, -EINVAL, "output is %d, which is not a value of enum gd_output", (int)o->output);
	if ((unsigned)o->bind > GD_BIND_NONE)
		return error_set(err, -EINVAL, "bind is %d, which is not a value of enum gd_bind", (int)o->bind);
	return 0;
}

static void fill_defaults(struct gd_options *o)
{
	if (o->base_seed == 0 && !o->has_base_seed)
		o->base_seed = DEFAULT_SEED;
	o->has_base_seed = 1;
	if (o->queue_size == 0)
		o->queue_size = DEFAULT_QUEUE_SIZE;
	if (o->workers_per_gpu == 0)
		o->workers_per_gpu = 1;
	if (o->grace_ms == 0)
		o->grace_ms = DEFAULT_GRACE_MS;
	if (o->cleanup_timeout_ms == 0)
		o->cleanup_timeout_ms = DEFAULT_CLEANUP_MS;
	if (o->kill_wait_ms == 0)
		o->kill_wait_ms = DEFAULT_KILL_WAIT_MS;
}

static int copy_string(const char **string)
{
	if (!*string)
		return 0;
	*string = strdup(*string);
	return *string ? 0 : -ENOMEM;
}

/* The list ends with NULL. */
static int copy_strings(const char *const **strings)
{
	const char *const *from = *strings;
	*strings = NULL;
	if (!from)
		return 0;
	size_t n = 0;
	while (from[n])
		n++;
	const char **to = calloc(n + 1, sizeof(*to));
	if (!to)
		return -ENOMEM;
	*strings = to;
	for (size_t i = 0; i < n; i++) {
		to[i] = strdup(from[i]);
		if (!to[i])
			return -ENOMEM;
	}
	return 0;
}

/* Followed by a NUL: the value is also read as a string. */
static void *copy_value(const struct gd_setting *s)
{
	size_t size = setting_size(s);
	char *copy = malloc(size + 1);
	if (!copy)
		return NULL;
	memcpy(copy, s->value, size);
	copy[size] = '\0';
	return copy;
}

static int copy_settings(struct gd_options *o)
{
	const struct gd_setting *from = o->settings;
	o->settings = NULL;
	size_t n = o->num_settings;
	struct gd_setting *to = calloc(n ? n : 1, sizeof(*to));
	if (!to)
		return -ENOMEM;
	o->settings = to;
	for (size_t i = 0; i < n; i++) {
		to[i].key = strdup(from[i].key);
		to[i].value_size = setting_size(&from[i]);
		to[i].value = copy_value(&from[i]);
		if (!to[i].key || !to[i].value)
			return -ENOMEM;
	}
	return 0;
}

static int copy_gpu_ids(struct gd_options *o)
{
	const int *from = o->gpu_ids;
	o->gpu_ids = NULL;
	if (!from)
		return 0;
	int *to = calloc(o->num_gpu_ids, sizeof(*to));
	if (!to)
		return -ENOMEM;
	memcpy(to, from, o->num_gpu_ids * sizeof(*to));
	o->gpu_ids = to;
	return 0;
}

static int copy_ops(struct gd_options *o, const struct gd_worker_ops *ops)
{
	o->worker = NULL;
	if (!ops)
		return 0;
	struct gd_worker_ops *copy = malloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*copy = *ops;
	o->worker = copy;
	return 0;
}

/* Each pointer is always ours or NULL, so that options_free() can be called at any moment. */
static int own_everything(struct gd_options *o, const struct gd_worker_ops *ops)
{
	const char *gpus = o->gpus, *output_dir = o->output_dir;
	o->gpus = o->output_dir = NULL;
	int r = copy_ops(o, ops);
	int r1 = copy_gpu_ids(o);
	int r2 = copy_settings(o);
	int r3 = copy_strings(&o->worker_argv);
	int r6 = copy_strings(&o->worker_env);
	o->gpus = gpus;
	int r4 = copy_string(&o->gpus);
	o->output_dir = output_dir;
	int r5 = copy_string(&o->output_dir);
	return r < 0 || r1 < 0 || r2 < 0 || r3 < 0 || r4 < 0 || r5 < 0 || r6 < 0 ? -ENOMEM : 0;
}

int options_read(
	const struct gd_options *options, struct gd_options *ret, struct gd_worker_ops *ret_ops, struct gd_error *err)
{
	struct gd_options given;
	int r = sized_read(&given, sizeof(given), options, "gd_options", err);
	if (r >= 0 && given.worker)
		r = sized_read(ret_ops, sizeof(*ret_ops), given.worker, "gd_worker_ops", err);
	if (r < 0)
		return r;
	if (given.worker)
		given.worker = ret_ops;
	r = check_worker(&given, err);
	if (r >= 0)
		r = check_gpus(&given, err);
	if (r >= 0)
		r = check_numbers(&given, err);
	if (r >= 0)
		r = check_rest(&given, err);
	if (r < 0)
		return r;
	fill_defaults(&given);
	*ret = given;
	return 0;
}

int options_copy(const struct gd_options *options, struct gd_options **ret, struct gd_error *err)
{
	struct gd_options given;
	struct gd_worker_ops ops;
	int r = options_read(options, &given, &ops, err);
	if (r < 0)
		return r;
	struct gd_options *o = malloc(sizeof(*o));
	if (!o)
		return error_set(err, -ENOMEM, "not enough memory for the options");
	*o = given;
	r = own_everything(o, given.worker);
	if (r < 0) {
		options_free(o);
		return error_set(err, r, "not enough memory for the options");
	}
	*ret = o;
	return 0;
}

int callbacks_read(struct gd_callbacks *ret, const struct gd_callbacks *callbacks, struct gd_error *err)
{
	struct gd_callbacks given;
	int r = sized_read(&given, sizeof(given), callbacks, "gd_callbacks", err);
	if (r < 0)
		return r;
	if (!given.on_success)
		return error_set(err, -EINVAL, "the callbacks have no on_success: results would be lost");
	*ret = given;
	return 0;
}

static void free_strings(const char *const *strings)
{
	for (size_t i = 0; strings && strings[i]; i++)
		free((char *)strings[i]);
	free((char **)strings);
}

void options_free(struct gd_options *o)
{
	if (!o)
		return;
	free((char *)o->gpus);
	free((char *)o->output_dir);
	free((int *)o->gpu_ids);
	for (size_t i = 0; o->settings && i < o->num_settings; i++) {
		free((char *)o->settings[i].key);
		free((void *)o->settings[i].value);
	}
	free((struct gd_setting *)o->settings);
	free_strings(o->worker_argv);
	free_strings(o->worker_env);
	free((struct gd_worker_ops *)o->worker);
	free(o);
}
