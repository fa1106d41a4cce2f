/* SPDX-License-Identifier: MIT */
/* gpuq-slurm: the parts of gpuq on a Slurm cluster. A separate program, because it links nettle. */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/exit_code.h"
#include "cli/run_slurm.h"
#include "cli/say.h"
#include "cli/slurm_check.h"
#include "cli/slurm_launch.h"
#include "cli/subprogram.h"
#include "queue/runner/allocation_end.h"
#include "slurm/agent.h"
#include "slurm/coordinator.h"
#include "slurm/guard.h"
#include "slurm/node_check.h"

/* A pilot has no lease before it is first accepted; a pilot that is not accepted exits by itself before this time. */
#define FIRST_LEASE_NS (15 * 60 * NS_PER_S)
/* Time between the end of the jobs and the end of the allocation, for the last messages. */
#define LAST_WORDS_NS (5 * NS_PER_S)
#define GRACE_NS      (10 * NS_PER_S)

/* Maximum number of --slurm options. */
#define MOST_KINDS 16

struct slurm_arguments {
	const char *journal;
	const char *gpus;
	const char *towards;
	int64_t lease_ms, silence_ms;
	bool takeover;
	const char *kinds[MOST_KINDS]; /* options of sbatch */
	size_t num_kinds;
	unsigned max_nodes;
};

