/* SPDX-License-Identifier: MIT */
/* gpuq-worker: runs the commands, programs and plug-ins of a launch. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/trust.h"
#include "launch/plugin_load.h"
#include "launch/worker_arguments.h"
#include "launch/worker_hooks.h"

/* ---- Commands and programs ---------------------------------------------- */

struct host {
	struct launch_worker worker; /* first: the hooks' context */
	struct gd_setting *settings;
	const struct gd_worker_ops *ops;
};

/* Fills in the values of the settings whose names were given. */
static int setup(struct gd_worker *w, void **ret_state)
{
	struct host *host = gd_worker_context(w);
	for (size_t i = 0; i < host->worker.num_settings; i++)
		host->settings[i].value = gd_worker_setting(w, host->settings[i].key, "");
	return host->ops->setup(w, ret_state);
}

/* Reads the words after the kind, up to "--". 0, or -EINVAL. */
static int read_words(struct host *host, char **argv)
{
	for (; *argv && strcmp(*argv, "--") != 0; argv += 2) {
		if (!argv[1])
			return -EINVAL;
		if (strcmp(*argv, WORKER_KEY) == 0)
			host->settings[host->worker.num_settings++].key = argv[1];
		else if (strcmp(*argv, WORKER_READY_MS) == 0)
			host->worker.ready_timeout_ms = atoll(argv[1]);
		else if (strcmp(*argv, WORKER_IN_FLIGHT) == 0)
			host->worker.in_flight = (size_t)atoll(argv[1]);
		else
			return -EINVAL;
	}
	if (!*argv || !argv[1])
		return -EINVAL;
	host->worker.argv = (const char *const *)argv + 1;
	return 0;
}

static int host_main(enum launch_kind kind, int argc, char **argv)
{
	struct host host = {.worker.kind = kind};
	host.settings = calloc((size_t)argc, sizeof(*host.settings));
	if (!host.settings || read_words(&host, argv + 2) < 0) {
		free(host.settings);
		return -EINVAL;
	}
	host.worker.settings = host.settings;
	host.ops = kind == LAUNCH_TEMPLATE ? &template_worker_ops
		   : kind == LAUNCH_ITEMS  ? &items_worker_ops
					   : &program_worker_ops;
	struct gd_worker_ops ops = *host.ops;
	if (kind == LAUNCH_ITEMS)
		ops.max_batch = host.worker.in_flight;
	ops.setup = setup;
	ops.context = &host;
	return gd_worker_main(&ops);
}

/* ---- Plug-ins ------------------------------------------------------------ */

/* The plug-in worked when the launcher inspected it: report why it fails now. */
static int fail_setup(struct gd_worker *w, void **ret_state)
{
	const struct gd_error *err = gd_worker_context(w);
	*ret_state = NULL;
	return gd_worker_fail(w, err->code, "%s", err->message);
}

static int never(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)w, (void)state, (void)task;
	return -EIO;
}

static int load(const char *path, bool own, struct gd_worker_ops *ret, struct gd_error *err)
{
	struct gd_error why = {0};
	int r = own ? trust_check_path(path, &why) : 0;
	if (r < 0)
		return error_set(err, r, "the worker '%s' was moved or can be replaced by other users now: %s", path,
			why.message[0] ? why.message : error_words(r));
	return plugin_load(path, ret, NULL, err);
}

static int plugin_main(const char *path, bool own)
{
	struct gd_error err = {0};
	struct gd_worker_ops ops;
	if (load(path, own, &ops, &err) < 0)
		ops = (struct gd_worker_ops){
			.size = sizeof(ops), .context = &err, .setup = fail_setup, .process = never};
	return gd_worker_main(&ops);
}

int main(int argc, char **argv)
{
	int r = -EINVAL;
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("gpuq-worker " GD_VERSION);
		return 0;
	}
	if (argc > 2 && strcmp(argv[1], WORKER_COMMAND) == 0)
		r = host_main(LAUNCH_TEMPLATE, argc, argv);
	else if (argc > 2 && strcmp(argv[1], WORKER_PROGRAM) == 0)
		r = host_main(LAUNCH_PROGRAM, argc, argv);
	else if (argc > 2 && strcmp(argv[1], WORKER_ITEMS) == 0)
		r = host_main(LAUNCH_ITEMS, argc, argv);
	else if (argc == 3 && strcmp(argv[1], WORKER_PLUGIN) == 0)
		r = plugin_main(argv[2], false);
	else if (argc == 3 && strcmp(argv[1], WORKER_OWN) == 0)
		r = plugin_main(argv[2], true);
	else if (argc == 3 && strcmp(argv[1], WORKER_INSPECT) == 0)
		plugin_report_main(argv[2]);
	if (r == -EINVAL) {
		fputs("gpuq-worker is started by gpuq and libgpu_dispatch of the same version; see 'gpuq launch'\n",
			stderr);
		return 2;
	}
	return r;
}
