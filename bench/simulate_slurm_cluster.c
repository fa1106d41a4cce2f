/* SPDX-License-Identifier: MIT */
/* Slurm with its real weaknesses: it marks nodes down whose processes are still running, saves its state late, and
 * loses jobs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulate_slurm.h"

/* A node whose slurmd does not answer for this long is down. */
#define NODE_DOWN_NS (35 * NS_PER_S)
#define KILL_WAIT_NS (30 * NS_PER_S)

static bool is_responding(const struct sim_world *w, const struct sim_node *n)
{
	return (n->up && n->slurmd) || w->now < n->slurmd_dead_at + NODE_DOWN_NS;
}

static bool has_slurmd(const struct sim_node *n)
{
	return n->up && n->slurmd;
}

/* ---- Listings -------------------------------------------------------------------------- */

static enum listed_state listed(enum sim_slurm_state state)
{
	static const enum listed_state states[] = {
		[SIM_RUNNING] = LISTED_RUNNING,
		[SIM_COMPLETING] = LISTED_COMPLETING,
		[SIM_TERMINAL] = LISTED_TERMINAL,
		[SIM_NODE_FAIL] = LISTED_OTHER,
		[SIM_PENDING] = LISTED_PENDING,
	};
	return states[state];
}

void sim_cluster_list(struct sim_world *w, struct sim_answer *a)
{
	struct slurm_listing *l = &a->listing;
	l->ok = w->now >= w->ctld_away_until;
	l->cgroup = w->seed % 4 != 0;
	l->boot_before_ms = l->boot_after_ms = w->ctld.boot_ms;
	a->jobs = calloc(w->ctld.num_jobs + 1, sizeof(*a->jobs));
	a->nodes = calloc(SIM_NODES, sizeof(*a->nodes));
	if (!a->jobs || !a->nodes)
		abort();
	for (size_t i = 0; i < w->ctld.num_jobs; i++) {
		const struct sim_slurm_job *j = &w->ctld.jobs[i];
		struct listed_job *r = &a->jobs[l->num_jobs];
		if (!j->used)
			continue;
		*r = (struct listed_job){.slurm_job = j->id, .state = listed(j->state), .restarts = j->restarts};
		if (j->state != SIM_PENDING)
			snprintf(r->node, sizeof(r->node), "n%d", j->node);
		l->num_jobs++;
	}
	/* An empty answer that is not an error. */
	if (!w->calm && sim_chance(w, 30))
		l->num_jobs = 0;
	for (int i = 0; i < SIM_NODES; i++) {
		const struct sim_node *n = &w->nodes[i];
		struct listed_node *r = &a->nodes[l->num_nodes++];
		*r = (struct listed_node){.responding = is_responding(w, n),
			.boot_ms = sim_node_wall_ms(w, i, n->boot_at),
			.slurmd_start_ms = sim_node_wall_ms(w, i, n->slurmd_at)};
		snprintf(r->name, sizeof(r->name), "n%d", i);
	}
}

/* ---- Jobs of Slurm --------------------------------------------------------------------- */

static void cancel(struct sim_world *w, struct sim_slurm_job *j)
{
	if (j->state != SIM_RUNNING)
		return;
	sim_say(w, "scancel of Slurm job %llu", (unsigned long long)j->id);
	j->state = SIM_COMPLETING;
	j->kill_at = 0;
}

static void completing_step(struct sim_world *w, struct sim_slurm_job *j)
{
	const struct sim_node *n = &w->nodes[j->node];
	struct sim_pilot *p = &w->pilots[j->pilot];
	if (!is_responding(w, n)) {
		j->state = SIM_TERMINAL; /* slurmctld has marked the node down: its processes may still be running */
		return;
	}
	if (!has_slurmd(n))
		return;
	if (!j->kill_at) {
		sim_pilot_term(w, j->pilot);
		j->kill_at = w->now + KILL_WAIT_NS;
	} else if (w->now >= j->kill_at)
		sim_pilot_kill(w, j->pilot, false);
	if (!p->alive)
		j->state = SIM_TERMINAL;
}

