/* SPDX-License-Identifier: MIT */
#include "cli/run_slurm.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/line_output.h"
#include "cli/run_panel.h"
#include "cli/run_parts.h"
#include "queue/journal/job_line.h"
#include "slurm/coordinator.h"
#include "slurm/node_address.h"

/* How long to wait until the next part of the last lines can be written: their reader may be slow. */
#define LAST_WORDS_MS 1000

struct slurm_run {
	struct run *run;
	struct coordinator *coordinator;
	struct runner_watch watch;
	struct line_output lines;
	const char *kinds[RUN_MOST_KINDS]; /* kinds of pilots: options of sbatch, in `lines_of_kinds` */
	size_t num_kinds;
	char *lines_of_kinds;
	char towards[256];
	char program[PATH_MAX];
};

/* ---- Messages for the user -------------------------------------------------------------- */

static void print_lines(void *context, const char *lines, size_t size)
{
	struct slurm_run *s = context;
	FILE *out = run_out(s->run);
	fflush(out);
	line_output_add(&s->lines, fileno(out), lines, size);
}

static void print_job(void *context, const struct job *job, int old)
{
	struct slurm_run *s = context;
	(void)old;
	if (s->run->quiet || job->state == JOB_PENDING || job->state == JOB_HELD)
		return;
	cleanup_(text_finish) struct text t = {0};
	job_line_write(&t, job, &(struct job_line_options){.id_width = 1});
	text_append_char(&t, '\n');
	if (!text_error(&t))
		print_lines(s, text_string(&t), t.length);
}

static bool wait_for_reader(void *context, int fd)
{
	struct pollfd p = {fd, POLLOUT, 0};
	(void)context;
	return poll(&p, 1, LAST_WORDS_MS) > 0;
}

/* ---- The coordinator -------------------------------------------------------------------- */

static void fill_options(struct slurm_run *s, struct journal *j, struct coordinator_options *o)
{
	struct run *run = s->run;
	const struct config *c = &run->queue.config;
	*o = (struct coordinator_options){.journal = j,
		.towards = s->towards,
		.lease_ms = (int64_t)c->slurm_lease_ms,
		.silence_ms = (int64_t)c->slurm_silence_ms,
		.min_free_mem_mb = config_min_free_mem_mb(c),
		.jobs_per_gpu = (int)c->jobs_per_gpu,
		.on_finish = c->on_finish,
		.takeover = run->takeover,
		.kinds = s->kinds,
		.num_kinds = s->num_kinds,
		.program = s->program,
		.max_nodes = (unsigned)c->max_nodes,
		.order = run_order_defaults(run),
		.linger_ms = c->keep ? -1 : (int64_t)run->linger_ms,
		.max_failures = (int)c->max_failures,
		.watch = &s->watch,
		.on_ready = run_on_ready,
		.context = run};
}

static void destroy(void *engine)
{
	struct slurm_run *s = engine;
	if (!s)
		return;
	coordinator_destroy(s->coordinator);
	text_finish(&s->lines.waiting);
	free(s->lines_of_kinds);
	free(s);
}

static int find_towards(struct slurm_run *s, const struct journal *j)
{
	const char *given = s->run->queue.config.slurm_address;
	if (!given)
		return node_address_find(j->dir_fd, s->towards, sizeof(s->towards), &s->run->err);
	if (snprintf(s->towards, sizeof(s->towards), "%s", given) >= (int)sizeof(s->towards))
		return error_set(&s->run->err, -EINVAL, "--slurm-address: the name is too long");
	return 0;
}

static int split_kinds(struct slurm_run *s)
{
	s->lines_of_kinds = strdup(s->run->queue.config.slurm);
	if (!s->lines_of_kinds)
		return error_set(&s->run->err, -ENOMEM, "cannot start the coordinator: out of memory");
	for (char *rest = s->lines_of_kinds, *line; s->num_kinds < RUN_MOST_KINDS && (line = strsep(&rest, "\n"));)
		if (*line)
			s->kinds[s->num_kinds++] = line;
	return 0;
}

static int create(struct run *run, struct journal *j, void **ret, pid_t *ret_holder)
{
	struct coordinator_options o;
	struct slurm_run *s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(&run->err, -ENOMEM, "cannot start the coordinator: out of memory");
	s->run = run;
	s->watch = (struct runner_watch){.context = s, .say = print_lines, .changed = print_job};
	/* The same file on the nodes, which share the file system or have gpuq installed in the same place. */
	int r = readlink("/proc/self/exe", s->program, sizeof(s->program) - 1) < 0
			? error_set(&run->err, -errno, "cannot find this program: %s", error_words(errno))
			: split_kinds(s);
	if (r == 0)
		r = find_towards(s, j);
	if (r == 0) {
		fill_options(s, j, &o);
		r = coordinator_create(&o, &s->coordinator, ret_holder, &run->err);
	}
	if (r < 0) {
		destroy(s);
		return r;
	}
	*ret = s;
	return 0;
}

static int run_shown(struct run *run, void *engine, struct runner_result *ret)
{
	struct slurm_run *s = engine;
	FILE *out = run_out(run);
	struct run_panel *panel =
		run->no_panel || run->linger_ms ? NULL : run_panel_create(out, run->quiet, &run->queue);
	/* The coordinator has a pointer to s->watch. */
	if (panel)
		s->watch = *run_panel_watch(panel);
	int r = coordinator_run(s->coordinator, ret, &run->err);
	run_panel_destroy(panel);
	line_output_flush(&s->lines, fileno(out), wait_for_reader, NULL);
	return r;
}

int run_slurm_main(int argc, char **argv)
{
	static const struct run_engine engine = {create, run_shown, destroy, true};
	return run_main(argc, argv, &engine);
}
