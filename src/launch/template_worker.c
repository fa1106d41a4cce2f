/* SPDX-License-Identifier: MIT */
/* A command per file. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "launch/child.h"
#include "launch/file_task.h"
#include "launch/template.h"
#include "launch/worker_hooks.h"

#define LOOK_MS 20 /* how often to poll gd_worker_cancelled(): there is no descriptor for it */

static int setup(struct gd_worker *w, void **ret_state)
{
	(void)w;
	*ret_state = NULL;
	/* The reader of our standard error may be gone. */
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

/* Waits until the child has ended. Returns whether it was told to end. */
static bool wait_for(struct gd_worker *w, struct child *c)
{
	bool told = false;
	for (;;) {
		struct pollfd fds[] = {
			{.fd = c->process.fd, .events = POLLIN},
			{.fd = c->log, .events = POLLIN},
		};
		int n = pidref_poll(&c->process, fds, 2, &fds[0], LOOK_MS);
		if (n > 0 && fds[1].revents)
			child_read_log(c);
		if (n > 0 && fds[0].revents)
			return told;
		if (!told && gd_worker_cancelled(w, 0)) {
			told = true;
			child_signal(c, SIGTERM);
		}
	}
}

static int run(struct gd_worker *w, char *const argv[])
{
	struct child c;
	int r = child_start(&c, argv, false);
	if (r < 0)
		return gd_worker_fail(w, r, "cannot execute '%s': %s", argv[0], error_words(r));
	bool told = wait_for(w, &c);
	child_end(&c);
	if (WIFEXITED(c.status) && WEXITSTATUS(c.status) == 0)
		return 0;
	char words[512];
	child_words(&c, words, sizeof(words));
	return told ? gd_worker_fail(w, -ECANCELED, "cancelled: %s", words) : gd_worker_fail(w, -EIO, "%s", words);
}

static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct gd_file file;
	int r = file_task_read(task, &file);
	if (r < 0)
		return gd_worker_fail(w, r, "the task is not a file");
	const struct launch_worker *worker = gd_worker_context(w);
	const struct template_values values = {
		.file = &file,
		.gpu = gd_worker_gpu(w),
		.seed = gd_worker_seed(w),
		.settings = worker->settings,
		.num_settings = worker->num_settings,
	};
	cleanup_(freep) char **argv = NULL;
	struct gd_error why = {0};
	r = template_fill(worker->argv, &values, &argv, &why);
	if (r < 0)
		return gd_worker_fail(w, r, "%s", why.message);
	r = template_set_variables(&values);
	if (r < 0)
		return gd_worker_fail(w, r, "cannot set the environment: %s", error_words(r));
	r = run(w, argv);
	if (r == 0 && file.known & GD_KNOWN_SECONDS)
		r = gd_worker_file_seconds(w, file.seconds);
	return r;
}

const struct gd_worker_ops template_worker_ops = {
	.size = sizeof(struct gd_worker_ops), .setup = setup, .process = process};