/* A job that is listed as ended, or unknown, but has processes: slurmd ends them once it is contacted. */
static void clean_step(struct sim_world *w, int node)
{
	const struct sim_node *n = &w->nodes[node];
	if (!has_slurmd(n) || w->now < n->slurmd_at + 12 * NS_PER_S)
		return;
	for (int i = 0; i < w->num_pilots; i++) {
		bool wanted = !w->pilots[i].alive || w->pilots[i].node != node;
		for (size_t k = 0; k < w->ctld.num_jobs && !wanted; k++) {
			const struct sim_slurm_job *j = &w->ctld.jobs[k];
			wanted = j->used && j->pilot == i && (j->state == SIM_RUNNING || j->state == SIM_COMPLETING);
		}
		if (!wanted && sim_chance(w, 400))
			sim_pilot_kill(w, i, false);
	}
}

static void job_step(struct sim_world *w, struct sim_slurm_job *j)
{
	const struct sim_node *n = &w->nodes[j->node];
	const struct sim_pilot *p = &w->pilots[j->pilot];
	if (j->state == SIM_COMPLETING)
		completing_step(w, j);
	else if (j->state == SIM_RUNNING && !is_responding(w, n))
		j->state = sim_chance(w, 3) ? SIM_PENDING : SIM_NODE_FAIL;
	else if (j->state == SIM_RUNNING && !p->alive && has_slurmd(n))
		j->state = SIM_TERMINAL;
	else if (j->state == SIM_PENDING && sim_chance(w, 400)) {
		/* Requeued despite --no-requeue: the same job, another process. */
		int node = (int)sim_random(w, SIM_NODES);
		if (!has_slurmd(&w->nodes[node]) || w->num_pilots > SIM_PILOTS - 8)
			return;
		j->node = node;
		j->restarts += sim_chance(w, 2);
		j->pilot = sim_pilot_start(w, node, j->id);
		j->state = SIM_RUNNING;
	}
}

/* As many pilots as there are nodes, as the coordinator would submit them. */
static void launch(struct sim_world *w)
{
	size_t active = 0;
	for (size_t i = 0; i < w->ctld.num_jobs; i++)
		active += w->ctld.jobs[i].used && w->ctld.jobs[i].state != SIM_TERMINAL &&
			  w->ctld.jobs[i].state != SIM_NODE_FAIL;
	int node = (int)sim_random(w, SIM_NODES);
	bool busy = !has_slurmd(&w->nodes[node]);
	for (int i = 0; i < w->num_pilots; i++)
		busy = busy || (w->pilots[i].alive && w->pilots[i].node == node);
	if (active >= SIM_NODES || busy || w->now < w->next_launch_at || w->num_pilots > SIM_PILOTS - 8 ||
		w->ctld.num_jobs == SIM_PILOTS || w->now < w->ctld_away_until)
		return;
	uint64_t id = 1000 + (uint64_t)w->num_pilots;
	w->next_launch_at = w->now + sim_seconds(w, 1, 10);
	w->ctld.jobs[w->ctld.num_jobs++] =
		(struct sim_slurm_job){.used = true, .id = id, .node = node, .pilot = sim_pilot_start(w, node, id)};
}

static void node_step(struct sim_world *w, int index)
{
	struct sim_node *n = &w->nodes[index];
	if (!n->up && w->now >= n->up_at) {
		n->up = n->slurmd = true;
		n->boot_at = n->slurmd_at = w->now;
		sim_say(w, "n%d boots", index);
	} else if (n->up && !n->slurmd && w->now >= n->slurmd_back_at) {
		n->slurmd = true;
		n->slurmd_at = w->now;
	}
	clean_step(w, index);
}

void sim_cluster_step(struct sim_world *w)
{
	for (int i = 0; i < SIM_NODES; i++)
		node_step(w, i);
	if (w->now < w->ctld_away_until)
		return;
	for (size_t i = 0; i < w->ctld.num_jobs; i++)
		if (w->ctld.jobs[i].used)
			job_step(w, &w->ctld.jobs[i]);
	launch(w);
	if (sim_chance(w, 300))
		w->saved = w->ctld;
}

