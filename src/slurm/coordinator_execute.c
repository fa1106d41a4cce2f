/* SPDX-License-Identifier: MIT */
/* Executes the actions of the core and reports their results to it. */
#include "slurm/coordinating.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "queue/keeper/attempt_log.h"
#include "slurm/end_line.h"
#include "slurm/log_name.h"
#include "slurm/outbox.h"
#include "slurm/pilot_supply.h"

struct core_answer *coordinating_answer(struct coordinator *c, enum coordinator_event_kind kind)
{
	if (array_reserve(c->answers, &c->answers_capacity, c->num_answers + 1) < 0) {
		coordinating_die(c, -ENOMEM);
		return NULL;
	}
	struct core_answer *a = &c->answers[c->num_answers++];
	*a = (struct core_answer){.kind = kind};
	return a;
}

/* ---- Actions of the core ---------------------------------------------------------------- */

static struct coordinator_peer *find_peer(const struct coordinator *c, uint64_t number)
{
	for (size_t i = 0; i < c->num_peers; i++)
		if (c->peers[i].number == number)
			return &c->peers[i];
	return NULL;
}

static void remove_peer(struct coordinator *c, struct coordinator_peer *p)
{
	link_destroy(p->link);
	*p = c->peers[--c->num_peers];
}

static void send_frame(struct coordinator *c, const struct coordinator_action *a)
{
	const struct coordinator_peer *p = find_peer(c, a->connection);
	/* If sending fails, the connection is broken, and the core is told by DISCONNECTED. */
	if (p && link_send(p->link, a->frame) == -ENOMEM)
		coordinating_die(c, -ENOMEM);
}

static void close_peer(struct coordinator *c, uint64_t number)
{
	struct coordinator_peer *p = find_peer(c, number);
	if (p)
		remove_peer(c, p);
}

static int add_start(struct coordinator *c, const struct coordinator_write *w)
{
	int number = cluster_nodes_find(&c->nodes, w->pilot), gpus[FRAME_MAX_GPUS];
	const struct job *job = coordinating_job(c, w->id.job);
	if (number < 0 || !job || w->num_gpus > FRAME_MAX_GPUS)
		return -ECANCELED;
	const struct cluster_node *node = &c->nodes.nodes[number];
	for (size_t i = 0; i < w->num_gpus; i++)
		gpus[i] = c->nodes.gpus[node->first_gpu + (size_t)w->gpus[i]].index;
	char name[ATTEMPT_LOG_NAME_ROOM];
	cleanup_(text_finish) struct text log = {0};
	attempt_log_name_on_cluster(
		name, w->id.job, w->id.attempt, node->slurm_job, log_name_tag(c->secret, w->id, node->slurm_job));
	text_appendf(&log, "%s/%s", job_order_log_dir(job, &c->options.order), name);
	if (text_error(&log))
		return text_error(&log);
	struct start_details details = {.gpus = gpus,
		.num_gpus = w->num_gpus,
		.log = text_string(&log),
		.retries = job->wish->has_retries ? 0 : c->options.order.retries,
		.on_finish = job->wish->has_on_finish ? NULL : c->options.on_finish};
	return coordinator_journal_add(c->journal, w, &details);
}

static void on_appended(void *context, uint64_t number, int result)
{
	struct coordinator *c = context;
	if (result == 0) {
		coordinating_sync(c, number);
		return;
	}
	struct core_answer *a = coordinating_answer(c, COORDINATOR_WRITTEN);
	if (a) {
		a->number = number;
		a->result = result;
	}
}

/* The line is appended with the others of this round. */
static void write_line(struct coordinator *c, const struct coordinator_write *w)
{
	int r = w->kind == WRITE_START ? add_start(c, w) : coordinator_journal_add(c->journal, w, NULL);
	if (r < 0)
		on_appended(c, w->number, r);
}

