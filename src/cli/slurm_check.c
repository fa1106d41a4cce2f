/* SPDX-License-Identifier: MIT */
#include "cli/slurm_check.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/slurm_options.h"

#define WAIT_MS 120000

static const char *const option_names[CONFIG_KEYS] = {
	[CONFIG_SLURM] = "--slurm", [CONFIG_MAX_NODES] = "--max-nodes", [CONFIG_SLURM_ADDRESS] = "--slurm-address"};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct slurm_check *c = state->input;
	struct doctor *d = &c->doctor;
	int r = 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &d->queue;
		return 0;
	case SLURM_OPTION_JSON:
		d->json = true;
		return 0;
	case SLURM_OPTION_WAIT:
		if (units_parse_duration(arg, &c->wait_ms, &d->err) < 0)
			arguments_error(state, "--wait: %s", d->err.message);
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num != 0 || strcmp(arg, "check") != 0)
			arguments_error(state, "unknown argument '%s'; use 'gpuq slurm check'", arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no action given; use 'gpuq slurm check'");
		return 0;
	default:
		if (key < SLURM_OPTION_FIRST || key >= SLURM_OPTION_FIRST + CONFIG_KEYS)
			return ARGP_ERR_UNKNOWN;
		key -= SLURM_OPTION_FIRST;
		r = config_set(&d->queue.command_line, (enum config_key)key, option_names[key], arg, &d->err);
	}
	if (r < 0)
		arguments_error(state, "%s", d->err.message);
	return 0;
}

/* Stops after a failed part if the next parts depend on it. */
static void check(struct slurm_check *c)
{
	struct doctor *d = &c->doctor;
	d->section = "Slurm";
	if (!slurm_check_commands(c) || !slurm_check_controller(c))
		return;
	slurm_check_account(c);
	d->section = "This host";
	if (!slurm_check_place(c))
		return;
	d->section = "Job";
	if (!slurm_check_submit(c))
		return;
	slurm_check_wait(c);
	/* With one pilot at a time, no two nodes use the file system at the same time. */
	if (slurm_check_report(c) && d->queue.config.max_nodes > 1)
		slurm_check_second(c);
}

static volatile sig_atomic_t interrupted;

/* Waiting calls then fail with EINTR. */
static void on_interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

bool slurm_check_is_interrupted(void)
{
	return interrupted;
}

int slurm_check_main(int argc, char **argv)
{
	static const struct argp_child children[] = {{&queue_choice_argp, 0, NULL, 100}, {0}};
	static const struct argp argp = {slurm_options, parse, "check",
		"Run a tiny job on the cluster with the options of 'gpuq run --slurm', and report what is wrong with "
		"this cluster and what to ask its administrator for. Exits with 1 if there are problems.",
		children, NULL, NULL};
	struct slurm_check c = {
		.wait_ms = WAIT_MS, .parent_fd = -1, .dir_fd = -1, .lock_fd = -1, .peer_fd = -1, .address = {.fd = -1}};
	struct doctor *d = &c.doctor;
	command_parse(&argp, argc, argv, &c);
	d->queue.creates_here = true;
	int r = queue_choice_resolve(&d->queue, &d->err);
	if (r < 0) {
		queue_choice_finish(&d->queue);
		return command_fail(&d->err, r);
	}
	struct sigaction sa = {.sa_handler = on_interrupt};
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	check(&c);
	slurm_check_end(&c);
	int code = doctor_report(d);
	queue_choice_finish(&d->queue);
	return interrupted ? EXIT_INTERRUPTED : code;
}
