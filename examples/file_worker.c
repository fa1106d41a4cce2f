/* SPDX-License-Identifier: MIT */
/*
 * A plug-in for gpuq launch: it loads its model once per GPU, then processes one file
 * after the other. This example counts lines.
 *
 *     cc -shared -fPIC file_worker.c -o file_worker.so
 *     gpuq launch --input-dir texts --pattern '*.txt' --worker ./file_worker.so
 */
#include <errno.h>
#include <gpu_dispatch_launch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Once per worker, after its GPU is selected. */
static int setup(struct gd_worker *w, void **ret_state)
{
	*ret_state = calloc(1, 1 << 16); /* a real worker keeps its model here */
	return *ret_state ? 0 : gd_worker_fail(w, -ENOMEM, "out of memory on GPU %d", gd_worker_gpu(w));
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	char *block = state, path[4096];
	struct gd_file file;
	int r = gd_file_read(task, &file, sizeof(file));
	if (r < 0)
		return r;
	FILE *in = fopen(file.path, "r");
	if (!in)
		return gd_worker_fail(w, -errno, "cannot be opened: %s", strerror(errno));
	long lines = 0;
	size_t n;
	while ((n = fread(block, 1, 1 << 16, in)) > 0 && !gd_worker_cancelled(w, 0))
		for (size_t i = 0; i < n; i++)
			lines += block[i] == '\n';
	fclose(in);
	snprintf(path, sizeof(path), "%s/%s.count", file.output_dir, file.stem);
	FILE *out = fopen(path, "w");
	if (!out || fprintf(out, "%ld\n", lines) < 0 || fclose(out) != 0)
		return gd_worker_fail(w, -errno, "cannot write '%s': %s", path, strerror(errno));
	return 0; /* for audio: return gd_worker_file_seconds(w, seconds) */
}

static int cleanup(struct gd_worker *w, void *state)
{
	(void)w;
	free(state);
	return 0;
}

static const struct gd_worker_ops ops = {.size = sizeof(ops), .setup = setup, .process = process, .cleanup = cleanup};
static const struct gd_plugin plugin = {
	sizeof(plugin), GD_PLUGIN_VERSION, "an example: counts the lines of text files", &ops};

const struct gd_plugin *gd_plugin_get(void)
{
	return &plugin;
}