static int take_end(void *context, const char *line, size_t size)
{
	struct core_answer *a = context;
	if (array_reserve(a->ends, &a->ends_capacity, a->num_ends + 1) < 0)
		return -ENOMEM;
	int r = end_line_parse(line, size, &a->ends[a->num_ends]);
	a->num_ends += r == 0;
	return r;
}

static void read_outbox(struct coordinator *c, const char *pilot)
{
	struct core_answer *a = coordinating_answer(c, COORDINATOR_OUTBOX);
	if (!a)
		return;
	snprintf(a->pilot, sizeof(a->pilot), "%s", pilot);
	a->result = outbox_read(c->options.journal->dir_fd, pilot, take_end, a);
	/* The intact lines of a damaged outbox count. */
	if (a->result < 0 && a->result != -EBADMSG)
		a->num_ends = 0;
}

static void check_epoch(struct coordinator *c, uint64_t number)
{
	int r = coordinator_journal_check(c->journal, &c->error);
	struct core_answer *a = coordinating_answer(c, COORDINATOR_CHECKED);
	if (a) {
		a->number = number;
		a->result = r;
	}
}

static uint64_t slurm_job_of(const struct coordinator *c, const char *pilot)
{
	struct pilot_info info;
	for (size_t i = 0; coordinator_core_pilot(c->core, i, &info); i++)
		if (strcmp(info.name, pilot) == 0)
			return info.slurm_job;
	return 0;
}

static void pilot_ready(struct coordinator *c, const struct coordinator_action *a)
{
	int before = cluster_nodes_find(&c->nodes, a->pilot);
	bool known = before >= 0, was_away = known && !c->nodes.ledger[before].usable;
	int number = cluster_nodes_ready(&c->nodes, a, slurm_job_of(c, a->pilot), date_now_ms());
	if (number < 0) {
		coordinating_die(c, number);
		return;
	}
	c->nodes_changed = c->must_place = true;
	if (!known && cluster_nodes_tell(&c->nodes, c->scheduler, clock_now_ns()) < 0)
		coordinating_die(c, -ENOMEM);
	if (!known) {
		coordinating_adopt(c, number);
		coordinating_say_joined(c, a);
	}
	if (was_away)
		coordinating_say_back(c, a);
	if (c->supply && pilot_supply_joined(c->supply, c->nodes.nodes[number].slurm_job, a) < 0)
		coordinating_die(c, -ENOMEM);
}

static void pilot_away(struct coordinator *c, const struct coordinator_action *a)
{
	bool gone = a->kind == COORDINATOR_GONE;
	cluster_nodes_away(&c->nodes, a->pilot, gone);
	c->nodes_changed = true;
	if (gone && c->supply)
		pilot_supply_gone(c->supply, a);
	/* Do not report pilots that leave because they were released. */
	if (!c->released)
		coordinating_say(c, a->words);
}

static void execute(struct coordinator *c, const struct coordinator_action *a)
{
	switch (a->kind) {
	case COORDINATOR_SEND:
		send_frame(c, a);
		break;
	case COORDINATOR_CLOSE:
		close_peer(c, a->connection);
		break;
	case COORDINATOR_WRITE:
		write_line(c, a->write);
		break;
	case COORDINATOR_CHECK:
		check_epoch(c, a->number);
		break;
	case COORDINATOR_READ_OUTBOX:
		read_outbox(c, a->pilot);
		break;
	case COORDINATOR_LIST:
		/* Without listings the leases decide. */
		if (c->supply)
			pilot_supply_list(c->supply);
		break;
	case COORDINATOR_BEGAN:
		break;
	case COORDINATOR_READY:
		pilot_ready(c, a);
		break;
	case COORDINATOR_AWAY:
	case COORDINATOR_GONE:
		pilot_away(c, a);
		break;
	case COORDINATOR_FREED:
		/* With a limit of failures, nothing may start until the outcome is known. */
		if (c->options.max_failures == 0)
			scheduler_end(c->scheduler, a->id.job);
		c->must_place = true;
		break;
	case COORDINATOR_NOT_STARTED:
		coordinating_withdraw(c, a->id.job);
		c->refused = true;
		break;
	case COORDINATOR_RECOVERED:
		c->must_place = true;
		break;
	case COORDINATOR_SUPERSEDED:
		c->superseded = true;
		break;
	case COORDINATOR_SAY:
		coordinating_say(c, a->words);
		break;
	}
}

