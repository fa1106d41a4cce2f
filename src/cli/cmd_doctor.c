/* SPDX-License-Identifier: MIT */
/* gpuq doctor: checks for problems, as a report for users and for bug reports. */
#include <errno.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/doctor_parts.h"

enum { OPTION_JSON = 0x200, OPTION_GPUS };

static const struct argp_option options[] = {
	{"json", OPTION_JSON, 0, 0, "Print a JSON object with an array of findings", 1},
	{"gpus", OPTION_GPUS, "SPEC", 0, "Which GPUs to check (auto)", 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct doctor *d = state->input;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &d->queue;
		return 0;
	case OPTION_JSON:
		d->json = true;
		return 0;
	case OPTION_GPUS:
		if (config_set(&d->queue.command_line, CONFIG_GPUS, "--gpus", arg, &d->err) < 0)
			arguments_error(state, "%s", d->err.message);
		return 0;
	case ARGP_KEY_ARG:
		arguments_error(state, "unexpected argument '%s'; use 'gpuq why' to ask about a job", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- The command -------------------------------------------------------------------------- */

static void check(struct doctor *d)
{
	static const struct {
		const char *section;
		void (*check)(struct doctor *d);
	} checks[] = {
		{"Installation", doctor_check_installation},
		{"System", doctor_check_system},
		{"Settings", doctor_check_settings},
		{"GPUs", doctor_check_gpus},
		{"Limits", doctor_check_limits},
		{"File system", doctor_check_file_system},
		{"Queue", doctor_check_queue},
		{"Claims", doctor_check_claims},
	};
	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		d->section = checks[i].section;
		checks[i].check(d);
	}
}

static int main_doctor(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {options, parse, "",
		"Check the installation, GPUs, limits, file system and queue, and print a summary for bug reports. Exits with 1 "
		"if there are problems.",
		children, NULL, NULL};
	struct doctor d = {0};
	command_parse(&argp, argc, argv, &d);
	check(&d);
	int code = doctor_report(&d);
	queue_choice_finish(&d.queue);
	return code;
}

const struct command cmd_doctor = {"doctor", "Check the installation, GPUs and queue for problems", main_doctor};
