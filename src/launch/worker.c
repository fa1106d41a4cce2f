/* SPDX-License-Identifier: MIT */
#include "launch/worker.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/helper.h"
#include "base/trust.h"
#include "launch/plugin_inspect.h"
#include "launch/program_path.h"
#include "launch/template.h"
#include "launch/worker_arguments.h"

#define LOAD_MS 30000 /* large libraries on a cold disk take long */

/* ---- Checking ----------------------------------------------------------- */

static int check_template(const struct launch_worker *worker, struct gd_error *err)
{
	int r = template_check(worker->argv, worker->settings, worker->num_settings, err);
	if (r < 0)
		return r;
	const char *program = worker->argv[0];
	if (strchr(program, '{'))
		return 0; /* the program depends on the file */
	r = program_path_check(program);
	if (r < 0)
		return error_set(err, r, "cannot execute the command '%s': %s", program, error_words(r));
	return 0;
}

static int check_program(const struct launch_worker *worker, struct gd_error *err)
{
	int r = program_path_check(worker->argv[0]);
	if (r < 0)
		return error_set(
			err, r, "cannot execute the worker's program '%s': %s", worker->argv[0], error_words(r));
	return 0;
}

static int check_helper(struct gd_error *err)
{
	char path[PATH_MAX];
	return helper_find(WORKER_HELPER, WORKER_HELPER_PATH, path, sizeof(path), err);
}

int launch_worker_check(const struct launch_worker *worker, struct gd_error *err)
{
	bool empty = !worker->argv || !worker->argv[0];
	struct plugin_facts facts;
	int r;
	switch (worker->kind) {
	case LAUNCH_TEMPLATE:
		r = empty ? error_set(err, -EINVAL, "the command is empty") : check_template(worker, err);
		return r < 0 ? r : check_helper(err);
	case LAUNCH_PROGRAM:
	case LAUNCH_ITEMS:
		r = empty ? error_set(err, -EINVAL, "the command of the worker is empty") : check_program(worker, err);
		return r < 0 ? r : check_helper(err);
	case LAUNCH_PLUGIN:
		return plugin_inspect(worker->plugin, &(struct plugin_settings){worker->settings, worker->num_settings},
			LOAD_MS, &facts, err);
	case LAUNCH_ARGV:
		return empty ? error_set(err, -EINVAL, "worker_argv is empty: its first entry is the program")
			     : check_program(worker, err);
	}
	return error_set(err, -EINVAL, "no worker given");
}

/* ---- The command line --------------------------------------------------- */

/* Used in two passes: with argv NULL, counts only; then writes. */
struct line {
	char **argv;
	char *text; /* space for copied strings */
	size_t count;
	size_t size; /* of all strings */
	const char *plugin_word;
};

static void put(struct line *l, const char *word)
{
	size_t size = strlen(word) + 1;
	if (l->argv) {
		l->argv[l->count] = memcpy(l->text, word, size);
		l->text += size;
	}
	l->count++;
	l->size += size;
}

static void put_number(struct line *l, const char *name, int64_t n)
{
	char digits[24];
	snprintf(digits, sizeof(digits), "%lld", (long long)n);
	put(l, name);
	put(l, digits);
}

static void put_helper(struct line *l, const struct launch_worker *worker, const char *helper)
{
	put(l, helper);
	if (worker->kind == LAUNCH_PLUGIN) {
		put(l, l->plugin_word);
		put(l, worker->plugin);
		return;
	}
	put(l, worker->kind == LAUNCH_TEMPLATE ? WORKER_COMMAND
		: worker->kind == LAUNCH_ITEMS ? WORKER_ITEMS
					       : WORKER_PROGRAM);
	for (size_t i = 0; i < worker->num_settings; i++) {
		put(l, WORKER_KEY);
		put(l, worker->settings[i].key);
	}
	if (worker->kind != LAUNCH_TEMPLATE && worker->ready_timeout_ms)
		put_number(l, WORKER_READY_MS, worker->ready_timeout_ms);
	if (worker->kind == LAUNCH_ITEMS)
		put_number(l, WORKER_IN_FLIGHT, (int64_t)worker->in_flight);
	put(l, "--");
}

static void put_all(struct line *l, const struct launch_worker *worker, const char *helper)
{
	if (worker->kind != LAUNCH_ARGV)
		put_helper(l, worker, helper);
	for (const char *const *word = worker->argv; word && *word; word++)
		put(l, *word);
}

int launch_worker_argv(const struct launch_worker *worker, bool is_local, char ***ret, struct gd_error *err)
{
	char helper[PATH_MAX] = "";
	int r = worker->kind == LAUNCH_ARGV
			? 0
			: helper_find(WORKER_HELPER, WORKER_HELPER_PATH, helper, sizeof(helper), err);
	if (r < 0)
		return r;
	bool own = is_local && worker->kind == LAUNCH_PLUGIN && trust_check_path(worker->plugin, NULL) == 0;
	const char *plugin_word = own ? WORKER_OWN : WORKER_PLUGIN;
	struct line measured = {.plugin_word = plugin_word};
	put_all(&measured, worker, helper);
	char **argv = malloc((measured.count + 1) * sizeof(*argv) + measured.size);
	if (!argv)
		return error_set(err, -ENOMEM, "not enough memory for the worker's command line");
	struct line written = {.argv = argv, .text = (char *)(argv + measured.count + 1), .plugin_word = plugin_word};
	put_all(&written, worker, helper);
	argv[written.count] = NULL;
	*ret = argv;
	return 0;
}
