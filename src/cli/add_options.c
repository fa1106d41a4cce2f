/* SPDX-License-Identifier: MIT */
/* `gpuq add`: its command line. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "cli/add_parts.h"
#include "cli/arguments.h"
#include "cli/command_words.h"
#include "cli/gpus_option.h"
#include "cli/job_argp.h"

enum {
	OPTION_HOLD = 0x200,
	OPTION_NO_START,
	OPTION_LOG_DIR,
	OPTION_ON_FINISH,
	OPTION_ON_IDLE,
	OPTION_JSON,
	OPTION_DRY_RUN,
	OPTION_PARAM,
	OPTION_PARAM_FILE,
	OPTION_ZIP,
	OPTION_ARRAY,
	OPTION_FREEZE,
	OPTION_GPUS,
};

static const struct argp_option options[] = {
	{"hold", OPTION_HOLD, 0, 0, "Hold the job until 'gpuq release'", 1},
	{"freeze", OPTION_FREEZE, 0, 0, "Run the job in a separate git worktree with the files as they are now", 1},
	{"no-start", OPTION_NO_START, 0, 0, "Do not start a runner in the background", 1},
	{"log-dir", OPTION_LOG_DIR, "DIR", 0, "Folder for the log", 1},
	{"on-finish", OPTION_ON_FINISH, "COMMAND", 0,
		"Run this command after each attempt of the job; it reads the result as JSON on standard input", 1},
	{"on-idle", OPTION_ON_IDLE, "COMMAND", 0,
		"Run this command when --idle-warn marks the job; it reads the job as JSON on standard input", 1},
	{"param", OPTION_PARAM, "NAME=VALUE[,VALUE...]", 0,
		"Add a job for each value, which replaces {NAME} in the command; several --param are combined", 2},
	{"param-file", OPTION_PARAM_FILE, "FILE", 0,
		"Add a job for each line of a CSV file, whose first line has the names", 2},
	{"zip", OPTION_ZIP, 0, 0, "Pair the values of several --param instead of combining them", 2},
	{"array", OPTION_ARRAY, "INDICES", 0,
		"Add a job for each index, with the index in GPUQ_ARRAY_INDEX: 1-10, 1-10:2, 1,3,7", 2},
	{"gpus", OPTION_GPUS, "sim:N", OPTION_HIDDEN, 0, 1},
	{"json", OPTION_JSON, 0, 0, "Print a JSON object instead of the id", 1},
	{"dry-run", OPTION_DRY_RUN, 0, 0, "Print the commands that would be added, and add nothing", 1},
	{0},
};

static int set_sweep(struct add *a, int key, const char *value)
{
	struct gd_error why = {0};
	if (key == OPTION_PARAM) {
		int r = sweep_add_param(&a->sweep, value, &why);
		return r < 0 ? error_set(&a->err, r, "--param %s", why.message) : 0;
	}
	if (key == OPTION_PARAM_FILE)
		return sweep_add_file(&a->sweep, value) < 0 ? error_set(&a->err, -ENOMEM, "out of memory") : 0;
	a->indices.count = 0;
	int r = sweep_parse_array(value, &a->indices, &why);
	return r < 0 ? error_set(&a->err, r, "--array %s", why.message) : 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct add *a = state->input;
	struct command_words words;
	int r = 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->options;
		state->child_inputs[1] = &a->queue;
		return 0;
	case OPTION_HOLD:
		a->hold = true;
		return 0;
	case OPTION_NO_START:
		a->no_start = true;
		return 0;
	case OPTION_GPUS:
		gpus_option_take(state, arg);
		return 0;
	case OPTION_FREEZE:
		a->freeze = true;
		return 0;
	case OPTION_JSON:
		a->json = true;
		return 0;
	case OPTION_DRY_RUN:
		a->dry_run = true;
		return 0;
	case OPTION_ZIP:
		a->zip = true;
		return 0;
	case OPTION_PARAM:
	case OPTION_PARAM_FILE:
	case OPTION_ARRAY:
		r = set_sweep(a, key, arg);
		break;
	case OPTION_LOG_DIR:
		r = config_set(&a->queue.command_line, CONFIG_LOG_DIR, "--log-dir", arg, &a->err);
		break;
	case OPTION_ON_IDLE:
		r = config_set(&a->queue.command_line, CONFIG_ON_IDLE, "--on-idle", arg, &a->err);
		break;
	case OPTION_ON_FINISH:
		r = config_set(&a->queue.command_line, CONFIG_ON_FINISH, "--on-finish", arg, &a->err);
		break;
	case ARGP_KEY_ARG:
		command_words_take(&words, state, options);
		a->words = words.words;
		a->num_words = words.count;
		if (a->num_words == 1 && a->words[0][strspn(a->words[0], " \t\n")] == '\0')
			argp_error(state, "the command is empty");
		return 0;
	case ARGP_KEY_END:
		r = sweep_read_files(&a->sweep, queue_choice_trust(&a->queue, true), &a->err);
		break;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no command given; usage: gpuq add [OPTION…] [--] COMMAND");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (r < 0)
		arguments_error(state, "%s", a->err.message);
	return 0;
}

static const struct argp_child children[] = {{&job_argp, 0, NULL, 0}, {&queue_choice_argp, 0, NULL, 100}, {0}};

const struct argp add_argp = {options, parse, "[--] COMMAND [ARGUMENT…]\nSCRIPT [ARGUMENT…]\n-",
	"Queue a command and print its id.\v"
	"A single word is passed to the shell as it is; of several words, each stays one argument. Options of gpuq go "
	"before the command. With -, each line of standard input is a command. A file that begins with #! is a script: "
	"a copy of it runs, with options from its #GPUQ and #SBATCH lines. With arguments, it is a script only if it "
	"has such lines or its name has no slash. --param, --param-file and --array add several jobs, which form a "
	"group: its name, such as g12, can be used instead of an id. The command runs in this directory with this environment.",
	children, NULL, NULL};
