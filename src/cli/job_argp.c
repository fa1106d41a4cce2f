/* SPDX-License-Identifier: MIT */
#include "cli/job_argp.h"

#include <errno.h>

#include "base/date.h"
#include "base/error.h"
#include "cli/arguments.h"

#define FIRST 0x400

static const struct argp_option options[] = {
	{"mem", FIRST + JOB_OPTION_MEM, "SIZE", 0, "GPU memory that the job needs, on each GPU: 12G, 800M", 1},
	{"num-gpus", FIRST + JOB_OPTION_NUM_GPUS, "N", 0, "Number of GPUs; 0 for a job without a GPU", 1},
	{"gpu", FIRST + JOB_OPTION_GPU, "GPU[,GPU...]", 0, "Run the job on this GPU: a number or a UUID", 1},
	{"exclusive", FIRST + JOB_OPTION_EXCLUSIVE, 0, 0, "Do not share the job's GPUs with other jobs", 1},
	{"host-mem", FIRST + JOB_OPTION_HOST_MEM, "SIZE", 0, "Main memory that the job needs: 32G", 1},
	{"cpus", FIRST + JOB_OPTION_CPUS, "N", 0, "Number of CPUs that the job needs", 1},
	{"after", FIRST + JOB_OPTION_AFTER, "ID[,ID...]", 0, "Start when these jobs have completed", 1},
	{"after-any", FIRST + JOB_OPTION_AFTER_ANY, "ID[,ID...]", 0,
		"Start when these jobs have ended, even if they failed", 1},
	{"begin", FIRST + JOB_OPTION_BEGIN, "TIME", 0, "Do not start before this time: 22:00, +2h, '2026-12-24 22:00'",
		1},
	{"tag", FIRST + JOB_OPTION_TAG, "TAG[,TAG...]", 0, "Tags of the job; tag:TAG selects all jobs with a tag", 1},
	{"name", FIRST + JOB_OPTION_NAME, "NAME", 0, "Name of the job", 1},
	{"timeout", FIRST + JOB_OPTION_TIMEOUT, "TIME", 0, "Time limit: 90s, 2h, 1d", 1},
	{"signal", FIRST + JOB_OPTION_SIGNAL, "SIGNAL[@TIME]", 0,
		"Send this signal before the time limit; USR1@60: 60 seconds before", 1},
	{"requeue-on", FIRST + JOB_OPTION_REQUEUE_ON, "CODE", 0, "Run the job again when it exits with this code", 1},
	{"idle-warn", FIRST + JOB_OPTION_IDLE_WARN, "TIME", 0,
		"Mark the job, and run --on-idle, if one of its GPUs is idle for this long, such as 15m; 0: never", 1},
	{"retries", FIRST + JOB_OPTION_RETRIES, "N", 0, "Number of retries if the job fails", 1},
	{"priority", FIRST + JOB_OPTION_PRIORITY, "N", 0, "Priority; higher starts first (0)", 1},
	{0},
};

static error_t parse_with(int key, char *arg, struct argp_state *state, bool may_clear)
{
	struct job_options *o = state->input;
	struct gd_error why;
	if (key < FIRST || key >= FIRST + JOB_OPTIONS)
		return ARGP_ERR_UNKNOWN;
	enum job_option option = (enum job_option)(key - FIRST);
	bool clear = may_clear && arg && !*arg;
	int r = clear ? job_options_clear(o, option, &why) : job_options_set(o, option, arg ? arg : "yes", &why);
	/* An error only on the command line: a commands file may be read again later. */
	if (r == 0 && option == JOB_OPTION_BEGIN && !clear && o->begin_ms < date_now_ms())
		r = error_set(&why, -EINVAL, "'%s' is in the past", arg);
	for (const struct argp_option *row = options; r < 0 && row->name; row++)
		if (row->key == key)
			arguments_error(state, "--%s: %s", row->name, why.message);
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	return parse_with(key, arg, state, false);
}

static error_t parse_edit(int key, char *arg, struct argp_state *state)
{
	return parse_with(key, arg, state, true);
}

const struct argp job_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};
const struct argp job_edit_argp = {options, parse_edit, NULL, NULL, NULL, NULL, NULL};
