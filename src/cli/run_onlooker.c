/* SPDX-License-Identifier: MIT */
#include "cli/run_onlooker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "cli/run_panel.h"
#include "cli/say.h"
#include "queue/journal/job_line.h"
#include "queue/runner/published.h"

struct run_onlooker {
	struct run *run;
	struct follow *follow;
	struct run_panel *panel; /* NULL: no panel, only lines */
	FILE *out;
	struct runner_job *running; /* running jobs of the whole queue */
	size_t num_running, capacity;
	const char **nodes; /* nodes of the GPUs, on a cluster */
	size_t nodes_capacity;
	int *positions; /* positions of the jobs' GPUs */
	size_t positions_capacity;
};

static void say_above(void *context, const char *line, size_t size)
{
	const struct runner_watch *w = context;
	w->say(w->context, line, size);
}

int run_onlooker_create(struct run *run, struct follow *f, struct run_onlooker **ret)
{
	struct run_onlooker *o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	*o = (struct run_onlooker){.run = run, .follow = f, .out = run_out(run)};
	o->panel = run->no_panel ? NULL : run_panel_create(o->out, run->quiet, &run->queue);
	if (o->panel && isatty(STDERR_FILENO))
		say_divert(say_above, (void *)(uintptr_t)run_panel_watch(o->panel));
	*ret = o;
	return 0;
}

void run_onlooker_destroy(struct run_onlooker *o)
{
	if (!o)
		return;
	say_divert(NULL, NULL);
	run_panel_destroy(o->panel);
	free(o->running);
	free(o->positions);
	free(o->nodes);
	free(o);
}

bool run_onlooker_has_panel(const struct run_onlooker *o)
{
	return o->panel;
}

void run_onlooker_changed(void *context, const struct job *job, enum job_state old)
{
	struct run_onlooker *o = context;
	if (o->panel) {
		const struct runner_watch *w = run_panel_watch(o->panel);
		w->changed(w->context, job, (int)old);
		return;
	}
	if (o->run->quiet || job->state == JOB_PENDING || job->state == JOB_HELD)
		return;
	cleanup_(text_finish) struct text t = {0};
	job_line_write(&t, job, &(struct job_line_options){.id_width = 1});
	if (!text_error(&t))
		fprintf(o->out, "%s\n", text_string(&t));
	fflush(o->out);
}

/* ---- The panel ---------------------------------------------------------------------------- */

/* Positions of the job's GPUs in the list; missing GPUs are left out. */
static size_t find_positions(
	const struct run_onlooker *o, const struct job *job, const struct gd_gpu *const *gpus, size_t count, int *ret)
{
	const struct job_attempt *a = job->attempts;
	const char *node = job->keeper && job->keeper->is_pilot ? job->keeper->machine.host : NULL;
	size_t n = 0;
	for (size_t i = 0; i < a->num_gpus; i++)
		for (size_t g = 0; g < count; g++) {
			const char *own = o->nodes[g];
			if (gpus[g]->index == a->gpus[i] && (node ? own && strcmp(own, node) == 0 : !own)) {
				ret[n++] = (int)g;
				break;
			}
		}
	return n;
}

/* Returns true on a cluster. */
static bool find_nodes(struct run_onlooker *o, const struct scheduler *s, size_t count)
{
	bool any = false;
	for (size_t i = 0; i < count; i++) {
		const struct ledger_node *node = scheduler_node_of(s, i);
		o->nodes[i] = node && node->usable && *node->name ? node->name : NULL;
		any = any || node;
	}
	return any;
}

static int find_running(struct run_onlooker *o, const struct gd_gpu *const *gpus, size_t count)
{
	const struct jobs *js = &o->follow->jobs;
	size_t left = js->counts[JOB_RUNNING], used = 0, all = 0;
	o->num_running = 0;
	if (array_reserve(o->running, &o->capacity, left) < 0)
		return -ENOMEM;
	for (size_t i = js->count; i-- > 0 && o->num_running < left;)
		if (js->by_id[i]->state == JOB_RUNNING && js->by_id[i]->attempts) {
			all += js->by_id[i]->attempts->num_gpus;
			o->running[o->num_running++] = (struct runner_job){.job = js->by_id[i], .started = true};
		}
	if (array_reserve(o->positions, &o->positions_capacity, all) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < o->num_running; i++) {
		struct runner_job *job = &o->running[i];
		job->gpus = o->positions + used;
		job->num_gpus = find_positions(o, job->job, gpus, count, o->positions + used);
		used += job->num_gpus;
	}
	return 0;
}

void run_onlooker_look(struct run_onlooker *o, bool over)
{
	if (!o->panel)
		return;
	struct jobs none;
	struct published p;
	struct scheduler *s = NULL;
	size_t count = 0;
	const struct run_own_jobs *own = &o->run->own;
	jobs_init(&none);
	if (scheduler_create(&none, &s) == 0 && o->follow->dir_fd >= 0 &&
		published_read(o->follow->dir_fd, &p, s) == 0) {
		struct runner_result result = {.completed = run_own_jobs_count(own, JOB_COMPLETED),
			.failed = run_own_jobs_count(own, JOB_FAILED),
			.cancelled = run_own_jobs_count(own, JOB_CANCELLED)};
		const struct gd_gpu *const *gpus = scheduler_gpus(s, &count);
		struct gd_gpu_list list = {.size = sizeof(list), .count = count, .gpus = gpus};
		struct runner_now now = {.gpus = &list,
			.waiting = run_own_jobs_count(own, JOB_PENDING),
			.result = &result,
			.over = over};
		if (array_reserve(o->nodes, &o->nodes_capacity, count + 1) == 0 && find_nodes(o, s, count))
			now.nodes = o->nodes;
		if (o->nodes && find_running(o, gpus, count) == 0) {
			now.running = o->running;
			now.num_running = o->num_running;
			now.num_others = o->num_running - run_own_jobs_count(own, JOB_RUNNING);
		}
		const struct runner_watch *w = run_panel_watch(o->panel);
		w->look(w->context, &now);
	}
	scheduler_destroy(s);
	jobs_finish(&none);
}
