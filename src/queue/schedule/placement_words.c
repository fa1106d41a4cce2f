/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/units.h"
#include "queue/journal/queue_registry.h"
#include "queue/schedule/placement.h"
#include "queue/schedule/process_owner.h"

const char *placement_reason_name(enum placement_reason reason)
{
	static const char *const names[] = {
		[PLACEMENT_FITS] = "fits",
		[PLACEMENT_MEMORY] = "memory",
		[PLACEMENT_TOO_SMALL] = "too_small",
		[PLACEMENT_MEMORY_UNKNOWN] = "memory_unknown",
		[PLACEMENT_JOBS] = "jobs_per_gpu",
		[PLACEMENT_UNSETTLED] = "unsettled",
		[PLACEMENT_OCCUPIED] = "occupied",
		[PLACEMENT_TAKEN] = "taken",
		[PLACEMENT_EXCLUSIVE] = "exclusive",
		[PLACEMENT_RESERVED] = "reserved",
		[PLACEMENT_QUARANTINED] = "quarantined",
		[PLACEMENT_UNHEALTHY] = "unhealthy",
		[PLACEMENT_SPLIT] = "split",
		[PLACEMENT_MIG] = "mig",
		[PLACEMENT_PINNED] = "pinned",
		[PLACEMENT_VENDOR] = "vendor",
		[PLACEMENT_APART] = "apart",
		[PLACEMENT_NODE_AWAY] = "node_away",
		[PLACEMENT_NODE_TIME] = "node_time",
		[PLACEMENT_NODE_HOST] = "node_host",
	};
	return names[reason];
}

/* One output line, and its subject. */
struct placement_line {
	struct text *t;
	const struct ledger_account *account;
	const struct placement_need *need;
	const struct placement_verdict *verdict;
	placement_describe *describe;
	void *context;
	const struct ledger_node *node; /* in a cluster */
};

static void say_pid(const struct placement_line *w, int64_t pid)
{
	char who[256];
	text_appendf(w->t, "pid %" PRId64, pid);
	if (w->describe && w->describe(w->context, pid, who, sizeof(who)))
		text_appendf(w->t, " (%s)", who);
}

/* The user's own queues are named by their journal, other queues by their hash. */
static void say_queue(const struct placement_line *w, const struct ledger_claimant *c)
{
	cleanup_(freep) char *path = NULL;
	if (c->user != geteuid() || queue_registry_find(c->queue, &path) < 0)
		text_appendf(w->t, "queue %s", c->queue);
	else {
		text_append_string(w->t, "queue ");
		display_append(w->t, path, strlen(path), DISPLAY_ALL);
	}
}

/* "job 12 of alice (queue 5f0c6b3c, pid 4711)" */
static void say_claimant(const struct placement_line *w, const struct ledger_claimant *c)
{
	char user[256];
	if (!c->queue[0]) {
		text_append_string(w->t, "a job of another queue");
		return;
	}
	text_appendf(w->t, "job %" PRIu64 " of %s (", c->job, process_owner_user(c->user, user, sizeof(user)));
	say_queue(w, c);
	if (c->pid > 0)
		text_appendf(w->t, ", pid %" PRId64, c->pid);
	text_append_char(w->t, ')');
}

/* "20.3 GiB held by pid 4711 (alice, python)" */
static void say_holder(const struct placement_line *w, const char *before)
{
	const struct ledger_account *a = w->account;
	char size[UNITS_ROOM];
	if (a->holder == LEDGER_NOBODY)
		return;
	text_appendf(w->t, "%s%s ", before, units_format_size(a->holder_bytes, size));
	switch (a->holder) {
	case LEDGER_NOBODY:
		break;
	case LEDGER_PROCESS:
		text_append_string(w->t, "held by ");
		say_pid(w, a->holder_pid);
		break;
	case LEDGER_JOB:
		text_appendf(w->t, "held by job %" PRIu64, a->holder_job);
		break;
	case LEDGER_CLAIM:
		text_append_string(w->t, "promised to ");
		say_claimant(w, &a->claimant);
		break;
	}
}

/* "9.1 GiB free, job needs 12.0 GiB", or in MiB if both would look the same. */
static void say_sizes(const struct placement_line *w, uint64_t have, const char *what)
{
	char need_text[UNITS_ROOM], have_text[UNITS_ROOM];
	uint64_t bytes = ledger_bytes_on(w->account->gpu, w->need->memory_bytes, w->need->by_card);
	units_format_size(bytes, need_text);
	units_format_size(have, have_text);
	if (!strcmp(need_text, have_text)) {
		snprintf(need_text, sizeof(need_text), "%" PRIu64 " MiB", (bytes + UNITS_MB - 1) / UNITS_MB);
		snprintf(have_text, sizeof(have_text), "%" PRIu64 " MiB", have / UNITS_MB);
	}
	text_appendf(w->t, "%s %s, job needs %s", have_text, what, need_text);
}

static void say_unhealthy(const struct placement_line *w)
{
	switch (w->account->gpu->health) {
	case GD_GPU_HEALTH_LOST:
		text_append_string(w->t, "fell off the bus");
		return;
	case GD_GPU_HEALTH_NOT_ANSWERING:
		text_append_string(w->t, "its driver does not answer");
		return;
	case GD_GPU_HEALTH_UNREADABLE:
	case GD_GPU_HEALTH_OK:
		break;
	}
	text_append_string(w->t, "its driver returns errors");
}

