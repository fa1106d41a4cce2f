/* SPDX-License-Identifier: MIT */
/* Why a job waits. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/date.h"
#include "base/units.h"
#include "queue/schedule/pending.h"
#include "queue/schedule/scheduler_private.h"

const char *scheduler_answer_name(enum scheduler_answer answer)
{
	static const char *const names[] = {
		[SCHEDULER_STARTS] = "starts",
		[SCHEDULER_WAITS] = "waits",
		[SCHEDULER_NEVER] = "never",
		[SCHEDULER_BLOCKED] = "blocked",
		[SCHEDULER_BEGINS] = "begins",
		[SCHEDULER_LATE] = "late",
		[SCHEDULER_UNKNOWN] = "unknown",
	};
	return names[answer];
}

static int ask_gpus(struct scheduler *s, uint64_t id, struct scheduler_verdict *v)
{
	int gpus[SCHEDULER_MAX_GPUS];
	int r = scheduler_refresh(s);
	struct placement_verdict *verdicts = calloc(s->num_gpus + 1, sizeof(*verdicts));
	if (r < 0 || !verdicts) {
		free(verdicts);
		return -ENOMEM;
	}
	free(s->verdicts);
	v->gpus = s->verdicts = verdicts;
	v->num_gpus = s->num_gpus;
	v->host = placement_judge_host(&s->ledger, id, &v->need, &s->reservation);
	if (v->need.num_gpus > SCHEDULER_MAX_GPUS) {
		v->answer = SCHEDULER_NEVER;
		return 0;
	}
	r = placement_choose(&s->ledger, id, &v->need, &s->reservation, gpus, verdicts);
	if (r == -ENOMEM)
		return r;
	v->answer = r == -ENODEV ? SCHEDULER_NEVER : SCHEDULER_WAITS;
	v->num_within_reach = placement_within_reach(&s->ledger, id, &v->need);
	v->nodes_wait = s->cluster && r < 0;
	return 0;
}

int scheduler_verdict(struct scheduler *s, const struct job *job, struct scheduler_verdict *ret)
{
	struct scheduler_verdict v = {.answer = SCHEDULER_UNKNOWN};
	uint64_t failed = 0;
	const char *how;
	int r = 0;
	if (scheduler_has(s, job->id)) {
		v.answer = SCHEDULER_STARTS;
	} else if (job->blocked) {
		v.answer = SCHEDULER_BLOCKED;
		v.after = scheduler_dependency(s->jobs, job, &failed, &how);
	} else if (job->sleeping) {
		v.answer = SCHEDULER_BEGINS;
		v.begin_ms = job->wish->begin_ms;
	} else if (job->late || (job->wait.position && scheduler_is_late(s, job))) {
		v.answer = SCHEDULER_LATE;
	} else if (job->wait.position) {
		v.need = *pending_need(s->pending, &job->wait);
		v.need.over_ms = scheduler_over_ms(s, job);
		r = ask_gpus(s, job->id, &v);
	}
	if (r == 0)
		*ret = v;
	return r;
}

int scheduler_judge(struct scheduler *s, const struct placement_need *need, struct scheduler_verdict *ret)
{
	struct scheduler_verdict v = {.need = *need};
	int r = ask_gpus(s, 0, &v);
	if (r == 0)
		*ret = v;
	return r;
}

static void say_begin(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v)
{
	char date[DATE_TEXT];
	date_format_local(v->begin_ms, s->wall_ms, date);
	text_appendf(t, "begins at %s", date);
}

/* ---- Lines ---------------------------------------------------------------------------- */

static void say_host(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v)
{
	const struct ledger *l = &s->ledger;
	char need[UNITS_ROOM], have[UNITS_ROOM];
	bool memory = v->need.host_bytes && v->host != PLACEMENT_HOST_CPUS;
	if (v->host == PLACEMENT_HOST_TOO_SMALL && v->need.host_bytes > l->host_bytes && l->host_bytes)
		text_appendf(t, "needs %s of main memory, the machine has %s",
			units_format_size(v->need.host_bytes, need), units_format_size(l->host_bytes, have));
	else if (v->host == PLACEMENT_HOST_TOO_SMALL)
		text_appendf(t, "needs %u CPUs, the machine has %u", v->need.cpus, l->cpus);
	else if (v->host == PLACEMENT_HOST_RESERVED)
		text_appendf(t, "%s reserved for job %" PRIu64 ", which comes first", memory ? "main memory" : "CPUs",
			s->reservation.host_job);
	else if (memory)
		text_appendf(t, "needs %s of main memory, %s available", units_format_size(v->need.host_bytes, need),
			units_format_size(
				l->host_bytes > l->host_promised_bytes ? l->host_bytes - l->host_promised_bytes : 0,
				have));
	else
		text_appendf(t, "needs %u CPU%s, %u of %u are free", v->need.cpus, v->need.cpus == 1 ? "" : "s",
			l->cpus > l->cpus_promised ? l->cpus - l->cpus_promised : 0, l->cpus);
}

