/* SPDX-License-Identifier: MIT */
#include "slurm/coordinator_hooks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/machine.h"
#include "queue/journal/record.h"
#include "queue/keeper/hook.h"
#include "queue/keeper/hook_order.h"
#include "queue/keeper/keeper_lock.h"
#include "queue/keeper/nursery.h"
#include "slurm/coordinating.h"
#include "slurm/node_keeper.h"

#define MOST_AT_ONCE 4
/* Delay before a hook that could not be started is retried. */
#define AGAIN_NS NS_PER_S

struct coordinator_hooks {
	struct coordinator *coordinator;
	struct machine here;
	pid_t nursery_pid;
	int nursery_fd;
	struct node_keeper *keepers; /* a list */
	uint64_t pause_until_ns;
};

int coordinator_hooks_open(struct coordinator *c, struct coordinator_hooks **ret, struct gd_error *err)
{
	const struct journal *j = c->options.journal;
	struct coordinator_hooks *h = calloc(1, sizeof(*h));
	if (!h)
		return error_set(err, -ENOMEM, "cannot start the coordinator: out of memory");
	h->coordinator = c;
	h->nursery_fd = -1;
	int e = machine_get(&h->here);
	if (e < 0)
		error_set(err, e, "cannot start the coordinator: %s", error_words(e));
	if (e == 0)
		e = nursery_start(&(struct nursery_options){.journal_path = j->path,
					  .parent_fd = j->parent_fd,
					  .accepted = j->accepted,
					  .allocation = ""},
			&h->nursery_pid, &h->nursery_fd, err);
	if (e < 0) {
		free(h);
		return e;
	}
	*ret = h;
	return 0;
}

void coordinator_hooks_close(struct coordinator_hooks *h)
{
	if (!h)
		return;
	while (h->keepers)
		node_keeper_destroy(h->keepers);
	closep(&h->nursery_fd);
	free(h);
}

int coordinator_hooks_nursery(const struct coordinator_hooks *h)
{
	return h->nursery_fd;
}

void coordinator_hooks_add(struct coordinator *c, const struct job *job)
{
	if (!job->wish->on_finish && c->options.on_finish)
		record_write_hook(
			&c->to_append, &(struct hook_record){.id = job->id, .on_finish = c->options.on_finish});
}

void coordinator_hooks_failed(void *context, const struct job *job, const struct record *outcome)
{
	cleanup_(text_finish) struct text words = {0};
	hook_failure_words(&words, job, outcome);
	coordinating_say(context, text_string(&words));
}

/* ---- Due hooks -------------------------------------------------------------------------- */

static bool is_foreign(const struct coordinator_hooks *hooks, const struct due_hook *h)
{
	return h->keeper && !keeper_is_here(h->keeper, &hooks->here);
}

static bool is_in_hand(const struct coordinator_hooks *hooks, const struct due_hook *h)
{
	for (const struct node_keeper *k = hooks->keepers; k; k = k->next)
		if (k->busy && k->hook_id == h->id && k->hook_attempt == h->attempt)
			return true;
	return h->keeper && keeper_lock_holder(hooks->coordinator->options.journal->dir_fd, h->keeper) != 0;
}

static size_t count_busy(const struct coordinator_hooks *hooks)
{
	size_t n = 0;
	for (const struct node_keeper *k = hooks->keepers; k; k = k->next)
		n += k->busy;
	return n;
}

bool coordinator_hooks_are_due(const struct coordinator *c)
{
	if (count_busy(c->hooks))
		return true;
	for (const struct due_hook *h = coordinator_journal_jobs(c->journal)->hooks; h; h = h->next)
		if (!is_foreign(c->hooks, h))
			return true;
	return false;
}

uint64_t coordinator_hooks_wake_ns(const struct coordinator_hooks *h)
{
	return h->pause_until_ns;
}

/* ---- Keepers ---------------------------------------------------------------------------- */

