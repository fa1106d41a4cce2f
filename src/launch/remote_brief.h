/* SPDX-License-Identifier: MIT */
/*
 * The description of the workers of a launch for processes on other machines: a file that only the user can read. It
 * contains pairs of strings, a name and a value, each with its NUL.
 */
#ifndef LAUNCH_REMOTE_BRIEF_H
#define LAUNCH_REMOTE_BRIEF_H

#include "gpu_dispatch_launch.h"

/* Start from {0}. */
struct remote_brief {
	char **argv; /* for gd_options.worker_argv; NULL at the end */
	struct gd_setting *settings;
	size_t num_settings;
	int64_t task_timeout_ms, setup_timeout_ms, retries;
	const char *log_dir; /* exists; each worker makes a folder of its own there; NULL: output is inherited */
	int64_t lease_ms;    /* after this time without contact with its proxy, a worker ends */
	int64_t silence_ms;  /* after this time without a message, it connects again */
	/* Private: memory. */
	char *data;
	size_t num_args, args_capacity, settings_capacity;
};

/* Writes and syncs the file, then renames it. */
int remote_brief_write(int dir_fd, const char *name, const struct remote_brief *brief);
/* -EPERM: other users can read it; -EBADMSG. Release with remote_brief_finish(), even on failure. */
int remote_brief_read(int dir_fd, const char *name, struct remote_brief *ret);
void remote_brief_finish(struct remote_brief *b);

#endif
