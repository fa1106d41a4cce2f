/* SPDX-License-Identifier: MIT */
/*
 * Runs a plug-in on files without a launcher, for the tests of workers:
 *
 *     run_worker PLUGIN FOLDER [--timeout MS] [KEY=VALUE…] -- FILE…
 *
 * Results go to FOLDER. A line for each file: how many seconds, or how it failed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/file_task.h"
#include "launch/worker.h"

static int failures;

static int on_success(void *context, const struct gd_event *event)
{
	char **files = context;
	printf("%s: %.3f\n", files[event->id], file_result_seconds(&event->result));
	return 0;
}

static int on_failure(void *context, const struct gd_event *event)
{
	char **files = context;
	failures++;
	printf("%s: %s: %s\n", files[event->id], gd_failure_name(event->failure), event->message);
	return 0;
}

static int on_setup_fail(void *context, const struct gd_event *event)
{
	(void)context;
	failures++;
	printf("setup: %s\n", event->message);
	return 0;
}

static void submit(struct gd_pool *pool, const char *path, const char *folder)
{
	char *full = realpath(path, NULL);
	char *absolute = full ? full : strdup(path);
	const char *name = absolute && strrchr(absolute, '/') ? strrchr(absolute, '/') + 1 : "";
	char *stem = strdup(name);
	if (!absolute || !stem)
		exit(3);
	if (strrchr(stem, '.'))
		*strrchr(stem, '.') = '\0';
	const struct gd_file file = {.path = absolute, .output_dir = folder, .stem = stem};
	void *bytes = malloc(file_task_size(&file));
	if (!bytes)
		exit(3);
	file_task_write(&file, bytes);
	if (gd_pool_submit(pool, bytes, file_task_size(&file), NULL, NULL, NULL) < 0)
		exit(3);
	free(bytes);
	free(stem);
	free(absolute);
}

int main(int argc, char **argv)
{
	static struct gd_setting settings[16];
	struct launch_worker worker = {.kind = LAUNCH_PLUGIN, .settings = settings};
	struct gd_options options = {.size = sizeof(options), .gpus = "sim:1"};
	int i = 3;
	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		char *value = strchr(argv[i], '=');
		if (strcmp(argv[i], "--timeout") == 0 && i + 1 < argc) {
			options.task_timeout_ms = atoll(argv[++i]);
		} else if (value && worker.num_settings < 16) {
			*value = '\0';
			settings[worker.num_settings++] = (struct gd_setting){.key = argv[i], .value = value + 1};
		}
	}
	char *folder = argc > 3 ? realpath(argv[2], NULL) : NULL;
	if (i >= argc || !folder)
		return 2;
	struct gd_error err = {0};
	struct gd_pool *pool;
	worker.plugin = argv[1];
	const struct gd_callbacks callbacks = {
		.size = sizeof(callbacks),
		.context = argv + i + 1,
		.on_success = on_success,
		.on_error = on_failure,
		.on_timeout = on_failure,
		.on_setup_fail = on_setup_fail,
	};
	options.settings = settings;
	options.num_settings = worker.num_settings;
	int r = launch_worker_check(&worker, &err);
	char **worker_argv = NULL;
	if (r == 0)
		r = launch_worker_argv(&worker, true, &worker_argv, &err);
	options.worker_argv = (const char *const *)worker_argv;
	if (r < 0 || gd_pool_open(&options, &callbacks, &pool, &err) < 0) {
		printf("%s\n", err.message);
		return 1;
	}
	for (i++; i < argc; i++)
		submit(pool, argv[i], folder);
	while (gd_pool_outstanding(pool) > 0 && (r = gd_pool_poll(pool, -1, 0)) >= 0)
		;
	r = gd_pool_close(pool, NULL, 0, &err);
	free(worker_argv);
	free(folder);
	return r < 0 || failures > 0;
}
