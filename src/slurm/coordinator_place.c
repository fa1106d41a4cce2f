/* SPDX-License-Identifier: MIT */
/* Jobs from the journal, and on which pilots they start. */
#include "slurm/coordinating.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "queue/journal/record.h"
#include "queue/keeper/keeper_messages.h"
#include "slurm/coordinator_hooks.h"

#define EXEC_ON_CLUSTER                                                                                                \
	"this queue runs on a cluster, where 'gpuq exec' does not work; use 'gpuq add', or another queue (--jobs-file)"

/* ---- Jobs and the scheduler ------------------------------------------------------------- */

struct job *coordinating_job(const struct coordinator *c, uint64_t id)
{
	return jobs_find(coordinator_journal_jobs(c->journal), id);
}

static void fail(struct coordinator *c, const struct job *job, const char *words)
{
	record_write_fail(&c->to_append, job->id, words, job->wish->on_finish ? NULL : c->options.on_finish);
}

static void enqueue(struct coordinator *c, struct job *job)
{
	char words[SCHEDULER_WORDS];
	if (scheduler_has(c->scheduler, job->id))
		return;
	if (job->lease) {
		fail(c, job, EXEC_ON_CLUSTER);
		return;
	}
	int e = scheduler_add(c->scheduler, job, words);
	if (e < 0)
		coordinating_die(c, e);
	else if (e > 0)
		fail(c, job, words);
	c->must_place = true;
}

static void enqueue_all(struct coordinator *c, struct job *first)
{
	for (struct job *next; first; first = next) {
		next = first->next_dependent;
		enqueue(c, first);
	}
}

void coordinating_cancel(struct coordinator *c, const struct job *job)
{
	struct core_answer *a =
		job->keeper && job->keeper->is_pilot ? coordinating_answer(c, COORDINATOR_CANCEL) : NULL;
	if (a)
		a->id = (struct attempt_id){job->id, job->attempts->attempt};
}

static void count_end(struct coordinator *c, const struct job *job)
{
	if (job->state == JOB_COMPLETED)
		c->result.completed++;
	else if (job->state == JOB_CANCELLED)
		c->result.cancelled++;
	else
		c->result.failed++;
}

static bool is_final_state(int state)
{
	return state == JOB_COMPLETED || state == JOB_FAILED || state == JOB_CANCELLED;
}

void coordinating_on_change(void *context, struct job *job, int old)
{
	struct coordinator *c = context;
	if (is_final_state(old) && !job_is_final(job))
		scheduler_reopen(c->scheduler, job);
	if (old == JOB_RUNNING && job->state != JOB_RUNNING)
		scheduler_end(c->scheduler, job->id);
	/* If the job was already handed to the core, its write is refused, and then it is withdrawn. */
	if (old == JOB_PENDING && !scheduler_has(c->scheduler, job->id))
		scheduler_remove(c->scheduler, job);
	if (old == JOB_RUNNING && job->state == JOB_PENDING)
		coordinating_say_interrupted(c, job);
	if (job->state == JOB_PENDING)
		enqueue(c, job);
	else if (job->state == JOB_RUNNING && job->cancel_requested)
		coordinating_cancel(c, job);
	else if (job->state == JOB_RUNNING && old != JOB_RUNNING && job->attempts->log)
		coordinating_note_log(c, job->attempts->log);
	else if (job_is_final(job)) {
		count_end(c, job);
		enqueue_all(c, scheduler_release(c->scheduler, job));
	}
	/* Jobs that the coordinator itself has failed name their hook; jobs cancelled by other processes do not. */
	if (job->state == JOB_CANCELLED && old != JOB_RUNNING && old >= 0 && !job->reason)
		coordinator_hooks_add(c, job);
	if (c->options.watch && c->options.watch->changed)
		c->options.watch->changed(c->options.watch->context, job, old);
	c->must_place = true;
}

/* The journal was pruned: same jobs, new addresses. */
void coordinating_on_reload(void *context)
{
	struct coordinator *c = context;
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	int e = scheduler_reset(c->scheduler);
	if (e < 0)
		coordinating_die(c, e);
	scheduler_end_finished(c->scheduler);
	for (size_t i = 0; i < js->count && !c->fatal; i++) {
		if (js->by_id[i]->state == JOB_PENDING)
			enqueue(c, js->by_id[i]);
		else if (js->by_id[i]->state == JOB_RUNNING && js->by_id[i]->cancel_requested)
			coordinating_cancel(c, js->by_id[i]);
	}
}

