/* SPDX-License-Identifier: MIT */
/* `gpuq exec` and `gpuq shell`: their command lines. */
#include <errno.h>

#include "base/error.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/exec_parts.h"
#include "cli/gpus_option.h"

enum { OPTION_NO_WAIT = 0x200, OPTION_WAIT_TIMEOUT, OPTION_GPUS, OPTION_FIRST };

static const struct argp_option options[] = {
	{"mem", OPTION_FIRST + JOB_OPTION_MEM, "SIZE", 0, "GPU memory that the job needs, on each GPU: 12G, 800M", 1},
	{"num-gpus", OPTION_FIRST + JOB_OPTION_NUM_GPUS, "N", 0, "Number of GPUs; 0 for a job without a GPU", 1},
	{"gpu", OPTION_FIRST + JOB_OPTION_GPU, "GPU[,GPU...]", 0, "Run the job on this GPU: a number or a UUID", 1},
	{"exclusive", OPTION_FIRST + JOB_OPTION_EXCLUSIVE, 0, 0, "Do not share the job's GPUs with other jobs", 1},
	{"host-mem", OPTION_FIRST + JOB_OPTION_HOST_MEM, "SIZE", 0, "Main memory that the job needs: 32G", 1},
	{"cpus", OPTION_FIRST + JOB_OPTION_CPUS, "N", 0, "Number of CPUs that the job needs", 1},
	{"name", OPTION_FIRST + JOB_OPTION_NAME, "NAME", 0, "Name of the job", 1},
	{"timeout", OPTION_FIRST + JOB_OPTION_TIMEOUT, "TIME", 0, "Time limit: 90s, 2h, 1d", 1},
	{"priority", OPTION_FIRST + JOB_OPTION_PRIORITY, "N", 0, "Priority; higher starts first (0)", 1},
	{"no-wait", OPTION_NO_WAIT, 0, 0, "Exit with 125 if no GPU is free now", 1},
	{"idle-warn", OPTION_FIRST + JOB_OPTION_IDLE_WARN, "TIME", 0,
		"Mark the job if one of its GPUs is idle for this long, such as 15m; 0: never", 1},
	{"wait-timeout", OPTION_WAIT_TIMEOUT, "TIME", 0,
		"Exit with 125 if the job has not started after this time: 90s, 2h, 1d", 1},
	{"gpus", OPTION_GPUS, "sim:N", OPTION_HIDDEN, 0, 1},
	{"quiet", 'q', 0, 0, "Do not print what the job waits for", 1},
	{0},
};

/* Prefixes the error with the option's name: "--mem: …". */
static int set_option(struct exec *e, int key, const char *value)
{
	struct gd_error why;
	int r = key == OPTION_WAIT_TIMEOUT ? units_parse_duration(value, &e->wait_ms, &why)
					   : job_options_set(&e->options, (enum job_option)(key - OPTION_FIRST),
						     value ? value : "yes", &why);
	for (const struct argp_option *o = options; r < 0 && o->name; o++)
		if (o->key == key)
			return error_set(&e->err, r, "--%s: %s", o->name, why.message);
	return r;
}

static void take_word(struct exec *e, struct argp_state *state)
{
	if (e->shell)
		argp_error(state, "unexpected command; use 'gpuq exec' to run a command");
	command_words_take(&e->command, state, options);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct exec *e = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &e->queue;
		return 0;
	case OPTION_NO_WAIT:
		e->no_wait = true;
		return 0;
	case OPTION_GPUS:
		gpus_option_take(state, arg);
		return 0;
	case 'q':
		e->quiet = e->notice.quiet = true;
		return 0;
	case ARGP_KEY_ARG:
		take_word(e, state);
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!e->shell)
			argp_error(state, "no command given; usage: gpuq exec [OPTION…] [--] COMMAND");
		return 0;
	default:
		break;
	}
	if (key != OPTION_WAIT_TIMEOUT && (key < OPTION_FIRST || key >= OPTION_FIRST + JOB_OPTIONS))
		return ARGP_ERR_UNKNOWN;
	if (set_option(e, key, arg) < 0)
		arguments_error(state, "%s", e->err.message);
	return 0;
}

static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};

const struct argp exec_argp = {options, parse, "[--] COMMAND [ARGUMENT…]",
	"Wait for a GPU with enough free memory, run a command here, and release the GPU.\v"
	"The command runs in this terminal and directory, with this environment; CUDA_VISIBLE_DEVICES and GPUQ_GPU "
	"contain its GPU. The exit code is that of the command; 128 + N if signal N ended it; 125 if gpuq itself "
	"failed; 126 if the command cannot be executed; 127 if it cannot be found.",
	children, NULL, NULL};

const struct argp exec_shell_argp = {options, parse, NULL,
	"Wait for a GPU with enough free memory and start a shell on it. Exiting the shell releases the GPU.\v"
	"The shell is $SHELL. The exit code is that of the shell; 125 if gpuq itself failed.",
	children, NULL, NULL};
