/* SPDX-License-Identifier: MIT */
/* The user's side of a coordinator: Ctrl-C and other signals, messages, and the watcher. */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/text.h"
#include "base/units.h"
#include "slurm/coordinating.h"

/* This many interruptions in a row are probably not a coincidence. */
#define MANY_INTERRUPTIONS 3

void coordinating_say(const struct coordinator *c, const char *words)
{
	const struct runner_watch *w = c->options.watch;
	if (!*words || !w || !w->say)
		return;
	cleanup_(text_finish) struct text t = {0};
	text_appendf(&t, "gpuq: %s\n", words);
	if (!text_error(&t))
		w->say(w->context, text_string(&t), t.length);
}

static void say(const struct coordinator *c, const char *format, ...) GD_PRINTF(2, 3);
static void say(const struct coordinator *c, const char *format, ...)
{
	char words[256];
	va_list args;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	coordinating_say(c, words);
}

void coordinating_say_joined(const struct coordinator *c, const struct coordinator_action *ready)
{
	char left[UNITS_ROOM];
	say(c, "node %s joined with %zu GPU%s%s%s", ready->node, ready->num_gpus, ready->num_gpus == 1 ? "" : "s",
		ready->remaining_ms < 0 ? "" : ", time left: ",
		ready->remaining_ms < 0 ? "" : units_format_duration((uint64_t)ready->remaining_ms, left));
}

void coordinating_say_interrupted(const struct coordinator *c, const struct job *job)
{
	unsigned times = 0;
	for (const struct job_attempt *a = job->attempts; a && a->interrupted; a = a->earlier)
		times++;
	if (times == MANY_INTERRUPTIONS)
		say(c, "job %llu was interrupted %u times in a row: the time limit of its pilots (--time) may be too short",
			(unsigned long long)job->id, times);
}

void coordinating_say_back(const struct coordinator *c, const struct coordinator_action *ready)
{
	say(c, "pilot %s on %s is back", ready->pilot, ready->node);
}

static bool is_on_pilot(const struct job *job)
{
	return job->state == JOB_RUNNING && job->keeper && job->keeper->is_pilot;
}

size_t coordinating_num_running(const struct coordinator *c)
{
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	size_t n = 0;
	for (size_t i = 0; js->counts[JOB_RUNNING] && i < js->count; i++)
		n += is_on_pilot(js->by_id[i]);
	return n;
}

/* Search from the end: jobs that were added last usually end last. */
bool coordinating_has_running(const struct coordinator *c)
{
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	for (size_t i = js->counts[JOB_RUNNING] ? js->count : 0; i > 0; i--)
		if (is_on_pilot(js->by_id[i - 1]))
			return true;
	return false;
}

/* ---- The watcher ------------------------------------------------------------------------ */

/* Buffers for one report to the watcher. */
struct watched {
	struct runner_job *jobs;
	const char **nodes;
	int *positions;
};

static void watched_finish(struct watched *w)
{
	free(w->jobs);
	free(w->nodes);
	free(w->positions);
}

/* The positions of the GPUs of a job, at most FRAME_MAX_GPUS. */
static size_t find_positions(const struct coordinator *c, const struct job *job, int *ret)
{
	int number = cluster_nodes_find(&c->nodes, job->keeper->name);
	const struct cluster_node *node = number < 0 ? NULL : &c->nodes.nodes[number];
	size_t n = 0;
	for (size_t i = 0; node && i < job->attempts->num_gpus; i++)
		for (size_t g = node->first_gpu; g < node->first_gpu + node->num_gpus; g++)
			if (c->nodes.gpus[g].index == job->attempts->gpus[i] && n < FRAME_MAX_GPUS) {
				ret[n++] = (int)g;
				break;
			}
	return n;
}

static size_t fill_running(const struct coordinator *c, size_t room, struct watched *w)
{
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	size_t n = 0, used = 0;
	for (size_t i = 0; n < room && i < js->count; i++) {
		const struct job *job = js->by_id[i];
		if (!is_on_pilot(job))
			continue;
		size_t gpus = find_positions(c, job, w->positions + used);
		w->jobs[n++] = (struct runner_job){job, w->positions + used, gpus, true};
		used += gpus;
	}
	return n;
}

