/* SPDX-License-Identifier: MIT */
/* Checks the options of a launch. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/sized.h"
#include "launch/find_pattern.h"
#include "launch/launcher_private.h"
#include "launch/plugins.h"
#include "launch/settings.h"

SIZED_NO_TAIL(gd_launch_options, trust_input);

#define MOST_WORKERS_PER_GPU 1024

/* The mistakes found so far. */
struct mistakes {
	void (*fn)(void *context, const struct gd_error *err);
	void *context;
	int count;
};

static void found(struct mistakes *m, const struct gd_error *err)
{
	m->count++;
	if (m->fn)
		m->fn(m->context, err);
}

#define mistake(m, code, ...)                                                                                          \
	do {                                                                                                           \
		struct gd_error err_ = {0};                                                                            \
		error_set(&err_, code, __VA_ARGS__);                                                                   \
		found(m, &err_);                                                                                       \
	} while (0)

#define PROGRAM_READY_MS (10 * 60 * 1000)

/* False: there is no worker, or its hooks are in this program. */
static bool describe_worker(const struct gd_launch_options *o, struct launch_worker *ret)
{
	*ret = (struct launch_worker){.settings = o->settings, .num_settings = o->num_settings};
	/* Without a limit, a program that forgets to flush its "ready" would hang forever. */
	ret->ready_timeout_ms = o->setup_timeout_ms ? o->setup_timeout_ms : PROGRAM_READY_MS;
	if (o->command) {
		ret->kind = LAUNCH_TEMPLATE;
		ret->argv = o->command;
	} else if (o->program) {
		ret->kind = LAUNCH_PROGRAM;
		ret->argv = o->program;
	} else if (o->plugin) {
		ret->kind = LAUNCH_PLUGIN;
		ret->plugin = o->plugin;
	} else if (o->worker_argv) {
		ret->kind = LAUNCH_ARGV;
		ret->argv = o->worker_argv;
	}
	return ret->kind != 0;
}

static void check_input(const struct gd_launch_options *o, struct mistakes *m)
{
	if (!o->input_dir || !*o->input_dir) {
		mistake(m, -EINVAL, "no input folder given");
		return;
	}
	DIR *dir = opendir(o->input_dir);
	if (dir)
		closedir(dir);
	else
		mistake(m, -errno, "input folder '%s': %s", o->input_dir, error_words(-errno));
	struct gd_error err;
	for (size_t i = 0; i < o->num_patterns; i++)
		if (find_check_pattern(o->patterns[i], &err) < 0)
			found(m, &err);
}

static bool refuses_output(const char *path, struct gd_error *err)
{
	cleanup_(closep) int fd = -1;
	int r = outputs_open_trusted(path, &fd, err);
	return r < 0 && r != -ENOENT;
}

/* Checks that the folder, or its nearest existing parent, is writable. */
static void check_output(const struct gd_launch_options *o, struct mistakes *m)
{
	const char *given = o->output_dir;
	char path[PATH_MAX];
	struct stat out, in;
	struct gd_error err = {0};
	if (!*given || strlen(given) >= sizeof(path)) {
		mistake(m, -EINVAL, "output folder: the name is %s", *given ? "too long" : "empty");
		return;
	}
	strcpy(path, given);
	while (stat(path, &out) < 0 && errno == ENOENT) {
		char *slash = strrchr(path, '/');
		if (slash == path)
			path[1] = '\0';
		else if (slash)
			*slash = '\0';
		else
			strcpy(path, ".");
	}
	if (stat(path, &out) < 0)
		mistake(m, -errno, "output folder '%s': %s", given, error_words(-errno));
	else if (!S_ISDIR(out.st_mode))
		mistake(m, -ENOTDIR, "output folder '%s': '%s' is not a folder", given, path);
	else if (access(path, W_OK | X_OK) < 0)
		mistake(m, -errno, "output folder '%s': cannot write to '%s': %s", given, path, error_words(-errno));
	else if (!o->trust_output_dir && refuses_output(given, &err))
		found(m, &err);
	else if (o->recursive && o->input_dir && strcmp(path, given) == 0 && stat(o->input_dir, &in) == 0 &&
		 in.st_dev == out.st_dev && in.st_ino == out.st_ino)
		mistake(m, -EINVAL,
			"output folder '%s' is the input folder, so results would be found as input; choose another output_dir",
			given);
}

static void check_gpus(struct gd_launcher *l, struct mistakes *m)
{
	struct gd_error err = {0};
	if (gd_gpu_list(l->options.gpus, &l->gpus, &err) < 0) {
		found(m, &err);
		return;
	}
	const struct gd_gpu_list *list = l->gpus;
	if (list->count == 0)
		mistake(m, -ENODEV,
			"no GPU found%s%s; set gpus to sim:4 to simulate some, for a test or for work that needs no GPU",
			list->num_warnings ? ": " : "", list->num_warnings ? list->warnings[0] : "");
	for (size_t i = 0; i < list->count; i++) {
		const struct gd_gpu *gpu = list->gpus[i];
		if (gd_gpu_usable(gpu))
			continue;
		if (gd_gpu_validate(&gpu->index, 1, &err) < 0)
			found(m, &err);
		else
			mistake(m, -ENODEV, "GPU %d cannot be used", gpu->index);
	}
}

