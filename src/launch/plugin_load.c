/* SPDX-License-Identifier: MIT */
#include "launch/plugin_load.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/sized.h"
#include "base/text.h"
#include "base/utf8.h"
#include "launch/plugin_inspect.h"

SIZED_NO_TAIL(gd_plugin, check);

#define SYMBOL     "gd_plugin_get"
#define OLD_SYMBOL "gd_worker"

typedef const struct gd_plugin *plugin_get_fn(void);

static int fail_missing(void *handle, const char *path, struct gd_error *err)
{
	return error_set(err, -ENOENT,
		"the worker '%s' exports no '" SYMBOL "'%s; it needs: const struct gd_plugin *" SYMBOL
		"(void), see struct gd_plugin in gpu_dispatch_launch.h",
		path, dlsym(handle, OLD_SYMBOL) ? ", only '" OLD_SYMBOL "', which is no longer used" : "");
}

static int check_hooks(const struct gd_worker_ops *ops, const char *path, struct gd_error *err)
{
	if (!ops->process && !ops->process_batch)
		return error_set(
			err, -EINVAL, "the worker '%s' has neither process nor process_batch in its ops", path);
	if (ops->process && ops->process_batch)
		return error_set(err, -EINVAL, "the worker '%s' has both process and process_batch in its ops", path);
	return 0;
}

/* The version comes first: the fields after it may differ between versions. */
static int read_plugin(const struct gd_plugin *from, const char *path, struct gd_plugin *ret, struct gd_error *err)
{
	if (!from)
		return error_set(err, -EINVAL, "the worker '%s' returns NULL from " SYMBOL "()", path);
	if (from->size >= sizeof(from->size) + sizeof(from->version) && from->version != GD_PLUGIN_VERSION)
		return error_set(err, -ELIBBAD,
			"the worker '%s' is a plug-in of version %llu, but this gpu_dispatch (%s) loads version %d; compile it again with the installed gpu_dispatch_launch.h",
			path, (unsigned long long)from->version, gd_version(), GD_PLUGIN_VERSION);
	struct gd_error why = {0};
	int r = sized_read(ret, sizeof(*ret), from, "gd_plugin", &why);
	return r < 0 ? error_set(err, r, "the worker '%s': %s", path, why.message) : 0;
}

int plugin_load(const char *path, struct gd_worker_ops *ret, struct gd_plugin *ret_plugin, struct gd_error *err)
{
	char here[PATH_MAX];
	int n = snprintf(here, sizeof(here), "%s%s", strchr(path, '/') ? "" : "./", path);
	if (n < 0 || (size_t)n >= sizeof(here))
		return error_set(err, -ENAMETOOLONG, "the path of the worker '%s' is too long", path);
	/* Resolve all symbols now, so that missing ones are found before there is work. */
	void *handle = dlopen(here, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return error_set(err, -ELIBBAD, "cannot load the worker: %s", dlerror());
	plugin_get_fn *get;
	*(void **)&get = dlsym(handle, SYMBOL);
	if (!get)
		return fail_missing(handle, path, err);
	struct gd_plugin plugin;
	struct gd_worker_ops ops;
	struct gd_error why = {0};
	int r = read_plugin(get(), path, &plugin, err);
	if (r < 0)
		return r;
	r = sized_read(&ops, sizeof(ops), plugin.ops, "gd_worker_ops", &why);
	if (r < 0)
		return error_set(err, r, "the worker '%s': %s", path, why.message);
	r = check_hooks(&ops, path, err);
	if (r < 0)
		return r;
	*ret = ops;
	if (ret_plugin)
		*ret_plugin = plugin;
	return 0;
}

/* Reads the settings from standard input. False if there is nothing: the plug-in is only described. */
static bool read_settings(struct text *bytes, struct gd_setting **ret, size_t *ret_count)
{
	char buf[4096];
	ssize_t n;
	while ((n = read(STDIN_FILENO, buf, sizeof(buf))) > 0)
		text_append(bytes, buf, (size_t)n);
	struct gd_setting *list = calloc(bytes->length + 1, sizeof(*list));
	if (text_error(bytes) || !list || bytes->length == 0) {
		free(list);
		return false;
	}
	size_t count = 0;
	for (const char *p = bytes->data, *end = p + bytes->length; p < end && *p; count++) {
		list[count].key = p;
		p += strlen(p) + 1;
		list[count].value = p;
		p += strlen(p) + 1;
	}
	*ret = list;
	*ret_count = count;
	return true;
}

/* The plug-in's own check of its requirements. */
static int run_check(const struct gd_plugin *plugin, const struct gd_setting *list, size_t count, struct gd_error *err)
{
	int r = plugin->check ? plugin->check(list, count, err) : 0;
	err->message[sizeof(err->message) - 1] = '\0';
	if (r > 0)
		r = -EIO;
	if (r < 0 && !err->message[0])
		return error_set(err, r, "the worker's check failed: %s", error_words(r));
	return r;
}

void plugin_report_main(const char *path)
{
	/* If the parent died before prctl(), the pipe has no reader. */
	struct pollfd reader = {.fd = PLUGIN_REPORT_FD};
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || poll(&reader, 1, 0) != 0)
		_exit(1);
	file_close_range(PLUGIN_REPORT_FD + 1, INT_MAX);
	struct plugin_report report = {.size = sizeof(report)};
	struct gd_error err = {0};
	struct gd_worker_ops ops;
	struct gd_plugin plugin = {0};
	struct text bytes = {0};
	struct gd_setting *list = NULL;
	size_t count = 0;
	bool checks = read_settings(&bytes, &list, &count);
	report.code = plugin_load(path, &ops, &plugin, &err);
	if (report.code == 0 && checks)
		report.code = run_check(&plugin, list, count, &err);
	const char *about = plugin.about;
	snprintf(report.words, sizeof(report.words), "%.*s", (int)sizeof(report.words) - 1, err.message);
	if (report.code == 0) {
		report.facts.has_batch = ops.process_batch != NULL;
		report.facts.max_batch = ops.max_batch;
		if (about)
			utf8_copy_line(report.facts.about, sizeof(report.facts.about), about,
				strnlen(about, sizeof(report.facts.about)));
	}
	_exit(file_write_all(PLUGIN_REPORT_FD, &report, sizeof(report)) < 0);
}