/* ---- Events of the core ----------------------------------------------------------------- */

void coordinating_post(struct coordinator *c, const struct coordinator_event *e)
{
	struct coordinator_action a;
	if (c->fatal || c->superseded)
		return;
	int r = coordinator_core_handle(c->core, clock_now_ns(), e);
	if (r < 0)
		coordinating_die(c, r);
	while (!c->fatal && !c->superseded && coordinator_core_next(c->core, &a))
		execute(c, &a);
}

static void post_answer(struct coordinator *c, struct core_answer *a)
{
	coordinating_post(c, &(struct coordinator_event){.kind = a->kind,
				     .connection = a->kind == COORDINATOR_DISCONNECTED ? a->number : 0,
				     .number = a->number,
				     .result = a->result,
				     .id = a->id,
				     .mode = c->interrupts > 2 ? CANCEL_KILL : CANCEL_ASK,
				     .pilot = a->pilot,
				     .ends = a->ends,
				     .num_ends = a->num_ends});
	free(a->ends);
}

void coordinating_post_answers(struct coordinator *c)
{
	while (c->num_answers > 0 && !c->fatal && !c->superseded) {
		struct core_answer *batch = c->answers;
		size_t count = c->num_answers;
		c->answers = NULL;
		c->num_answers = c->answers_capacity = 0;
		for (size_t i = 0; i < count; i++)
			post_answer(c, &batch[i]);
		free(batch);
	}
}

void coordinating_settle(struct coordinator *c)
{
	coordinating_post_answers(c);
	while (!c->fatal && coordinator_journal_append(c->journal, on_appended, c, &c->error)) {
		c->must_read = true;
		coordinating_post_answers(c);
	}
	coordinating_sync_begin(c);
}

static void on_opened(void *context, struct link *l)
{
	struct coordinator *c = context;
	if (array_reserve(c->peers, &c->peers_capacity, c->num_peers + 1) < 0) {
		coordinating_die(c, -ENOMEM);
		link_destroy(l);
		return;
	}
	c->peers[c->num_peers++] = (struct coordinator_peer){l, ++c->last_peer};
}

static struct coordinator_peer *peer_of(const struct coordinator *c, const struct link *l)
{
	for (size_t i = 0; i < c->num_peers; i++)
		if (c->peers[i].link == l)
			return &c->peers[i];
	return NULL;
}

static void on_closed(void *context, struct link *l, int reason)
{
	struct coordinator *c = context;
	struct coordinator_peer *p = peer_of(c, l);
	(void)reason;
	if (!p) {
		link_destroy(l);
		return;
	}
	uint64_t number = p->number;
	remove_peer(c, p);
	coordinating_post(c, &(struct coordinator_event){.kind = COORDINATOR_DISCONNECTED, .connection = number});
}

static void on_frame(void *context, struct link *l, const struct frame *f)
{
	struct coordinator *c = context;
	const struct coordinator_peer *p = peer_of(c, l);
	if (!p)
		return;
	/* The pilot has proven its Slurm job with the secret; it cannot act for another one. */
	if (f->kind == FRAME_HELLO && f->hello.slurm_job != link_slurm_job(l)) {
		on_closed(c, l, -EBADMSG);
		return;
	}
	coordinating_post(
		c, &(struct coordinator_event){.kind = COORDINATOR_FRAME, .connection = p->number, .frame = f});
}

const struct link_ops coordinating_link_ops = {.opened = on_opened, .frame = on_frame, .closed = on_closed};