static void say_busy(const struct placement_line *w)
{
	const struct ledger_account *a = w->account;
	if (w->verdict->reason == PLACEMENT_JOBS)
		text_appendf(
			w->t, "already runs %u job%s, the limit of jobs_per_gpu", a->jobs, a->jobs == 1 ? "" : "s");
	else if (w->verdict->reason == PLACEMENT_EXCLUSIVE)
		text_append_string(w->t, "in exclusive compute mode, which allows one process, and in use");
	else
		text_append_string(w->t, "its driver does not report its memory, so it takes one job at a time");
	say_holder(w, "; ");
}

static void say_unsettled(const struct placement_line *w)
{
	if (w->verdict->job)
		text_appendf(w->t, "job %" PRIu64, w->verdict->job);
	else
		say_claimant(w, &w->account->unsettled_claimant);
	text_append_string(w->t,
		" has just started: its memory may still grow (up to a minute), and neither job declared its need; declare "
		"it with --mem");
}

static void say_alone(const struct placement_line *w)
{
	if (w->verdict->reason == PLACEMENT_OCCUPIED)
		text_appendf(w->t, "runs job %" PRIu64 ", and this job does not share its GPU%s", w->verdict->job,
			w->need->declared ? "" : "; jobs with --mem SIZE can share");
	else if (w->verdict->job)
		text_appendf(w->t, "in use by job %" PRIu64 ", which does not share it", w->verdict->job);
	else {
		text_append_string(w->t, "in use by ");
		say_claimant(w, &w->account->alone_claimant);
		text_append_string(w->t, ", which does not share it");
	}
}

static void say_room(const struct placement_line *w)
{
	char size[UNITS_ROOM];
	text_append_string(w->t, "has room");
	if (w->account->known)
		text_appendf(w->t, ", %s free", units_format_size(w->account->free_bytes, size));
	if (w->verdict->reason == PLACEMENT_VENDOR)
		text_appendf(w->t, "; the job needs %u GPUs of one vendor", w->need->num_gpus);
	else if (w->verdict->reason == PLACEMENT_APART)
		text_appendf(w->t, "; the job needs %u GPUs of one node", w->need->num_gpus);
	else if (w->need->num_gpus > 1)
		text_appendf(w->t, "; the job needs %u GPUs at once", w->need->num_gpus);
}

/* "its node has 2 of 8 CPUs and 3.0 GiB of main memory left" */
static void say_node(const struct placement_line *w)
{
	const struct ledger_node *n = w->node;
	char need[UNITS_ROOM], have[UNITS_ROOM];
	uint64_t left = n->host_bytes > n->host_promised_bytes ? n->host_bytes - n->host_promised_bytes : 0;
	if (n->host_bytes && w->need->host_bytes > left)
		text_appendf(w->t, "needs %s of main memory, %s left on its node",
			units_format_size(w->need->host_bytes, need), units_format_size(left, have));
	else
		text_appendf(w->t, "needs %u CPUs, %u of %u left on its node", w->need->cpus,
			n->cpus > n->cpus_promised ? n->cpus - n->cpus_promised : 0, n->cpus);
}

static void say_reason(const struct placement_line *w)
{
	const struct ledger_account *a = w->account;
	switch (w->verdict->reason) {
	case PLACEMENT_FITS:
	case PLACEMENT_VENDOR:
	case PLACEMENT_APART:
		say_room(w);
		break;
	case PLACEMENT_MEMORY:
		say_sizes(w, a->free_bytes, "free");
		say_holder(w, "; ");
		break;
	case PLACEMENT_TOO_SMALL:
		say_sizes(w, a->gpu->memory_total_bytes, "in total");
		break;
	case PLACEMENT_JOBS:
	case PLACEMENT_EXCLUSIVE:
	case PLACEMENT_MEMORY_UNKNOWN:
		say_busy(w);
		break;
	case PLACEMENT_UNSETTLED:
		say_unsettled(w);
		break;
	case PLACEMENT_OCCUPIED:
	case PLACEMENT_TAKEN:
		say_alone(w);
		break;
	case PLACEMENT_PINNED:
		text_appendf(w->t, "the job is pinned to GPU %s", w->need->pin);
		break;
	case PLACEMENT_RESERVED:
		text_appendf(w->t, "reserved for job %" PRIu64 ", which comes first", w->verdict->job);
		break;
	case PLACEMENT_QUARANTINED:
		text_appendf(w->t, "out of use%s%s", a->note->why ? ": " : "", a->note->why ? a->note->why : "");
		break;
	case PLACEMENT_UNHEALTHY:
		say_unhealthy(w);
		break;
	case PLACEMENT_SPLIT:
		text_append_string(w->t, "split into MIG instances, which run its jobs");
		break;
	case PLACEMENT_MIG:
		text_append_string(w->t, "a MIG instance; a job on several GPUs needs whole GPUs");
		break;
	case PLACEMENT_NODE_AWAY:
		text_append_string(w->t, "its node accepts no jobs now");
		break;
	case PLACEMENT_NODE_TIME:
		text_append_string(w->t, "the remaining time of its node is too short for the job");
		break;
	case PLACEMENT_NODE_HOST:
		say_node(w);
		break;
	}
}

void placement_words(struct text *t, const struct ledger *l, size_t gpu, const struct placement_need *need,
	const struct placement_verdict *verdict, placement_describe *describe, void *context)
{
	const struct gd_gpu *g = l->accounts[gpu].gpu;
	int node = ledger_node_of(l, gpu);
	if (node >= 0)
		text_appendf(t, "%s ", l->nodes[node].name);
	text_appendf(t, "GPU %d", g->index);
	if (g->mig_index >= 0)
		text_appendf(t, " MIG %d", g->mig_index);
	text_append_string(t, ": ");
	struct placement_line w = {
		t, &l->accounts[gpu], need, verdict, describe, context, node >= 0 ? &l->nodes[node] : NULL};
	say_reason(&w);
}