static void look(struct coordinator *c, bool over)
{
	const struct runner_watch *watch = c->options.watch;
	size_t room = coordinating_num_running(c), gpus = c->nodes.num_gpus;
	if (!watch || !watch->look)
		return;
	cleanup_(watched_finish) struct watched w = {.jobs = calloc(room + 1, sizeof(*w.jobs)),
		.nodes = calloc(gpus + 1, sizeof(*w.nodes)),
		.positions = calloc(room * FRAME_MAX_GPUS + 1, sizeof(*w.positions))};
	if (!w.jobs || !w.nodes || !w.positions)
		return;
	for (size_t i = 0; i < gpus; i++)
		w.nodes[i] =
			c->nodes.nodes[c->nodes.gpu_nodes[i]].gone ? NULL : c->nodes.ledger[c->nodes.gpu_nodes[i]].name;
	struct gd_gpu_list list = {.size = sizeof(list), .count = gpus, .gpus = c->nodes.gpu_list};
	struct runner_now now = {.gpus = &list,
		.nodes = w.nodes,
		.running = w.jobs,
		.num_running = fill_running(c, room, &w),
		.waiting = scheduler_num_waiting(c->scheduler) + scheduler_num_blocked(c->scheduler),
		.result = &c->result,
		.interrupts = c->interrupts,
		.over = over};
	watch->look(watch->context, &now);
}

static void on_look(void *context, uint32_t events)
{
	struct coordinator *c = context;
	(void)events;
	look(c, false);
	loop_set_deadline(c->look, clock_now_ns() + (uint64_t)c->options.watch->period_ms * NS_PER_MS);
}

int coordinating_watch_begin(struct coordinator *c)
{
	if (!c->options.watch || !c->options.watch->look)
		return 0;
	int e = loop_add_timer(c->loop, on_look, c, &c->look);
	if (e == 0)
		on_look(c, 0);
	return e;
}

void coordinating_watch_end(struct coordinator *c)
{
	look(c, true);
}

/* ---- Signals ---------------------------------------------------------------------------- */

static void end_jobs(struct coordinator *c)
{
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	for (size_t i = 0; i < js->count; i++)
		if (is_on_pilot(js->by_id[i]))
			coordinating_cancel(c, js->by_id[i]);
}

static void on_interrupt(struct coordinator *c)
{
	size_t running = coordinating_num_running(c);
	c->interrupts++;
	c->result.interrupted = true;
	if (c->interrupts == 1 && running > 0)
		say(c, "no new jobs start; waiting for %zu running job%s; Ctrl-C again ends them", running,
			running == 1 ? "" : "s");
	if (c->interrupts == 2 && running > 0)
		say(c, "ending %zu running job%s; Ctrl-C again kills them", running, running == 1 ? "" : "s");
	if (c->interrupts == 3 && running > 0)
		say(c, "killing %zu running job%s; Ctrl-C again exits without waiting for nodes", running,
			running == 1 ? "" : "s");
	if (c->interrupts == 2 || c->interrupts == 3)
		end_jobs(c);
	else if (c->interrupts > 3)
		c->leaving = true;
}

/* The terminal is gone: continue without it. */
static void on_hangup(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

void coordinating_on_signal(void *context, uint32_t events)
{
	struct coordinator *c = context;
	struct signalfd_siginfo info;
	(void)events;
	while (read(c->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGTERM)
			c->leaving = true;
		else if (info.ssi_signo == SIGHUP)
			on_hangup();
		else
			on_interrupt(c);
	}
}

/* ---- The end ---------------------------------------------------------------------------- */

void coordinating_count_left(struct coordinator *c)
{
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	struct runner_result *r = &c->result;
	size_t waiting = scheduler_num_waiting(c->scheduler) + scheduler_num_blocked(c->scheduler) +
			 scheduler_num_sleeping(c->scheduler);
	r->left_running = c->leaving && coordinating_has_running(c);
	r->interrupted = r->interrupted || (c->leaving && waiting > 0);
	r->left_pending = c->interrupts || c->leaving ? 0 : waiting;
	r->left_unknown = js->counts[JOB_UNKNOWN];
	if (js->damaged)
		r->left_lost = number_set_size(&js->lost_ids);
	if (r->left_unknown && !c->fatal)
		say(c, "%llu job%s may or may not have run: records were lost; 'gpuq verify' lists them",
			(unsigned long long)r->left_unknown, r->left_unknown == 1 ? "" : "s");
	if (r->left_pending && !c->fatal && !coordinating_is_refused(c, NULL))
		say(c, "%llu job%s left pending; 'gpuq why ID' explains why", (unsigned long long)r->left_pending,
			r->left_pending == 1 ? "" : "s");
	if (js->counts[JOB_HELD] && !c->interrupts && !c->leaving && !c->fatal)
		say(c, "%llu %s held; see 'gpuq status', and use 'gpuq release ID' to release a job",
			(unsigned long long)js->counts[JOB_HELD], js->counts[JOB_HELD] == 1 ? "job is" : "jobs are");
}