/* Fractions of a second are for tests. */
static int64_t parse_seconds(const char *arg, struct argp_state *state)
{
	char *end;
	double s = strtod(arg, &end);
	if (end == arg || *end || !(s >= 0.1 && s <= 1e6))
		arguments_error(state, "'%s' is not a number of seconds between 0.1 and 1000000", arg);
	return (int64_t)(s * 1000);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct slurm_arguments *a = state->input;
	switch (key) {
	case 'j':
		a->journal = arg;
		break;
	case 'g':
		a->gpus = arg;
		break;
	case 't':
		a->towards = arg;
		break;
	case 'l':
		a->lease_ms = parse_seconds(arg, state);
		break;
	case 's':
		a->silence_ms = parse_seconds(arg, state);
		break;
	case 'S':
		if (a->num_kinds == MOST_KINDS)
			argp_error(state, "--slurm can be given at most %d times", MOST_KINDS);
		a->kinds[a->num_kinds++] = arg;
		break;
	case 'n':
		a->max_nodes = (unsigned)strtoul(arg, NULL, 10);
		if (a->max_nodes < 1 || a->max_nodes > 10000)
			argp_error(state, "--max-nodes must be between 1 and 10000");
		break;
	case 'o':
		a->takeover = true;
		break;
	case ARGP_KEY_ARG:
		arguments_error(state, "unexpected argument '%s'", arg);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* On CLOCK_BOOTTIME; 0: the allocation has no end, or its end is unknown. */
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

static void print_lines(void *context, const char *lines, size_t size)
{
	(void)context;
	fwrite(lines, 1, size, stdout);
	fflush(stdout);
}

static int coordinate(struct journal *j, const struct slurm_arguments *a, struct gd_error *err)
{
	struct coordinator *c = NULL;
	static const struct runner_watch watch = {.say = print_lines};
	struct runner_result result;
	pid_t holder = 0;
	char log_dir[PATH_MAX], program[PATH_MAX] = "";
	/* The nodes execute the same file, because they share the file system. */
	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
		return error_set(err, -errno, "cannot find this program: %s", error_words(errno));
	if (snprintf(log_dir, sizeof(log_dir), "%s/logs", j->parent_path) >= (int)sizeof(log_dir))
		return error_set(err, -ENAMETOOLONG, "the path of the log directory is too long");
	struct coordinator_options options = {.journal = j,
		.towards = a->towards ? a->towards : "localhost",
		.lease_ms = a->lease_ms,
		.silence_ms = a->silence_ms,
		.min_free_mem_mb = -1,
		.takeover = a->takeover,
		.kinds = a->kinds,
		.num_kinds = a->num_kinds,
		.program = program,
		.max_nodes = a->max_nodes,
		.order = {.log_dir = log_dir, .grace_ms = GRACE_NS / NS_PER_MS},
		.watch = &watch};
	int r = coordinator_create(&options, &c, &holder, err);
	if (r == -EBUSY)
		return error_set(err, r, "process %d already runs this queue", (int)holder);
	if (r == 0)
		r = coordinator_run(c, &result, err);
	coordinator_destroy(c);
	if (r < 0)
		return r;
	printf("%llu completed, %llu failed, %llu cancelled\n", (unsigned long long)result.completed,
		(unsigned long long)result.failed, (unsigned long long)result.cancelled);
	return result.failed || result.left_pending || result.interrupted || result.left_running ? 1 : 0;
}

static int run_coordinator(const struct slurm_arguments *a)
{
	cleanup_(journal_closep) struct journal *j = NULL;
	struct gd_error err = {0};
	int r = a->journal && *a->journal == '/' ? journal_open(a->journal, false, &j, &err)
						 : error_set(&err, -EINVAL, "--jobs-file must be an absolute path");
	if (r == 0)
		r = coordinate(j, a, &err);
	if (r < 0)
		say("%s", err.message);
	return r == 0 ? 0 : EXIT_WORK_FAILED;
}

static int run_pilot(struct slurm_arguments *a)
{
	const char *job = getenv("SLURM_JOB_ID"), *node = getenv("SLURMD_NODENAME");
	char *end = NULL, host[65] = "", dir[PATH_MAX];
	unsigned long long slurm_job = job ? strtoull(job, &end, 10) : 0;
	if (!job || !*job || *end || slurm_job == 0) {
		say("this part of gpuq is started by Slurm, but SLURM_JOB_ID is not set");
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
	/* The guard and the agent have the same deadline: whichever notices it first, the message is the same. */
	if (result.expired)
		say("exiting: %s", agent.until_ns && result.deadline_ns >= agent.until_ns ? "its time limit is reached"
											  : "the lease has ended");
	else if (result.killed)
		say("the guard of this pilot was killed");
	return result.exit_code == 0 ? 0 : EXIT_WORK_FAILED;
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {{"jobs-file", 'j', "FILE", 0, "The journal of the queue", 0},
		{"gpus", 'g', "SPEC", 0, "GPUs to use instead of those that Slurm granted", 0},
		{"towards", 't', "HOST", 0, "coordinator: a host in the network of the nodes", 0},
		{"lease", 'l', "SECONDS", 0, "coordinator: how long a pilot works without it", 0},
		{"silence", 's', "SECONDS", 0, "coordinator: after which time a pilot reconnects", 0},
		{"slurm", 'S', "OPTIONS", 0, "coordinator: submit pilots with these options of sbatch", 0},
		{"max-nodes", 'n', "N", 0, "coordinator: maximum number of pilots", 0},
		{"takeover", 'o', NULL, 0, "coordinator: start even if the last one ran on another host", 0}, {0}};
	static const struct argp argp = {options, parse, NULL, "The parts of a queue on a cluster", NULL, NULL, NULL};
	struct slurm_arguments a = {0};
	file_fill_stdio(true);
	setlocale(LC_ALL, "");
	argp_program_version = "gpuq " GD_VERSION;
	argp_err_exit_status = EXIT_USAGE;
	if (argc >= 1 && strcmp(argv[0], "gpuq run") == 0)
		return subprogram_enter("gpuq run --slurm") ? EXIT_USAGE : run_slurm_main(argc, argv);
	if (argc >= 1 && strcmp(argv[0], "gpuq slurm") == 0)
		return subprogram_enter("gpuq slurm check") ? EXIT_USAGE : slurm_check_main(argc, argv);
	/* gpuq-slurm node-check DIRECTORY HOST PORT [second] */
	const char *token = getenv(NODE_CHECK_TOKEN);
	if (argc == 6 && strcmp(argv[1], "node-check") == 0 && strcmp(argv[5], NODE_CHECK_SECOND) == 0 && token &&
		*token)
		return node_check_second(argv[2], token);
	if (argc == 5 && strcmp(argv[1], "node-check") == 0 && token && *token)
		return node_check_main(argv[2], argv[3], (uint16_t)strtoul(argv[4], NULL, 10), token);
	if (argc >= 3 && strncmp(argv[1], "launch-", 7) == 0)
		return slurm_launch_main(argc, argv);
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts(argp_program_version);
		return EXIT_DONE;
	}
	bool pilot = argc >= 2 && strcmp(argv[1], "pilot") == 0;
	if (!pilot && (argc < 2 || strcmp(argv[1], "coordinator") != 0)) {
		say("this program is part of gpuq and is started by it");
		return EXIT_USAGE;
	}
	arguments_parse(&argp, argc - 1, argv + 1, 0, &a);
	return pilot ? run_pilot(&a) : run_coordinator(&a);
}
