/* SPDX-License-Identifier: MIT */
/* A worker program for files: writes a file "seen" into each output folder. */
#include <stdio.h>

#include "gpu_dispatch_launch.h"

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct gd_file file;
	int r = gd_file_read(task, &file, sizeof(file));
	if (r < 0)
		return r;
	char path[4096];
	snprintf(path, sizeof(path), "%s/seen", file.output_dir);
	FILE *f = fopen(path, "we");
	if (!f || fputs(gd_worker_setting(w, "word", "?"), f) < 0)
		r = gd_worker_fail(w, -5, "'%s' cannot be written", path);
	if (f)
		fclose(f);
	return r < 0 ? r : gd_worker_file_seconds(w, 3);
}

int main(void)
{
	const struct gd_worker_ops ops = {.size = sizeof(ops), .process = process};
	return gd_worker_main(&ops);
}