static void pause_hooks(struct coordinator_hooks *hooks)
{
	hooks->pause_until_ns = clock_now_ns() + AGAIN_NS;
}

static void on_note(void *context, struct node_keeper *k, const struct keeper_note *note)
{
	struct coordinator_hooks *hooks = context;
	/* After -ESTALE (the fence was raised), the journal is read and the hook is handed out again. */
	if (note->kind == KEEPER_NOTE_REFUSED && note->code != -ESTALE)
		pause_hooks(hooks);
	if (note->kind == KEEPER_NOTE_READY)
		k->busy = false;
	hooks->coordinator->must_read = true;
}

/* If the keeper wrote no outcome, its hook is still due. */
static void on_gone(void *context, struct node_keeper *k)
{
	struct coordinator_hooks *hooks = context;
	(void)k;
	pause_hooks(hooks);
	hooks->coordinator->must_read = true;
}

static struct node_keeper *idle_keeper(struct coordinator_hooks *hooks)
{
	static const struct node_keeper_ops ops = {.note = on_note, .gone = on_gone};
	struct node_keeper *k = hooks->keepers;
	while (k && k->busy)
		k = k->next;
	if (!k && node_keeper_create(hooks->coordinator->loop, hooks->nursery_fd, &ops, hooks, &hooks->keepers, &k) < 0)
		return NULL;
	return k;
}

static int hand_out(struct coordinator *c, const struct due_hook *h)
{
	cleanup_(text_finish) struct text payload = {0};
	struct keeper_order order;
	const struct job *job = coordinating_job(c, h->id);
	struct node_keeper *k = idle_keeper(c->hooks);
	if (!k || !job)
		return -EAGAIN;
	int e = hook_order_write(job, h, &c->options.order, coordinator_journal_fence(c->journal), &order, &payload);
	if (e == 0)
		e = node_keeper_send(k, &order, payload.data);
	if (e < 0)
		return e;
	k->busy = true;
	k->hook_id = h->id;
	k->hook_attempt = h->attempt;
	return 0;
}

static void give_up(struct coordinator *c, const struct due_hook *h)
{
	cleanup_(text_finish) struct text words = {0};
	hook_given_up_words(&words, h);
	coordinating_say(c, text_string(&words));
	hook_order_give_up(&c->to_append, h);
}

/* ---- Handing out ------------------------------------------------------------------------ */

/* Marks only as many as can be handed out: thousands may be due. */
static size_t find_lost(struct coordinator *c, size_t room)
{
	size_t n = 0;
	for (struct due_hook *h = coordinator_journal_jobs(c->journal)->hooks; h && n < room; h = h->next) {
		h->found = !is_foreign(c->hooks, h) && !is_in_hand(c->hooks, h);
		n += h->found;
	}
	return n;
}

static void hand_out_found(struct coordinator *c)
{
	for (struct due_hook *h = coordinator_journal_jobs(c->journal)->hooks; h; h = h->next) {
		if (!h->found)
			continue;
		h->found = false;
		if (h->tries >= HOOK_TRIES)
			give_up(c, h);
		else if (hand_out(c, h) < 0)
			pause_hooks(c->hooks);
	}
}

void coordinator_hooks_run(struct coordinator *c)
{
	size_t busy = count_busy(c->hooks);
	if (c->hooks->pause_until_ns && clock_now_ns() < c->hooks->pause_until_ns)
		return;
	c->hooks->pause_until_ns = 0;
	if (busy >= MOST_AT_ONCE || find_lost(c, MOST_AT_ONCE - busy) == 0)
		return;
	/* A keeper that died since the journal was read may have recorded that the hook ran, and orders need the
	 * current fence. Lines that could not be read now are read at the next event. */
	if (coordinator_journal_check(c->journal, &c->error) == 0 &&
		coordinator_journal_read(c->journal, &c->error) == 0)
		hand_out_found(c);
	else
		pause_hooks(c->hooks);
}
