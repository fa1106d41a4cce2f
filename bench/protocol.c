/* SPDX-License-Identifier: MIT */
/*
 * The overhead per file: with a hook in the worker, with a persistent program over the protocol (in C and in Python),
 * and with one command per file.
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpu_dispatch_launch.h"
#include "launch/file_task.h"
#include "launch/worker.h"

struct bench {
	uint64_t files;
	uint64_t sent;
	uint64_t first_ns; /* the end of the first task: setup is done */
	uint64_t last_ns;
	uint64_t ended;
};

/* ---- The worker program ------------------------------------------------- */

/* A minimal program: it parses only the id. */
static int speak(void)
{
	static char line[1 << 16];
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		const char *id = strstr(line, "\"id\":");
		if (!id)
			puts("{\"type\":\"ready\"}");
		else
			printf("{\"id\":%lld,\"ok\":true,\"duration\":1.5}\n", atoll(id + 5));
	}
	return 0;
}

static const char python[] = "import json, sys\n"
			     "for line in sys.stdin:\n"
			     "    m = json.loads(line)\n"
			     "    a = {'id': m['id'], 'ok': True} if m['type'] == 'task' else {'type': 'ready'}\n"
			     "    print(json.dumps(a), flush=True)\n";

static int nothing(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct gd_file file;
	int r = gd_file_read(task, &file, sizeof(file));
	return r < 0 ? r : gd_worker_file_seconds(w, 1.5);
}

/* ---- The dispatcher ----------------------------------------------------- */

static int generate(void *context, struct gd_feed *feed)
{
	struct bench *b = context;
	if (b->sent == b->files)
		return 0;
	char path[64];
	snprintf(path, sizeof(path), "/data/audio/recordings/%08llu.wav", (unsigned long long)b->sent++);
	const struct gd_file file = {
		.path = path, .output_dir = "/data/outputs/x", .stem = "x", .known = GD_KNOWN_SECONDS, .seconds = 1.5};
	void *to = gd_feed_reserve(feed, file_task_size(&file), NULL, NULL);
	if (!to)
		return -1;
	file_task_write(&file, to);
	return 1;
}

static int count(void *context, const struct gd_event *event)
{
	struct bench *b = context;
	b->last_ns = event->ended_ns;
	if (b->ended++ == 0)
		b->first_ns = event->ended_ns;
	return 0;
}

static int fail(void *context, const struct gd_event *event)
{
	(void)context;
	errx(1, "%s", event->message);
}

/* Microseconds for one file. */
static double measure(const struct gd_worker_ops *ops, const char *const *worker_argv, uint64_t files)
{
	struct bench b = {.files = files};
	struct gd_error error = {0};
	struct gd_dispatcher *d;
	const struct gd_options options = {
		.size = sizeof(options),
		.worker = ops,
		.worker_argv = worker_argv,
		.gpus = "sim:1",
	};
	const struct gd_callbacks callbacks = {
		.size = sizeof(callbacks),
		.context = &b,
		.on_success = count,
		.on_error = fail,
		.on_setup_fail = fail,
	};
	const struct gd_run run = {
		.size = sizeof(run), .generator = generate, .generator_context = &b, .inline_generator = true};
	if (gd_dispatcher_create(&options, &d, &error) < 0 || gd_dispatcher_run(d, &run, &callbacks, &error) < 0)
		errx(1, "%s", error.message);
	gd_dispatcher_destroy(d);
	return (double)(b.last_ns - b.first_ns) / 1e3 / (double)(files - 1);
}

static double measure_worker(enum launch_kind kind, const char *const *argv, uint64_t files)
{
	const struct launch_worker worker = {.kind = kind, .argv = argv};
	struct gd_error error = {0};
	char **worker_argv;
	if (launch_worker_argv(&worker, true, &worker_argv, &error) < 0)
		errx(1, "%s", error.message);
	double us = measure(NULL, (const char *const *)worker_argv, files);
	free(worker_argv);
	return us;
}

/* This program, and gpuq-worker of the same build in the folder above. */
static void find_helper(char *own, size_t room)
{
	char helper[4096 + 32];
	ssize_t n = readlink("/proc/self/exe", own, room - 1);
	if (n <= 0)
		err(1, "/proc/self/exe");
	own[n] = '\0';
	snprintf(helper, sizeof(helper), "%.*s/../gpuq-worker", (int)(strrchr(own, '/') - own), own);
	setenv("GPUQ_WORKER", helper, 0);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--speak") == 0)
		return speak();
	bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
	if (argc > 2 || (argc == 2 && !json))
		errx(2, "usage: protocol [--json]");
	char own[4096];
	find_helper(own, sizeof(own));
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = nothing};
	const char *const program[] = {own, "--speak", NULL};
	const char *const in_python[] = {"python3", "-c", python, NULL};
	const char *const command[] = {"true", "{file}", NULL};
	double hook = measure(&ops, NULL, 200000);
	double spoken = measure_worker(LAUNCH_PROGRAM, program, 50000);
	double by_python = measure_worker(LAUNCH_PROGRAM, in_python, 20000);
	double executed = measure_worker(LAUNCH_TEMPLATE, command, 1000);
	if (json)
		printf("{\"hook, as of a plug-in\": %.2f, \"program, in C\": %.2f, \"program, in Python\": %.2f, "
		       "\"command for each\": %.2f}\n",
			hook, spoken, by_python, executed);
	else
		printf("µs a file: hook %.2f, program in C %.2f, in Python %.2f, command for each %.2f\n", hook, spoken,
			by_python, executed);
	return 0;
}
