/* SPDX-License-Identifier: MIT */
/*
 * Rules that decide when a pilot is dead. Each rule prevents a known false proof: a node that Slurm had marked down
 * while its processes were still running, a slurmctld that restarted with an old state, an answer that was empty
 * because it was late.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "slurm/coordinator_private.h"
#include "slurm/mutant.h"

#define OUTBOX_NS (2 * NS_PER_S)
/* How long the outbox of a dead pilot must be damaged in the same way before its intact lines are used. */
#define OUTBOX_DAMAGED_NS (60 * NS_PER_S)
#define LIST_NS           (20 * NS_PER_S)
#define LIST_AWAY_NS      (5 * NS_PER_S)
/* Between two listings this far apart, Slurm can mark a node down and return it to service. */
#define LIST_GAP_NS (30 * NS_PER_S)
/* Boot time and start time come from the same clock, but it may have been adjusted in between. */
#define BOOT_SLACK_MS 60000

uint64_t coordinator_lease_proof_ns(const struct coordinator_core *c, const struct known_pilot *p)
{
	return p->acked_ns + (uint64_t)p->lease_ms * NS_PER_MS + coordinator_margin_ns(c, p);
}

/* The grace period after a restart; 0: there was no restart. A pilot whose lease has ended can no longer connect. */
uint64_t coordinator_fence_ns(const struct coordinator_core *c, const struct known_pilot *p)
{
	uint64_t grace = (uint64_t)p->lease_ms * NS_PER_MS + coordinator_margin_ns(c, p);
	if (c->settings.epoch == 1)
		return 0;
	return c->begin_ns + (grace < COORDINATOR_GRACE_NS ? grace : COORDINATOR_GRACE_NS);
}

static bool may_be_dead(const struct coordinator_core *c, const struct known_pilot *p)
{
	bool absent = p->state == PILOT_STATE_AWAY || p->state == PILOT_STATE_EXPECTED;
	return absent && c->now_ns >= coordinator_fence_ns(c, p);
}

static void declare_dead(struct known_pilot *p, enum death_proof proof)
{
	p->state = PILOT_STATE_DEAD;
	p->proof = proof;
	p->next_outbox_ns = 0;
}

/* ---- Slurm's listings ------------------------------------------------------------------ */

static bool is_relaunched(const struct coordinator_core *c, const struct known_pilot *p, const struct listed_job *job)
{
	for (size_t i = 0; i < c->num_pilots; i++)
		if (c->pilots[i] != p && c->pilots[i]->slurm_job == p->slurm_job)
			return true;
	return job->restarts > 0 || strcmp(job->node, p->node) != 0;
}

/* Whether this listing could be part of proof (d) for the pilot. */
static bool is_sound(const struct coordinator_core *c, const struct known_pilot *p, const struct slurm_listing *l,
	const struct listed_job *job, const struct listed_node *node)
{
	return l->cgroup && job && node && node->responding && l->boot_before_ms &&
	       l->boot_before_ms == l->boot_after_ms && !is_relaunched(c, p, job);
}

static void follow_job(struct coordinator_core *c, struct known_pilot *p, const struct slurm_listing *l)
{
	const struct listed_job *job = p->slurm_job ? listing_find_job(l, p->slurm_job) : NULL;
	const struct listed_node *node = *p->node ? listing_find_node(l, p->node) : NULL;
	bool sound = is_sound(c, p, l, job, node);
	struct slurm_watch *w = &p->watch;
	if (sound && job->state == LISTED_TERMINAL) {
		w->valid = w->valid && w->ctld_boot_ms == l->boot_after_ms &&
			   w->slurmd_start_ms == node->slurmd_start_ms && c->now_ns - w->seen_ns <= LIST_GAP_NS;
		w->seen_ns = c->now_ns;
		/* If the pilot must not be declared dead yet, a later listing does that: see may_be_dead(). */
		if (w->valid && may_be_dead(c, p))
			declare_dead(p, PROOF_SLURM);
		return;
	}
	if (sound && (job->state == LISTED_RUNNING || job->state == LISTED_COMPLETING))
		*w = (struct slurm_watch){.valid = true,
			.ctld_boot_ms = l->boot_after_ms,
			.slurmd_start_ms = node->slurmd_start_ms,
			.seen_ns = c->now_ns};
	else
		w->valid = false;
	if (slurm_mutant_is(MUTANT_NOT_R) && may_be_dead(c, p) && (!job || job->state != LISTED_RUNNING))
		declare_dead(p, PROOF_SLURM);
}

static void look_at_boot(struct coordinator_core *c, struct known_pilot *p, const struct slurm_listing *l)
{
	const struct listed_node *node = *p->node ? listing_find_node(l, p->node) : NULL;
	if (!node || !p->started_ms || !may_be_dead(c, p))
		return;
	/* Setting the clock forward changes the boot time, but does not restart slurmd. */
	if (node->boot_ms > p->started_ms + BOOT_SLACK_MS && node->slurmd_start_ms > p->started_ms + BOOT_SLACK_MS)
		declare_dead(p, PROOF_BOOT);
}

