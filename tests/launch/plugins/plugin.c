/* SPDX-License-Identifier: MIT */
/* Plug-ins for the tests, one for each definition of PLUGIN_…; each loads, or fails to load, in its own way. */
#include <errno.h>
#include <gpu_dispatch_launch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef PLUGIN_CRASH
static __attribute__((constructor)) void start(void)
{
	abort();
}
#endif

#ifdef PLUGIN_EXITS
static __attribute__((constructor)) void start(void)
{
	exit(3);
}
#endif

#ifdef PLUGIN_HANG
static __attribute__((constructor)) void start(void)
{
	for (;;)
		pause();
}
#endif

#ifdef PLUGIN_MISSING
int not_there_at_all(void);
static __attribute__((constructor)) void start(void)
{
	not_there_at_all();
}
#endif

#if defined(PLUGIN_HOOKLESS) || defined(PLUGIN_OLD)
#define UNUSED __attribute__((unused))
#else
#define UNUSED
#endif

#ifndef PLUGIN_BARE
static UNUSED int setup(struct gd_worker *w, void **ret_state)
{
	if (strcmp(gd_worker_setting(w, "model_size", "base"), "none") == 0)
		return gd_worker_fail(w, -ENOENT, "no such model");
	*ret_state = (void *)"state";
	return 0;
}

static UNUSED int work(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	struct gd_file file;
	if (gd_file_read(task, &file, sizeof(file)) < 0 || strcmp(state, "state") != 0)
		return gd_worker_fail(w, -EBADMSG, "no file");
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s.pid", file.output_dir, file.stem);
	FILE *f = fopen(path, "we");
	if (!f)
		return gd_worker_fail(w, -errno, "'%s': %s", path, strerror(errno));
	fprintf(f, "%d\n", (int)getpid());
	fclose(f);
	return strcmp(file.stem, "fails") == 0 ? gd_worker_fail(w, -EIO, "'%s' fails", file.path) : 0;
}
#endif

#if defined(PLUGIN_BATCH)
static int process_batch(struct gd_worker *w, void *state, const struct gd_bytes *tasks, size_t num_tasks)
{
	for (size_t i = 0; i < num_tasks; i++) {
		int r = work(w, state, &tasks[i]);
		double seconds = (double)i;
		if (r < 0)
			gd_worker_batch_fail(w, i, r, "batched failure");
		else
			gd_worker_batch_result(w, i, &seconds, sizeof(seconds));
	}
	return 0;
}

static const struct gd_worker_ops ops = {
	.size = sizeof(ops), .setup = setup, .process_batch = process_batch, .max_batch = 5};
#define ABOUT "works on several\nfiles at a time"
#elif defined(PLUGIN_HOOKLESS)
static const struct gd_worker_ops ops = {.size = sizeof(ops), .setup = setup};
#elif defined(PLUGIN_OLD)
/* The symbol that plug-ins exported before gd_plugin_get() existed. */
extern const struct gd_worker_ops gd_worker;
const struct gd_worker_ops gd_worker = {.size = sizeof(gd_worker)};
#elif !defined(PLUGIN_BARE)
static volatile sig_atomic_t cancelled;

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	if (gd_worker_context(w) != &cancelled)
		return gd_worker_fail(w, -EINVAL, "another context");
	int r = work(w, state, task);
	struct gd_file file;
	if (r == 0 && gd_file_read(task, &file, sizeof(file)) == 0 && strcmp(file.stem, "waits") == 0) {
		/* Ignores gd_worker_cancelled(): only on_cancel ends it. */
		while (!cancelled)
			pause();
		return gd_worker_fail(w, -ECANCELED, "heard on_cancel");
	}
	return r < 0 ? r : gd_worker_file_seconds(w, 12.5);
}

static void on_cancel(struct gd_worker *w, void *state)
{
	(void)w, (void)state;
	cancelled = 1;
}

static int cleanup(struct gd_worker *w, void *state)
{
	(void)w, (void)state;
	return 0;
}

/* Writes a file with the name in the setting "leave". */
static void on_leave(struct gd_worker *w)
{
	const char *path = gd_worker_setting(w, "leave", "");
	FILE *f = *path ? fopen(path, "we") : NULL;
	if (f)
		fclose(f);
}

static const struct gd_worker_ops ops = {
	.size = sizeof(ops),
	.context = (void *)&cancelled,
	.setup = setup,
	.process = process,
	.cleanup = cleanup,
	.on_cancel = on_cancel,
	.on_leave = on_leave,
};
#define ABOUT "writes its own number"
#else
extern int plugin_has_nothing;
int plugin_has_nothing = 1;
#endif

#ifndef ABOUT
#define ABOUT NULL
#endif
#ifdef PLUGIN_FUTURE
#define VERSION (GD_PLUGIN_VERSION + 1)
#else
#define VERSION GD_PLUGIN_VERSION
#endif
#ifdef PLUGIN_SIZELESS
#define SIZE 0
#else
#define SIZE sizeof(struct gd_plugin)
#endif

#if !defined(PLUGIN_BARE) && !defined(PLUGIN_OLD)
const struct gd_plugin *gd_plugin_get(void)
{
	static const struct gd_plugin plugin = {.size = SIZE, .version = VERSION, .about = ABOUT, .ops = &ops};
	return &plugin;
}
#endif
