/* SPDX-License-Identifier: MIT */
/* A plug-in that does nothing, to measure the cost of gpuq launch itself. */
#include <gpu_dispatch_launch.h>

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct gd_file file;
	int r = gd_file_read(task, &file, sizeof(file));
	if (r == 0 && file.known & GD_KNOWN_SECONDS)
		r = gd_worker_file_seconds(w, file.seconds);
	return r;
}

const struct gd_plugin *gd_plugin_get(void)
{
	static const struct gd_worker_ops ops = {.size = sizeof(ops), .process = process};
	static const struct gd_plugin plugin = {.size = sizeof(plugin), .version = GD_PLUGIN_VERSION, .ops = &ops};
	return &plugin;
}
