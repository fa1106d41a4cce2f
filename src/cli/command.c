/* SPDX-License-Identifier: MIT */
#include "cli/command.h"

#include <argp.h>
#include <errno.h>
#include <stdint.h>

#include "cli/arguments.h"
#include "cli/debug.h"
#include "cli/exit_code.h"
#include "cli/say.h"

static command_argp_fn *argp_hook;

void command_set_hook(command_argp_fn *hook)
{
	argp_hook = hook;
}

void command_show(const struct argp *argp, int argc, char **argv)
{
	if (argp_hook)
		argp_hook(argp, argc, argv);
}

static void parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
	command_show(argp, argc, argv);
	arguments_parse(argp, argc, argv, flags, input);
}

void command_parse(const struct argp *argp, int argc, char **argv, void *input)
{
	parse(argp, argc, argv, 0, input);
}

void command_parse_in_order(const struct argp *argp, int argc, char **argv, void *input)
{
	parse(argp, argc, argv, ARGP_IN_ORDER, input);
}

enum { OPTION_VERBOSE = 0x1100 };

/* Omits argp's note about arguments of short options. */
static char *filter_help(int key, const char *words, void *input)
{
	(void)input;
	return key == ARGP_KEY_HELP_DUP_ARGS_NOTE ? NULL : (char *)(uintptr_t)words;
}

/* For that note, argp calls only the filter of the root argp, which argp itself creates without a filter: set one. */
static void set_help_filter(struct argp_state *state)
{
	static struct argp root;
	root = *state->root_argp;
	root.help_filter = filter_help;
	state->root_argp = &root;
}

static error_t parse_help(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key == ARGP_KEY_INIT) {
		set_help_filter(state);
		return 0;
	}
	if (key == OPTION_VERBOSE) {
		debug_turn_on();
		return 0;
	}
	if (key != 'h')
		return ARGP_ERR_UNKNOWN;
	argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
	return 0;
}

static const struct argp_option help_options[] = {
	{NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0},
	{"verbose", OPTION_VERBOSE, NULL, 0, "Show decisions as they are made ($GPUQ_DEBUG=1)", 101},
	{0},
};

const struct argp command_help_argp = {.options = help_options, .parser = parse_help};

int command_fail(const struct gd_error *err, int code)
{
	say_error(err);
	switch (code) {
	case -EINVAL:
	case -ENODEV:
	case -ENOENT:
	case -EISDIR:
	case -EPERM:
	case -ENOTDIR:
		return EXIT_USAGE;
	default:
		return EXIT_WORK_FAILED;
	}
}
