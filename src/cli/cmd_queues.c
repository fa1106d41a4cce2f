/* SPDX-License-Identifier: MIT */
/* gpuq queues: lists this user's queues on this machine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/table.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/queue_choice.h"
#include "cli/queue_place.h"
#include "cli/say.h"
#include "queue/journal/follow.h"
#include "queue/journal/queue_registry.h"

enum { OPTION_JSON = 0x200 };

struct queues {
	bool json;
	struct queue_registry registry;
	char *personal; /* the path of the personal queue; NULL: unknown */
	struct text out;
	struct table table;
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"json", OPTION_JSON, 0, 0, "Print a JSON array of objects", 1},
	{0},
};

static const struct table_column columns[] = {
	{"RUNNER", .right = false},
	{"RUNNING", .right = true},
	{"PENDING", .right = true},
	{"HELD", .right = true},
	{"UNKNOWN", .right = true},
	{"COMPLETED", .right = true},
	{"FAILED", .right = true},
	{"CANCELLED", .right = true},
	{"QUEUE"},
};
static const enum job_state column_states[] = {
	JOB_RUNNING, JOB_PENDING, JOB_HELD, JOB_UNKNOWN, JOB_COMPLETED, JOB_FAILED, JOB_CANCELLED};
#define NUM_COLUMN_STATES (sizeof(column_states) / sizeof(*column_states))

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct queues *q = state->input;
	switch (key) {
	case OPTION_JSON:
		q->json = true;
		return 0;
	case ARGP_KEY_ARG:
		arguments_error(state, "unexpected argument '%s'; 'gpuq status --jobs-file FILE' shows one queue", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void put_object(struct queues *q, const char *path, const struct follow *f, const struct gd_error *why)
{
	struct text *t = &q->out;
	pid_t runner = f ? follow_runner(f) : 0;
	bool hidden = f && runner == 0 && follow_runner_is_hidden(f);
	json_open(t, NULL, '{');
	json_put_any(t, "queue", path, strlen(path));
	json_put_any(t, "directory", path, (size_t)(strrchr(path, '/') - path));
	json_put_bool(t, "personal", q->personal && strcmp(q->personal, path) == 0);
	if (hidden)
		json_put_null(t, "has_runner");
	else
		json_put_bool(t, "has_runner", runner != 0);
	if (runner > 0)
		json_put_int(t, "runner_pid", runner);
	else
		json_put_null(t, "runner_pid");
	json_open(t, "jobs", '{');
	for (size_t i = 0; f && i < NUM_COLUMN_STATES; i++)
		json_put_int(t, job_state_name(column_states[i]), (int64_t)f->jobs.counts[column_states[i]]);
	json_close(t, '}');
	if (why)
		json_put_string(t, "error", why->message);
	else
		json_put_null(t, "error");
	json_close(t, '}');
}

static void put_row(struct queues *q, const char *path, const struct follow *f)
{
	struct table *t = &q->table;
	pid_t runner = follow_runner(f);
	if (runner > 0)
		table_cellf(t, TERMINAL_NONE, "PID %d", (int)runner);
	else
		table_cell(t, TERMINAL_NONE,
			runner                       ? "another machine"
			: follow_runner_is_hidden(f) ? "hidden"
						     : "none");
	for (size_t i = 0; i < NUM_COLUMN_STATES; i++) {
		enum job_state state = column_states[i];
		size_t n = f->jobs.counts[state];
		if (n == 0 && (state == JOB_HELD || state == JOB_UNKNOWN || state == JOB_CANCELLED))
			table_cell(t, TERMINAL_NONE, "-");
		else
			table_cellf(t, n && state == JOB_FAILED ? TERMINAL_RED : TERMINAL_NONE, "%zu", n);
	}
	bool personal = q->personal && strcmp(q->personal, path) == 0;
	table_cellf(t, TERMINAL_NONE, "%s%s", path, personal ? " (personal)" : "");
}

static int show(struct queues *q, const char *path)
{
	struct follow f;
	struct gd_error why = {0};
	queue_limit_cost();
	int r = follow_open(path, false, &f, &why);
	if (q->json)
		put_object(q, path, r < 0 ? NULL : &f, r < 0 ? &why : NULL);
	else if (r < 0)
		say_error(&why);
	else
		put_row(q, path, &f);
	if (r == 0)
		follow_close(&f);
	return r;
}

static int queues(struct queues *q)
{
	int code = EXIT_DONE;
	int r = queue_registry_list(&q->registry, NULL, &q->err);
	if (r < 0)
		return r;
	cleanup_(freep) char *personal = NULL;
	if (queue_place_personal(false, &personal, NULL) == 0)
		q->personal = realpath(personal, NULL);
	if (q->json)
		json_open(&q->out, NULL, '[');
	for (size_t i = 0; i < q->registry.count; i++)
		if (show(q, q->registry.paths[i]) < 0)
			code = EXIT_WORK_FAILED;
	if (q->json)
		json_close(&q->out, ']');
	if (q->json)
		text_append_char(&q->out, '\n');
	else if (q->registry.count == 0)
		say("no queues yet; 'gpuq add' creates one");
	else if (table_print(&q->table, isatty(STDOUT_FILENO) ? terminal_width() : SIZE_MAX, terminal_has_color(),
			 &q->out) < 0)
		return error_set(&q->err, -ENOMEM, "cannot list the queues: out of memory");
	r = text_error(&q->out) ? -ENOMEM : file_write_all(STDOUT_FILENO, text_string(&q->out), q->out.length);
	return r < 0 ? error_set(&q->err, r, "cannot write the output: %s", error_words(r)) : code;
}

static int main_queues(int argc, char **argv)
{
	static const struct argp_child children[] = {{&command_help_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {options, parse, "",
		"List your queues on this machine, with their runners and the number of jobs in each state.", children,
		NULL, NULL};
	struct queues q = {.table = {.columns = columns, .num_columns = sizeof(columns) / sizeof(*columns)}};
	command_parse(&argp, argc, argv, &q);
	int r = queues(&q);
	int code = r < 0 ? command_fail(&q.err, r) : r;
	queue_registry_finish(&q.registry);
	table_finish(&q.table);
	text_finish(&q.out);
	free(q.personal);
	return code;
}

const struct command cmd_queues = {"queues", "List your queues on this machine", main_queues};