/* Whether GPUs that the job is pinned to do not exist. */
static bool lacks_pinned(const struct scheduler_verdict *v)
{
	size_t there = 0;
	for (size_t g = 0; v->need.pin && g < v->num_gpus; g++)
		there += v->gpus[g].reason != PLACEMENT_PINNED;
	return v->need.pin && there < v->need.num_gpus;
}

/* "needs GPU 7, which does not exist (existing GPUs: 0 and 1)" */
static void say_pin(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v)
{
	bool one = v->need.num_gpus == 1;
	text_appendf(t, "needs GPU%s %s, which %s (existing GPUs: ", one ? "" : "s", v->need.pin,
		one ? "does not exist" : "do not all exist");
	for (size_t g = 0; g < s->num_gpus; g++)
		text_appendf(t, "%s%d", g == 0 ? "" : g + 1 < s->num_gpus ? ", " : " and ", s->gpus[g].gpu.index);
	text_append_char(t, ')');
}

static bool has_room(const struct scheduler_verdict *v)
{
	size_t fits = 0;
	if (v->nodes_wait)
		return false;
	for (size_t g = 0; g < v->num_gpus; g++)
		fits += v->gpus[g].reason == PLACEMENT_FITS;
	return v->host == PLACEMENT_HOST_FITS && fits >= v->need.num_gpus && v->answer == SCHEDULER_WAITS;
}

static bool has_usable_node(const struct scheduler *s)
{
	for (size_t i = 0; i < s->num_nodes; i++)
		if (s->nodes[i].usable)
			return true;
	return false;
}

static void say_count(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v)
{
	if (s->cluster && !has_usable_node(s))
		text_append_string(t, "no node accepts jobs now");
	else if (s->num_gpus == 0)
		text_append_string(t, "this machine has no GPU");
	else
		text_appendf(t, "needs %u GPUs, there %s %zu", v->need.num_gpus, s->num_gpus == 1 ? "is" : "are",
			s->num_gpus);
}

/* For a job that no node takes, whatever its GPUs. */
static void say_nodes(struct text *t, const struct scheduler *s)
{
	text_append_string(t, has_usable_node(s) ? "no node has the main memory, the CPUs or the time for it now"
						 : "no node accepts jobs now");
}

void scheduler_verdict_lines(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v,
	placement_describe *describe, void *context)
{
	if (v->answer == SCHEDULER_BLOCKED && v->after)
		text_appendf(t, "waits for job %" PRIu64 ", which is %s\n", v->after->id,
			job_state_name((enum job_state)v->after->state));
	else if (v->answer == SCHEDULER_STARTS)
		text_append_string(t, "there is room for it now\n");
	else if (v->answer == SCHEDULER_BEGINS) {
		say_begin(t, s, v);
		text_append_char(t, '\n');
	}
	if (v->answer == SCHEDULER_LATE) {
		scheduler_say_late(t, s);
		text_append_char(t, '\n');
	}
	if (v->answer != SCHEDULER_WAITS && v->answer != SCHEDULER_NEVER)
		return;
	if (has_room(v)) {
		text_append_string(t, "there is room for it now\n");
		return;
	}
	if (v->answer == SCHEDULER_NEVER)
		text_append_string(t, "can never start here:\n");
	if (v->host != PLACEMENT_HOST_FITS) {
		say_host(t, s, v);
		text_append_char(t, '\n');
	}
	/* No GPU would help. */
	if (v->host == PLACEMENT_HOST_TOO_SMALL)
		return;
	if (v->nodes_wait && (v->need.num_gpus == 0 || !has_usable_node(s))) {
		say_nodes(t, s);
		text_append_char(t, '\n');
		return;
	}
	if (v->need.num_gpus > s->num_gpus || lacks_pinned(v)) {
		if (v->need.num_gpus > s->num_gpus)
			say_count(t, s, v);
		else
			say_pin(t, s, v);
		text_append_char(t, '\n');
		return;
	}
	for (size_t g = 0; v->need.num_gpus > 0 && g < v->num_gpus; g++) {
		placement_words(t, &s->ledger, g, &v->need, &v->gpus[g], describe, context);
		text_append_char(t, '\n');
	}
}

