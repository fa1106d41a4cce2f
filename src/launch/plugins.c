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
#include "base/install_dirs.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/trust.h"
#include "launch/plugin_inspect.h"

#define SUFFIX      ".so"
#define PATH_ENV    "GPUQ_WORKER_PATH"
#define DESCRIBE_MS 10000

/* Where a folder of plug-ins comes from. */
enum source {
	SOURCE_NAMED,     /* $GPUQ_WORKER_PATH: the user's own choice */
	SOURCE_BESIDE,    /* next to the program: its plug-ins must be trusted */
	SOURCE_INSTALLED, /* the directory that was given when gpu_dispatch was built */
};

struct found {
	struct plugin *plugins;
	size_t count, capacity;
};

static void found_finish(struct found *f)
{
	plugins_free(f->plugins, f->count);
}

static void plugin_finish(struct plugin *p)
{
	free(p->name);
	free(p->path);
	free(p->refusal);
}

void plugins_free(struct plugin *plugins, size_t count)
{
	for (size_t i = 0; i < count; i++)
		plugin_finish(&plugins[i]);
	free(plugins);
}

static struct plugin *find_named(const struct found *f, const char *name)
{
	for (size_t i = 0; i < f->count; i++)
		if (strcmp(f->plugins[i].name, name) == 0)
			return &f->plugins[i];
	return NULL;
}

/* 0, with p->refusal set if the file is not trusted; -ENOMEM. */
static int check_trust(struct plugin *p)
{
	struct gd_error err = {0};
	if (trust_is_off() || trust_check_path(p->path, &err) == 0)
		return 0;
	return asprintf(&p->refusal,
		       "refusing to load '%s': %s; correct the permissions, set GPUQ_TRUST=1 if you trust these users, or set plugin to '%s' if you trust it",
		       p->path, err.message, p->path) < 0
		       ? -ENOMEM
		       : 0;
}

/* Takes the plug-in, unless one with the same name has precedence. */
static int add(struct found *f, struct plugin *p)
{
	struct plugin *before = find_named(f, p->name);
	if (before && (!before->refusal || p->refusal))
		return 0;
	if (before) {
		plugin_finish(before);
		*before = *p;
	} else {
		if (array_reserve(f->plugins, &f->capacity, f->count + 1) < 0)
			return -ENOMEM;
		f->plugins[f->count++] = *p;
	}
	*p = (struct plugin){0};
	return 0;
}

