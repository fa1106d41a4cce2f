/* SPDX-License-Identifier: MIT */
/*
 * A launch whose files are processed on other machines. The launcher finds, orders and records files as usual; the
 * workers of its pool are *proxies*, programs that call gd_worker_main() and pass each file on to one worker elsewhere.
 * Time limits and retries are applied there. A proxy describes its worker by notes (remote_note.h).
 *
 * A file is given to one worker at a time: a proxy answers, or puts the file back, only when no process elsewhere works
 * on it anymore.
 */
#ifndef LAUNCH_REMOTE_H
#define LAUNCH_REMOTE_H

#include "gpu_dispatch_launch.h"
#include "launch/worker.h"

/* The workers to start. */
struct launch_remote_plan {
	const char *output_root; /* absolute */
	int output_fd;           /* the same folder, O_PATH */
	size_t num_files;
	const struct launch_worker *worker;
	const struct gd_launch_options *options;
	const char *log_dir; /* folder for the output of workers; exists; NULL: the output is inherited */
};

/* Valid until the end of the run. count 0: the files are processed on this machine. */
struct launch_remote_workers {
	const char *const *argv; /* of a proxy; NULL at the end */
	size_t count;
	const char *proxy_log_dir; /* folder for the output of proxies; its parent exists */
};

struct launch_remote {
	/* Called once, when the launcher has the lock of its output folder. */
	int (*start)(void *context, const struct launch_remote_plan *plan, struct launch_remote_workers *ret,
		struct gd_error *err);
	void *context;
};

/* Call before the run. The struct is borrowed. */
void launcher_set_remote(struct gd_launcher *l, const struct launch_remote *remote);

#endif