/* Whether the core knows all pilots of the listing. A pilot that is pending in Slurm, or has ended, runs no job. */
static bool all_have_greeted(const struct coordinator_core *c, const struct slurm_listing *l)
{
	for (size_t i = 0; i < l->num_jobs; i++) {
		bool known = l->jobs[i].state == LISTED_PENDING || l->jobs[i].state == LISTED_TERMINAL;
		for (size_t k = 0; k < c->num_pilots && !known; k++)
			known = c->pilots[k]->slurm_job == l->jobs[i].slurm_job;
		if (!known)
			return false;
	}
	return true;
}

void coordinator_on_listed(struct coordinator_core *c, const struct slurm_listing *l)
{
	if (!l->ok)
		return;
	for (size_t i = 0; i < c->num_pilots; i++) {
		struct known_pilot *p = c->pilots[i];
		if (p->state == PILOT_STATE_DEAD || p->state == PILOT_STATE_GONE)
			continue;
		follow_job(c, p, l);
		look_at_boot(c, p, l);
	}
	c->listed_all = c->listed_all || all_have_greeted(c, l);
}

/* ---- The outbox ------------------------------------------------------------------------ */

/* What is wrong with an outbox, and what happens now. */
static const char *outbox_words(int result)
{
	return result == -EBADMSG   ? "is damaged; after a minute its intact lines are used"
	       : result == -ENODATA ? "has no first line; after a minute it counts as empty"
	       : result == -ENOENT
		       ? "is missing; if it is lost, create an empty file: the pilot's jobs then start again"
		       : "cannot be read";
}

static void say_outbox(struct coordinator_core *c, const struct known_pilot *p, const char *words)
{
	struct coordinator_queued *q = coordinator_push(c, COORDINATOR_SAY, p, 0);
	if (q)
		snprintf(q->words, sizeof(q->words), "pilots/%.40s.jsonl in the queue's folder %s", p->name, words);
}

/* A damaged file stays damaged; a file server that restarts or caches shows old data for a shorter time. */
static bool must_wait_for_outbox(struct coordinator_core *c, struct known_pilot *p, int result)
{
	bool damaged = result == -EBADMSG || result == -ENODATA;
	if (result != p->outbox_result) {
		p->outbox_result = result;
		p->outbox_since_ns = c->now_ns;
		say_outbox(c, p, outbox_words(result));
	}
	if (!damaged || c->now_ns < p->outbox_since_ns + OUTBOX_DAMAGED_NS)
		return true;
	say_outbox(c, p, "is damaged: jobs whose end cannot be read from it run again");
	return false;
}

void coordinator_on_outbox(struct coordinator_core *c, const struct coordinator_event *e)
{
	struct known_pilot *p = coordinator_find_pilot(c, e->pilot);
	if (!p || p->state != PILOT_STATE_DEAD || p->outbox_done)
		return;
	if (e->result < 0 && must_wait_for_outbox(c, p, e->result)) {
		p->next_outbox_ns = c->now_ns + OUTBOX_NS;
		return;
	}
	p->outbox_done = true;
	coordinator_lose_attempts(c, p, e->ends, e->num_ends);
}

/* ---- Time ------------------------------------------------------------------------------ */

static void judge(struct coordinator_core *c, struct known_pilot *p)
{
	if (!may_be_dead(c, p))
		return;
	if (c->now_ns >= coordinator_lease_proof_ns(c, p) || slurm_mutant_is(MUTANT_NO_WAIT))
		declare_dead(p, PROOF_LEASE);
	else if (p->end_ns && c->now_ns >= p->end_ns + coordinator_margin_ns(c, p))
		declare_dead(p, PROOF_UNTIL);
}

static void list(struct coordinator_core *c)
{
	bool any = !c->recovered, away = !c->recovered;
	for (size_t i = 0; i < c->num_pilots; i++) {
		enum pilot_state state = c->pilots[i]->state;
		any = any || state != PILOT_STATE_GONE;
		away = away || state == PILOT_STATE_AWAY || state == PILOT_STATE_EXPECTED;
	}
	uint64_t interval = away ? LIST_AWAY_NS : LIST_NS;
	/* List sooner if a pilot has just gone away. */
	if (any && c->next_list_ns > c->now_ns + interval)
		c->next_list_ns = c->now_ns + interval;
	if (!any) {
		c->next_list_ns = UINT64_MAX;
		return;
	}
	if (c->now_ns < c->next_list_ns)
		return;
	coordinator_push(c, COORDINATOR_LIST, NULL, 0);
	c->next_list_ns = c->now_ns + interval;
}

void coordinator_step_deaths(struct coordinator_core *c)
{
	for (size_t i = 0; i < c->num_pilots; i++) {
		struct known_pilot *p = c->pilots[i];
		judge(c, p);
		if (p->state != PILOT_STATE_DEAD || p->outbox_done || c->now_ns < p->next_outbox_ns)
			continue;
		coordinator_push(c, COORDINATOR_READ_OUTBOX, p, 0);
		p->next_outbox_ns = UINT64_MAX; /* until the answer */
	}
	list(c);
}
