/* SPDX-License-Identifier: MIT */
/* `gpuq run --background`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/background.h"
#include "cli/run_parts.h"
#include "cli/say.h"

/* Maximum number of options passed on to the runner in the background. */
#define MAX_PASSED (CONFIG_KEYS + 4)

static void passed_finish(char *(*passed)[MAX_PASSED])
{
	for (size_t i = 0; i < MAX_PASSED; i++)
		free((*passed)[i]);
}

static int pass(char **passed, size_t *count, const char *name, const char *value)
{
	if (asprintf(&passed[*count], "--%s%s%s", name, *value ? "=" : "", value) < 0) {
		passed[*count] = NULL;
		return -ENOMEM;
	}
	++*count;
	return 0;
}

static int pass_options(const struct run *run, char **passed)
{
	size_t n = 0;
	int r = 0;
	for (int key = 0; r == 0 && key < CONFIG_KEYS; key++)
		if (run->given[key] && key != CONFIG_COMMANDS_FILE && key != CONFIG_BACKGROUND && key != CONFIG_JSON)
			r = pass(passed, &n, run_option_name((enum config_key)key),
				key == CONFIG_LOG_DIR ? run->log_dir : run->given[key]);
	if (r == 0 && run->given_grace)
		r = pass(passed, &n, "grace", run->given_grace);
	if (r == 0 && run->takeover)
		r = pass(passed, &n, "takeover", "");
	if (r == 0 && run->quiet)
		r = pass(passed, &n, "quiet", "");
	return r;
}

int run_in_background(struct run *run, struct journal *j)
{
	cleanup_(passed_finish) char *passed[MAX_PASSED] = {NULL};
	bool another_runs = background_has_runner(j->dir_fd);
	int r = background_check(&run->queue, j->dir_fd, &run->err);
	if (r < 0) {
		journal_remove_empty(j);
		return r;
	}
	/* Locking updates the counters of the journal: the runner, which gets the journal's path, relies on them. */
	r = journal_lock(j, &run->err);
	if (r < 0)
		return r;
	journal_unlock(j);
	r = run_add_commands(run, j, another_runs);
	if (another_runs)
		run_say_what_is_ignored(run);
	if (r == 0 && pass_options(run, passed) < 0)
		r = error_set(&run->err, -ENOMEM, "cannot start a runner: out of memory");
	if (r == 0)
		r = background_start(
			&run->queue, j->dir_fd, (const char *const *)passed, BACKGROUND_READY_MS, &run->err);
	if (r == 0 && !run->quiet)
		say("%zu new job%s; a runner is working in the background, see 'gpuq status' and 'gpuq wait'",
			run->ids.count, run->ids.count == 1 ? "" : "s");
	return r;
}
