/* SPDX-License-Identifier: MIT */
/* gpuq-slurm: what gpuq does on a Slurm cluster. A program of its own, for it links nettle. */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/units.h"
#include "cli/exit_code.h"
#include "cli/say.h"
#include "queue/runner/allocation_end.h"
#include "slurm/agent.h"
#include "slurm/guard.h"

/* Nobody has a lease before the first welcome; a pilot that is not welcomed leaves by itself before this. */
#define FIRST_LEASE_NS (15 * 60 * NS_PER_S)
/* From the end of the jobs to the end of the allocation: for the last messages. */
#define LAST_WORDS_NS (5 * NS_PER_S)
#define GRACE_NS      (10 * NS_PER_S)

struct pilot_arguments {
	const char *journal;
	const char *gpus;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct pilot_arguments *a = state->input;
	switch (key) {
	case 'j':
		a->journal = arg;
		break;
	case 'g':
		a->gpus = arg;
		break;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* On CLOCK_BOOTTIME; 0: the allocation has no end, or it is not known. */
static uint64_t find_end(void)
{
	char whose[64];
	int64_t end_ms = allocation_end_get(whose, sizeof(whose)), left_ms = end_ms - date_now_ms();
	uint64_t margin = GRACE_NS + LAST_WORDS_NS;
	if (end_ms == 0)
		return 0;
	uint64_t left = left_ms > 0 ? (uint64_t)left_ms * NS_PER_MS : 0;
	if (left < 4 * margin)
		margin = left / 4;
	return guard_now_ns() + left - margin;
}

static int run_pilot(struct pilot_arguments *a)
{
	const char *job = getenv("SLURM_JOB_ID"), *node = getenv("SLURMD_NODENAME");
	char *end = NULL, host[65] = "", dir[PATH_MAX];
	unsigned long long slurm_job = job ? strtoull(job, &end, 10) : 0;
	if (!job || !*job || *end || slurm_job == 0) {
		say("this is a part of gpuq that Slurm starts: SLURM_JOB_ID is not set");
		return EXIT_USAGE;
	}
	if (!a->journal || *a->journal != '/' || strlen(a->journal) + 3 > sizeof(dir)) {
		say("--jobs-file must be the absolute path of a journal");
		return EXIT_USAGE;
	}
	gethostname(host, sizeof(host) - 1);
	snprintf(dir, sizeof(dir), "%.*s.d", PATH_MAX - 4, a->journal);
	char *node_name = strdup(node && *node ? node : host);
	struct agent_options agent = {.queue_dir = dir,
		.slurm_job = slurm_job,
		.node = node_name,
		.gpus = a->gpus,
		.until_ns = find_end(),
		.grace_ns = GRACE_NS};
	struct guard_options guard = {.first_ns = guard_now_ns() + FIRST_LEASE_NS,
		.until_ns = agent.until_ns ? agent.until_ns + GRACE_NS : 0,
		.agent = agent_main,
		.context = &agent};
	struct guard_result result;
	struct gd_error err = {0};
	int r = node_name ? guard_run(&guard, &result, &err) : -ENOMEM;
	free(node_name);
	if (r < 0) {
		say("%s", err.message);
		return EXIT_WORK_FAILED;
	}
	if (result.killed)
		say("the guard of this pilot was killed: its lease has ended");
	return result.exit_code == 0 ? 0 : EXIT_WORK_FAILED;
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {{"jobs-file", 'j', "FILE", 0, "The journal of the queue", 0},
		{"gpus", 'g', "SPEC", 0, "GPUs to use, in place of those that Slurm granted", 0}, {0}};
	static const struct argp argp = {
		options, parse, NULL, "The agent of a queue on a node of a cluster", NULL, NULL, NULL};
	struct pilot_arguments a = {0};
	if (argc < 2 || strcmp(argv[1], "pilot") != 0) {
		say("this program is a part of gpuq, which executes it");
		return EXIT_USAGE;
	}
	argp_err_exit_status = EXIT_USAGE;
	int r = argp_parse(&argp, argc - 1, argv + 1, 0, NULL, &a);
	return r ? EXIT_USAGE : run_pilot(&a);
}