/* ---- Faults ---------------------------------------------------------------------------- */

/* Usually a pilot that has work: faults of idle pilots test nothing. */
static int some_pilot(struct sim_world *w)
{
	int alive[SIM_PILOTS], count = 0;
	for (int i = 0; i < w->num_pilots; i++)
		if (w->pilots[i].alive)
			alive[count++] = i;
	return count ? alive[sim_random(w, (uint32_t)count)] : -1;
}

static void power_loss(struct sim_world *w, int node)
{
	struct sim_node *n = &w->nodes[node];
	if (!n->up)
		return;
	sim_say(w, "n%d loses power", node);
	n->up = n->slurmd = false;
	n->slurmd_dead_at = w->now;
	n->up_at = w->now + sim_seconds(w, 20, 120);
	for (int i = 0; i < w->num_pilots; i++)
		if (w->pilots[i].node == node)
			sim_pilot_kill(w, i, true);
}

static void kill_slurmd(struct sim_world *w, int node)
{
	struct sim_node *n = &w->nodes[node];
	if (!has_slurmd(n))
		return;
	n->slurmd = false;
	n->slurmd_dead_at = w->now;
	n->slurmd_back_at = w->now + sim_seconds(w, 5, 200);
}

/* slurmctld restarts with its last saved state. */
static void restart_ctld(struct sim_world *w)
{
	sim_say(w, "slurmctld comes back with an old state");
	w->ctld = w->saved;
	w->ctld.boot_ms = (int64_t)(w->now / NS_PER_MS) + 1;
	w->ctld_away_until = w->now + sim_seconds(w, 1, 40);
}

static void coordinator_fault(struct sim_world *w)
{
	struct sim_coordinator *c = &w->coordinators[w->current];
	if (!c->alive)
		return;
	switch (sim_random(w, 4)) {
	case 0:
		sim_coordinator_kill(w, w->current, false);
		break;
	case 1:
		sim_coordinator_kill(w, w->current, true);
		break;
	case 2:
		c->paused_until = w->now + sim_seconds(w, 1, 150);
		break;
	default: /* --takeover, while the old coordinator is stopped and resumes later */
		c->paused_until = w->now + sim_seconds(w, 1, 100);
		w->restart_at = w->now + sim_seconds(w, 1, 30);
	}
}

void sim_faults(struct sim_world *w)
{
	int pilot = some_pilot(w), node = pilot >= 0 ? w->pilots[pilot].node : (int)sim_random(w, SIM_NODES);
	if (!sim_chance(w, 500))
		return;
	w->faults++;
	switch (sim_random(w, 10)) {
	case 0:
		power_loss(w, node);
		break;
	case 1:
	case 2:
		sim_say(w, "n%d is cut off", node);
		w->nodes[node].cut_until = w->now + sim_seconds(w, 1, 200);
		break;
	case 3:
		w->nodes[node].nfs_until = w->now + sim_seconds(w, 1, 120);
		break;
	case 4:
		w->outbox_bad_until = w->now + sim_seconds(w, 1, 60);
		break;
	case 5:
		if (pilot >= 0) {
			sim_say(w, "%s is stopped", w->pilots[pilot].name);
			w->pilots[pilot].paused_at = w->now;
			w->pilots[pilot].paused_until = w->now + sim_seconds(w, 1, 200);
		}
		break;
	case 6:
		kill_slurmd(w, node);
		break;
	case 7:
		if (sim_chance(w, 2))
			restart_ctld(w);
		else
			w->ctld_away_until = w->now + sim_seconds(w, 1, 100);
		break;
	case 8:
		if (w->ctld.num_jobs)
			cancel(w, &w->ctld.jobs[sim_random(w, (uint32_t)w->ctld.num_jobs)]);
		break;
	default:
		coordinator_fault(w);
	}
}
