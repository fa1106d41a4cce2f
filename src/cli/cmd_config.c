/* SPDX-License-Identifier: MIT */
/* gpuq config: the effective settings, and where each comes from. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/error.h"
#include "base/json_put.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/log_dir.h"
#include "cli/queue_choice.h"
#include "queue/input/config_keys.h"

enum { OPTION_JSON = 0x200 };

struct config_command {
	struct queue_choice queue;
	bool json;
	struct gd_error err;
};

static const struct argp_option options[] = {
	{"json", OPTION_JSON, 0, 0, "Print a JSON object with a member per setting", 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct config_command *c = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &c->queue;
		return 0;
	case OPTION_JSON:
		c->json = true;
		return 0;
	case ARGP_KEY_ARG:
		arguments_error(state, "unexpected argument '%s'; settings are in a file, see gpuq.yaml(5)", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Writes the value of a setting into `value`; returns its source. */
static const char *look_up(const struct queue_choice *q, const char *log_dir, enum config_key key, struct text *value)
{
	const char *gpus = getenv("GPUQ_GPUS");
	text_clear(value);
	if (key == CONFIG_JOBS_FILE) {
		text_append_string(value, q->journal_path);
		return queue_choice_source(q);
	}
	if (key == CONFIG_GPUS && !config_has(&q->config, key)) {
		text_append_string(value, gpus && *gpus ? gpus : "auto");
		return gpus && *gpus ? "$GPUQ_GPUS" : "default";
	}
	if (key == CONFIG_LOG_DIR && !config_has(&q->config, key)) {
		text_append_string(value, log_dir);
		return "default";
	}
	config_append_value(&q->config, key, value);
	return config_has(&q->config, key) ? q->config_path : "default";
}

static void put(const struct config_command *c, enum config_key key, const struct text *value, const char *source,
	struct text *out)
{
	const char *name = config_rows[key].name;
	if (c->json) {
		json_open(out, name, '{');
		json_put_any(out, "value", text_string(value), value->length);
		json_put_any(out, "source", source, strlen(source));
		json_close(out, '}');
		return;
	}
	text_appendf(out, "%s: ", name);
	display_append(out, text_string(value), value->length, DISPLAY_ALL);
	text_append_string(out, "  # ");
	display_append(out, source, strlen(source), DISPLAY_ALL);
	text_append_char(out, '\n');
}

static int print(struct config_command *c)
{
	cleanup_(text_finish) struct text value = {0};
	cleanup_(text_finish) struct text out = {0};
	c->queue.shows = true;
	int r = queue_choice_resolve(&c->queue, &c->err);
	if (r < 0)
		return r;
	cleanup_(freep) char *log_dir = log_dir_find(&c->queue.config, c->queue.journal_path);
	if (!log_dir)
		return error_set(&c->err, -ENOMEM, "cannot print the settings: out of memory");
	if (c->json)
		json_open(&out, NULL, '{');
	for (enum config_key key = 0; key < CONFIG_KEYS; key++) {
		const char *source = look_up(&c->queue, log_dir, key, &value);
		put(c, key, &value, source, &out);
	}
	if (c->json) {
		json_close(&out, '}');
		text_append_char(&out, '\n');
	}
	if (text_error(&value) || text_error(&out))
		return error_set(&c->err, -ENOMEM, "cannot print the settings: out of memory");
	fwrite(text_string(&out), 1, out.length, stdout);
	return 0;
}

static int main_config(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {
		options, parse, "", "Print the effective settings, and where each comes from.", children, NULL, NULL};
	struct config_command c = {0};
	command_parse(&argp, argc, argv, &c);
	int r = print(&c);
	int code = r < 0 ? command_fail(&c.err, r) : EXIT_DONE;
	queue_choice_finish(&c.queue);
	return code;
}

const struct command cmd_config = {"config", "Print the settings, and where each comes from", main_config};