static int look_at(struct found *f, const char *folder, const char *file, enum source source)
{
	cleanup_(plugin_finish) struct plugin p = {.name = strndup(file, strlen(file) - strlen(SUFFIX))};
	if (asprintf(&p.path, "%s/%s", folder, file) < 0)
		p.path = NULL;
	if (!p.name || !p.path)
		return -ENOMEM;
	struct stat st;
	if (stat(p.path, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	int r = source == SOURCE_BESIDE ? check_trust(&p) : 0;
	return r < 0 ? r : add(f, &p);
}

/* A missing folder has no plug-ins. */
static int look_in(struct found *f, const char *folder, enum source source)
{
	cleanup_(closedirp) DIR *d = opendir(folder);
	const struct dirent *e;
	while (d && (e = readdir(d))) {
		size_t size = strlen(e->d_name);
		if (e->d_name[0] == '.' || size <= strlen(SUFFIX) ||
			strcmp(e->d_name + size - strlen(SUFFIX), SUFFIX) != 0)
			continue;
		int r = look_at(f, folder, e->d_name, source);
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
			r = look_in(f, folder, SOURCE_NAMED);
		}
		path += size + (path[size] == ':');
	}
	return r;
}

/* Searches next to the real directory of the program or library: in the build tree, in libdir, or next to bin. */
static int look_beside(struct found *f)
{
	static const struct {
		const char *folder;
		bool above; /* relative to the parent directory */
	} places[] = {{"workers", false}, {"gpu_dispatch/workers", false}, {"lib/gpu_dispatch/workers", true}};
	char here[PATH_MAX], folder[PATH_MAX];
	int r = helper_directory(here, sizeof(here));
	if (r < 0)
		return 0;
	for (size_t i = 0; r >= 0 && i < sizeof(places) / sizeof(places[0]); i++) {
		/* Without "..": the path is checked as it is written. */
		int length = (int)(places[i].above ? strrchr(here, '/') - here : (ptrdiff_t)strlen(here));
		int n = snprintf(folder, sizeof(folder), "%.*s/%s", length, here, places[i].folder);
		if (n > 0 && (size_t)n < sizeof(folder))
			r = look_in(f, folder, SOURCE_BESIDE);
	}
	return r;
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
	if (r >= 0)
		r = look_in(&f, GD_WORKERDIR, SOURCE_INSTALLED);
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
	if (plugin->refusal) {
		snprintf(ret, size, "%s", plugin->refusal);
		return false;
	}
	bool good = plugin_inspect(plugin->path, NULL, DESCRIBE_MS, &facts, &err) == 0;
	snprintf(ret, size, "%s", good ? facts.about : err.message);
	return good;
}

/* ---- By name ------------------------------------------------------------ */

static int find_file(const char *name, char **ret_path, struct gd_error *err)
{
	char *path = realpath(name, NULL);
	if (!path)
		return error_set(err, -errno, "cannot open the worker '%s': %s", name, error_words(-errno));
	*ret_path = path;
	return 0;
}

static int fail_unknown(const struct found *f, const char *name, struct gd_error *err)
{
	cleanup_(freep) const char **names = calloc(f->count + 1, sizeof(*names));
	cleanup_(text_finish) struct text list = {0};
	if (!names)
		return error_set(err, -ENOMEM, "out of memory");
	size_t count = 0;
	for (size_t i = 0; i < f->count; i++) {
		if (f->plugins[i].refusal)
			continue;
		text_appendf(&list, "%s%s", count ? ", " : "", f->plugins[i].name);
		names[count++] = f->plugins[i].name;
	}
	const char *meant = suggest(name, names, count);
	if (meant)
		return error_set(err, -ENOENT, "unknown worker '%s'; did you mean '%s'?", name, meant);
	if (count)
		return error_set(err, -ENOENT,
			"unknown worker '%s'; installed workers: %s; for a file of your own set plugin to ./FILE.so",
			name, text_string(&list));
	return error_set(err, -ENOENT,
		"unknown worker '%s', and none is installed; for a file of your own set plugin to ./FILE.so", name);
}

static int fail_none(struct gd_error *err)
{
	return error_set(err, -ENOENT,
		"no worker given, and no speech recognizer is installed; install whisper.cpp (library and whisper.h) or the "
		"packages libpocketsphinx-dev and pocketsphinx-en-us, then build gpu_dispatch again; whisper looks for "
		"models (ggml-SIZE.bin) in " PLUGINS_WHISPER_FOLDERS
		"; or set command, program or plugin to a worker of your own");
}

int plugins_find(const char *name, char **ret_path, struct gd_error *err)
{
	size_t size = name ? strlen(name) : 0;
	if (name && (strchr(name, '/') || (size > 3 && strcmp(name + size - strlen(SUFFIX), SUFFIX) == 0)))
		return find_file(name, ret_path, err);
	cleanup_(found_finish) struct found f = {0};
	int r = plugins_list(&f.plugins, &f.count);
	if (r < 0)
		return error_set(err, r, "cannot list the workers: %s", error_words(r));
	const struct plugin *p = find_named(&f, name ? name : "whisper");
	const struct plugin *second = name ? NULL : find_named(&f, "pocketsphinx");
	if (!p || (p->refusal && second && !second->refusal))
		p = second;
	if (!p)
		return name ? fail_unknown(&f, name, err) : fail_none(err);
	if (p->refusal)
		return error_set(err, -EPERM, "%s", p->refusal);
	return find_file(p->path, ret_path, err);
}