/* Jobs that an earlier coordinator gave to this pilot. */
void coordinating_adopt(struct coordinator *c, int number)
{
	const struct jobs *js = coordinator_journal_jobs(c->journal);
	const struct cluster_node *node = &c->nodes.nodes[number];
	for (size_t i = 0; i < js->count; i++) {
		const struct job *job = js->by_id[i];
		if (job->state != JOB_RUNNING || !job->keeper || !job->keeper->is_pilot ||
			strcmp(job->keeper->name, node->pilot) != 0 || scheduler_has(c->scheduler, job->id))
			continue;
		int gpus[UINT8_MAX];
		size_t n = 0;
		for (size_t k = 0; k < job->attempts->num_gpus; k++)
			for (size_t g = 0; g < node->num_gpus; g++)
				if (c->nodes.gpus[node->first_gpu + g].index == job->attempts->gpus[k])
					gpus[n++] = (int)(node->first_gpu + g);
		if (scheduler_adopt(c->scheduler, job, gpus, n) < 0)
			coordinating_die(c, -ENOMEM);
		scheduler_set_node(c->scheduler, job->id, number);
	}
}

void coordinating_withdraw(struct coordinator *c, uint64_t id)
{
	struct job *job = coordinating_job(c, id);
	scheduler_withdraw(c->scheduler, id);
	if (job && job->state == JOB_PENDING)
		enqueue(c, job);
}

/* ---- Placing ---------------------------------------------------------------------------- */

static void start_job(struct coordinator *c, const struct scheduler_start *s)
{
	const struct cluster_node *node = &c->nodes.nodes[s->node];
	cleanup_(text_finish) struct text order = {0}, payload = {0};
	struct keeper_order o;
	int gpus[FRAME_MAX_GPUS];
	int64_t now_ms = date_now_ms();
	/* The coordinator itself runs the hook, and GPUs are not claimed inside an allocation. */
	int e = job_order_write(s->job, &c->options.order, NULL, "", &o, &payload);
	if (e == 0) {
		o.bytes = sizeof(o);
		text_append(&order, &o, sizeof(o));
		text_append(&order, payload.data, payload.length);
		e = text_error(&order);
	}
	if (e < 0) {
		coordinating_die(c, e);
		return;
	}
	for (size_t i = 0; i < s->num_gpus; i++)
		gpus[i] = s->gpus[i] - (int)node->first_gpu;
	coordinating_post(c, &(struct coordinator_event){.kind = COORDINATOR_START,
				     .start = {.id = {s->job->id, job_next_attempt(s->job)},
					     .pilot = node->pilot,
					     .gpus = gpus,
					     .num_gpus = s->num_gpus,
					     .order = order.data,
					     .order_size = order.length,
					     .losses = coordinator_journal_losses(s->job),
					     .needed_ms = s->need.over_ms ? s->need.over_ms - now_ms : 0}});
}

bool coordinating_is_full(const struct coordinator *c)
{
	return c->options.max_failures > 0 && c->result.failed >= (uint64_t)c->options.max_failures;
}

void coordinating_place(struct coordinator *c)
{
	struct scheduler_start start;
	int e = 0;
	c->must_place = false;
	if (c->nodes_changed && (e = cluster_nodes_tell(&c->nodes, c->scheduler, clock_now_ns())) < 0)
		coordinating_die(c, e);
	c->nodes_changed = false;
	enqueue_all(c, scheduler_set_time(c->scheduler, date_now_ms()));
	c->must_place = false;
	if (c->interrupts || coordinating_is_full(c) || coordinator_journal_jobs(c->journal)->paused ||
		!coordinator_core_is_recovered(c->core) || c->nodes.count == 0 ||
		coordinator_journal_blocked_ns(c->journal))
		return;
	c->refused = false;
	while (!c->fatal && !c->superseded && !c->refused &&
		(e = scheduler_decide(c->scheduler, clock_now_ns(), &start)) == 1)
		start_job(c, &start);
	if (e < 0)
		coordinating_die(c, e);
	/* Otherwise the same job would be refused repeatedly. */
	if (c->refused)
		c->must_place = c->nodes_changed;
}
