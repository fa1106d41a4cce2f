/* SPDX-License-Identifier: MIT */
/* Plug-ins for the tests, one for each definition of PLUGIN_…; each can be loaded well or badly in its own way. */
#include <errno.h>
#include <gpu_dispatch_launch.h>
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

#ifdef PLUGIN_HOOKLESS
#define UNUSED __attribute__((unused))
#else
#define UNUSED
#endif

#ifndef PLUGIN_BARE
static int setup(struct gd_worker *w, void **ret_state)
{
	if (strcmp(gd_worker_setting(w, "model_size", "base"), "none") == 0)
		return gd_worker_fail(w, -ENOENT, "no such model");
	*ret_state = (void *)"state";
	return 0;
}

static UNUSED int work(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	struct gd_file file;
	if (gd_file_read(task, &file) < 0 || strcmp(state, "state") != 0)
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

const struct gd_worker_ops gd_worker = {
	.size = sizeof(struct gd_worker_ops), .setup = setup, .process_batch = process_batch, .max_batch = 5};
const char gd_worker_about[] = "works on several\nfiles at a time";
#elif defined(PLUGIN_HOOKLESS)
const struct gd_worker_ops gd_worker = {.size = sizeof(struct gd_worker_ops), .setup = setup};
#elif !defined(PLUGIN_BARE)
static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	int r = work(w, state, task);
	return r < 0 ? r : gd_file_done(w, 12.5);
}

static int cleanup(struct gd_worker *w, void *state)
{
	(void)w, (void)state;
	return 0;
}

const struct gd_worker_ops gd_worker = {
	.size = sizeof(struct gd_worker_ops), .setup = setup, .process = process, .cleanup = cleanup};
const char gd_worker_about[] = "writes its own number";
#else
int plugin_has_nothing = 1;
#endif