/*
 * Resolves a plug-in to its path and stores it in the options. The default worker is the installed speech recognizer;
 * if none is installed, only gd_launcher_run() fails: folder, files and GPUs can be inspected without a worker.
 */
static void find_plugin(struct gd_launcher *l, struct mistakes *m)
{
	struct gd_error err = {0};
	bool given = l->options.plugin != NULL;
	int r = plugins_find(l->options.plugin, &l->plugin, &err);
	if (r < 0 && given)
		found(m, &err);
	else if (r < 0)
		l->no_worker = err;
	l->options.plugin = l->plugin;
}

static void check_worker(struct gd_launcher *l, struct mistakes *m)
{
	const struct gd_launch_options *o = &l->options;
	int others = !!o->command + !!o->program + !!o->worker + !!o->worker_argv;
	struct gd_worker_ops ops;
	struct gd_error err = {0};
	if (others + !!o->plugin > 1) {
		mistake(m, -EINVAL,
			"more than one worker given; set only one of command, program, plugin, worker and worker_argv");
		return;
	}
	if (others == 0)
		find_plugin(l, m);
	if (describe_worker(o, &l->worker) && launch_worker_check(&l->worker, &err) < 0)
		found(m, &err);
	else if (o->worker && sized_read(&ops, sizeof(ops), o->worker, "gd_worker_ops", &err) < 0)
		found(m, &err);
	else if (o->worker && !ops.process && !ops.process_batch)
		mistake(m, -EINVAL, "the worker has no process hook: set process or process_batch");
}

static void check_numbers(const struct gd_launch_options *o, struct mistakes *m)
{
	if (o->workers_per_gpu < 0 || o->workers_per_gpu > MOST_WORKERS_PER_GPU)
		mistake(m, -EINVAL, "workers_per_gpu is %d; expected 0 (the default) to %d", o->workers_per_gpu,
			MOST_WORKERS_PER_GPU);
	if (o->task_timeout_ms < 0 || o->setup_timeout_ms < 0)
		mistake(m, -EINVAL, "%s is negative", o->task_timeout_ms < 0 ? "task_timeout_ms" : "setup_timeout_ms");
	if (o->setup_concurrency < 0)
		mistake(m, -EINVAL, "setup_concurrency is %d; expected 1 or more, or 0 for no limit",
			o->setup_concurrency);
	if (o->retries < 0)
		mistake(m, -EINVAL, "retries is %d; expected 0 or more", o->retries);
	if ((unsigned)o->balance > GD_BALANCE_AS_FOUND)
		mistake(m, -EINVAL, "balance is %d, which is not a value of enum gd_balance", (int)o->balance);
	if (o->output != GD_OUTPUT_INHERIT && o->output != GD_OUTPUT_SILENT && o->output != GD_OUTPUT_FILES)
		mistake(m, -EINVAL, "output is %d, which is not a value of enum gd_output", (int)o->output);
}

/* Gives the options a copy of the settings, as strings; none if one is wrong. */
static void check_settings(struct gd_launcher *l, struct mistakes *m)
{
	struct gd_launch_options *o = &l->options;
	int before = m->count;
	struct gd_error err;
	size_t count = o->num_settings;
	const struct gd_setting *given = o->settings;
	o->settings = NULL;
	o->num_settings = 0;
	for (size_t i = 0; i < count; i++)
		if (settings_check(given, i, &err) < 0)
			found(m, &err);
	if (m->count > before || count == 0)
		return;
	if (settings_copy(given, count, &l->settings, &o->num_settings) < 0)
		mistake(m, -ENOMEM, "not enough memory for %zu settings", count);
	o->settings = l->settings;
}

void launcher_drop_options(struct gd_launcher *l)
{
	gd_gpu_list_free(l->gpus);
	free(l->settings);
	free(l->plugin);
}

int launcher_check(const struct gd_launch_options *options, void (*fn)(void *context, const struct gd_error *err),
	void *context, struct gd_launcher *l)
{
	struct mistakes m = {fn, context, 0};
	struct gd_launch_options *o = &l->options;
	struct gd_error err = {0};
	if (sized_read(o, sizeof(*o), options, "gd_launch_options", &err) < 0) {
		found(&m, &err);
		return m.count;
	}
	if (!o->output_dir)
		o->output_dir = "data/outputs";
	if (!o->worker_name)
		o->worker_name = "";
	check_input(o, &m);
	check_output(o, &m);
	check_gpus(l, &m);
	check_settings(l, &m);
	check_worker(l, &m);
	check_numbers(o, &m);
	return m.count;
}

int gd_launch_validate(
	const struct gd_launch_options *options, void (*fn)(void *context, const struct gd_error *err), void *context)
{
	struct gd_launcher l = {0};
	int count = launcher_check(options, fn, context, &l);
	launcher_drop_options(&l);
	return count;
}