/* ---- A few words ---------------------------------------------------------------------- */

static const struct placement_verdict *first_with(const struct scheduler_verdict *v, enum placement_reason reason)
{
	for (size_t g = 0; g < v->num_gpus; g++)
		if (v->gpus[g].reason == reason)
			return &v->gpus[g];
	return NULL;
}

/* The memory of the GPU with the most. */
static void say_most(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v, bool free)
{
	enum placement_reason reason = free ? PLACEMENT_MEMORY : PLACEMENT_TOO_SMALL;
	char need[UNITS_ROOM], have[UNITS_ROOM];
	uint64_t most = 0, bytes = 0;
	for (size_t g = 0; g < v->num_gpus; g++) {
		const struct ledger_account *a = &s->ledger.accounts[g];
		uint64_t its = free ? a->free_bytes : a->gpu->memory_total_bytes;
		if (v->gpus[g].reason != reason || (bytes && its <= most))
			continue;
		most = its;
		bytes = ledger_bytes_on(a->gpu, v->need.memory_bytes, v->need.by_card);
	}
	text_appendf(t, "needs %s, at most %s %s", units_format_size(bytes, need), units_format_size(most, have),
		free ? "free" : "per GPU");
}

static void say_never(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v)
{
	text_append_string(t, "cannot start: ");
	if (v->host == PLACEMENT_HOST_TOO_SMALL)
		say_host(t, s, v);
	else if (v->need.num_gpus > s->num_gpus)
		say_count(t, s, v);
	else if (lacks_pinned(v))
		say_pin(t, s, v);
	else if (first_with(v, PLACEMENT_TOO_SMALL))
		say_most(t, s, v, false);
	else
		text_append_string(t, "not enough usable GPUs");
}

static void say_waits(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v)
{
	const struct placement_verdict *reserved = first_with(v, PLACEMENT_RESERVED);
	const struct placement_verdict *unsettled = first_with(v, PLACEMENT_UNSETTLED);
	if (has_room(v))
		text_append_string(t, "starts next");
	else if (v->nodes_wait && (v->need.num_gpus == 0 || !has_usable_node(s)))
		say_nodes(t, s);
	else if (first_with(v, PLACEMENT_APART))
		text_appendf(t, "no node has %u GPUs free", v->need.num_gpus);
	else if (v->host != PLACEMENT_HOST_FITS)
		say_host(t, s, v);
	else if (reserved)
		text_appendf(t, "behind job %" PRIu64, reserved->job);
	else if (v->need.pin)
		text_appendf(t, "GPU %s busy", v->need.pin);
	else if (unsettled && unsettled->job)
		text_appendf(t, "memory of new job %" PRIu64 " may still grow", unsettled->job);
	else if (unsettled)
		text_append_string(t, "memory of a new job may still grow");
	else if (first_with(v, PLACEMENT_OCCUPIED) || first_with(v, PLACEMENT_TAKEN) || first_with(v, PLACEMENT_JOBS) ||
		 first_with(v, PLACEMENT_EXCLUSIVE) || first_with(v, PLACEMENT_MEMORY_UNKNOWN))
		text_append_string(t, "GPUs busy");
	else if (first_with(v, PLACEMENT_NODE_TIME))
		text_append_string(t, "does not fit into the remaining time of any node");
	else if (first_with(v, PLACEMENT_MEMORY))
		say_most(t, s, v, true);
	else
		text_append_string(t, "no usable GPU now");
}

void scheduler_verdict_brief(struct text *t, const struct scheduler *s, const struct scheduler_verdict *v)
{
	switch (v->answer) {
	case SCHEDULER_STARTS:
		text_append_string(t, "starts next");
		break;
	case SCHEDULER_WAITS:
		say_waits(t, s, v);
		break;
	case SCHEDULER_NEVER:
		say_never(t, s, v);
		break;
	case SCHEDULER_BLOCKED:
		text_appendf(t, "after job %" PRIu64, v->after ? v->after->id : 0);
		break;
	case SCHEDULER_BEGINS:
		say_begin(t, s, v);
		break;
	case SCHEDULER_LATE:
		scheduler_say_late(t, s);
		break;
	case SCHEDULER_UNKNOWN:
		break;
	}
}
