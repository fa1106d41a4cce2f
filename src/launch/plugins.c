/* SPDX-License-Identifier: MIT */
#include "launch/plugins.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/helper.h"
#include "base/suggest.h"
#include "base/text.h"
#include "launch/plugin_inspect.h"

#define SUFFIX      ".so"
#define PATH_ENV    "GPUQ_WORKER_PATH"
#define DESCRIBE_MS 10000

struct found {
	struct plugin *plugins;
	size_t count, capacity;
};

static void found_finish(struct found *f)
{
	plugins_free(f->plugins, f->count);
}

void plugins_free(struct plugin *plugins, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(plugins[i].name);
		free(plugins[i].path);
	}
	free(plugins);
}

static const struct plugin *find_named(const struct found *f, const char *name)
{
	for (size_t i = 0; i < f->count; i++)
		if (strcmp(f->plugins[i].name, name) == 0)
			return &f->plugins[i];
	return NULL;
}

static int add(struct found *f, const char *folder, const char *file)
{
	size_t size = strlen(file) - strlen(SUFFIX);
	struct plugin p = {.name = strndup(file, size)};
	if (asprintf(&p.path, "%s/%s", folder, file) < 0)
		p.path = NULL;
	bool room = p.name && p.path && array_reserve(f->plugins, &f->capacity, f->count + 1) == 0;
	struct stat st;
	if (room && !find_named(f, p.name) && stat(p.path, &st) == 0 && S_ISREG(st.st_mode)) {
		f->plugins[f->count++] = p;
		return 0;
	}
	free(p.name);
	free(p.path);
	return room ? 0 : -ENOMEM;
}

/* A folder that is not there has none. */
static int look_in(struct found *f, const char *folder)
{
	cleanup_(closedirp) DIR *d = opendir(folder);
	const struct dirent *e;
	while (d && (e = readdir(d))) {
		size_t size = strlen(e->d_name);
		if (e->d_name[0] == '.' || size <= strlen(SUFFIX) ||
			strcmp(e->d_name + size - strlen(SUFFIX), SUFFIX) != 0)
			continue;
		int r = add(f, folder, e->d_name);
		if (r < 0)
			return r;
	}
	return 0;
}

static int look_in_path(struct found *f, const char *path)
{
	int r = 0;
	while (*path && r >= 0) {
		size_t size = strcspn(path, ":");
		char folder[PATH_MAX];
		if (size > 0 && size < sizeof(folder)) {
			snprintf(folder, sizeof(folder), "%.*s", (int)size, path);
			r = look_in(f, folder);
		}
		path += size + (path[size] == ':');
	}
	return r;
}

/* As it was built; of a library in libdir; of a program in bin or libexec; and what the build was told. */
static int look_beside(struct found *f)
{
	static const char *const places[] = {"workers", "gpu_dispatch/workers", "../lib/gpu_dispatch/workers"};
	char here[PATH_MAX], folder[PATH_MAX];
	int r = 0;
	bool known = helper_directory(here, sizeof(here)) == 0;
	for (size_t i = 0; known && r >= 0 && i < sizeof(places) / sizeof(places[0]); i++) {
		int n = snprintf(folder, sizeof(folder), "%s/%s", here, places[i]);
		if (n > 0 && (size_t)n < sizeof(folder))
			r = look_in(f, folder);
	}
	return r < 0 ? r : look_in(f, GD_WORKERDIR);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct plugin *)a)->name, ((const struct plugin *)b)->name);
}

int plugins_list(struct plugin **ret, size_t *ret_count)
{
	cleanup_(found_finish) struct found f = {0};
	const char *path = getenv(PATH_ENV);
	int r = path ? look_in_path(&f, path) : 0;
	if (r >= 0)
		r = look_beside(&f);
	if (r < 0)
		return r;
	if (f.count)
		qsort(f.plugins, f.count, sizeof(*f.plugins), by_name);
	*ret = f.plugins;
	*ret_count = f.count;
	f = (struct found){0};
	return 0;
}

bool plugins_describe(const struct plugin *plugin, char *ret, size_t size)
{
	struct plugin_facts facts;
	struct gd_error err = {0};
	bool good = plugin_inspect(plugin->path, DESCRIBE_MS, &facts, &err) == 0;
	snprintf(ret, size, "%s", good ? facts.about : err.message);
	return good;
}

/* ---- By name ------------------------------------------------------------ */

static int find_file(const char *name, char **ret_path, struct gd_error *err)
{
	char *path = realpath(name, NULL);
	if (!path)
		return error_set(err, -errno, "the worker '%s' cannot be opened: %s", name, error_words(-errno));
	*ret_path = path;
	return 0;
}

static int fail_unknown(const struct found *f, const char *name, struct gd_error *err)
{
	cleanup_(freep) const char **names = calloc(f->count + 1, sizeof(*names));
	cleanup_(text_finish) struct text list = {0};
	if (!names)
		return error_set(err, -ENOMEM, "no memory");
	for (size_t i = 0; i < f->count; i++) {
		names[i] = f->plugins[i].name;
		text_appendf(&list, "%s%s", i ? ", " : "", names[i]);
	}
	const char *meant = suggest(name, names, f->count);
	if (meant)
		return error_set(err, -ENOENT, "there is no worker '%s'; did you mean '%s'?", name, meant);
	if (f->count)
		return error_set(err, -ENOENT,
			"there is no worker '%s'; there are: %s; a file of your own is "
			"--worker ./FILE.so",
			name, text_string(&list));
	return error_set(err, -ENOENT,
		"there is no worker '%s', nor is any installed; a file of your own is "
		"--worker ./FILE.so",
		name);
}

static int fail_none(struct gd_error *err)
{
	return error_set(err, -ENOENT,
		"no worker is given, and none for speech is installed; type a command for each file behind --, as in: "
		"-- COMMAND {file} {output}; or --worker-command 'PROGRAM', or --worker FILE.so; or install one: "
		"apt-get install libpocketsphinx-dev pocketsphinx-en-us, then build gpu_dispatch again");
}

int plugins_find(const char *name, char **ret_path, struct gd_error *err)
{
	size_t size = name ? strlen(name) : 0;
	if (name && (strchr(name, '/') || (size > 3 && strcmp(name + size - strlen(SUFFIX), SUFFIX) == 0)))
		return find_file(name, ret_path, err);
	cleanup_(found_finish) struct found f = {0};
	int r = plugins_list(&f.plugins, &f.count);
	if (r < 0)
		return error_set(err, r, "the workers cannot be listed: %s", error_words(r));
	const struct plugin *p = find_named(&f, name ? name : "whisper");
	if (!p && !name)
		p = find_named(&f, "pocketsphinx");
	if (!p)
		return name ? fail_unknown(&f, name, err) : fail_none(err);
	return find_file(p->path, ret_path, err);
}
