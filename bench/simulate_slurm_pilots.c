/* SPDX-License-Identifier: MIT */
/* Pilots, their kernel timers, their jobs and their outboxes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulate_slurm.h"

/* ---- Clocks ---------------------------------------------------------------------------- */

uint64_t sim_node_clock(const struct sim_world *w, int node)
{
	const struct sim_node *n = &w->nodes[node];
	return (uint64_t)((double)(w->now - n->boot_at) * n->rate) + NS_PER_S;
}

int64_t sim_node_wall_ms(const struct sim_world *w, int node, uint64_t at)
{
	return (int64_t)(at / NS_PER_MS) + 1000000000 + w->nodes[node].wall_ms;
}

/* ---- Jobs ------------------------------------------------------------------------------ */

static void begin_job(struct sim_world *w, int pilot, struct attempt_id id)
{
	if (id.attempt == 0 || id.attempt >= SIM_ATTEMPTS || id.job == 0 || id.job > SIM_JOBS)
		sim_wrong(w, "attempt %u of job %llu: out of range", id.attempt, (unsigned long long)id.job);
	struct sim_attempt *a = &w->attempts[id.job][id.attempt];
	if (a->begun)
		sim_fail(w, "job %llu attempt %u was begun twice", (unsigned long long)id.job, id.attempt);
	for (uint32_t i = 1; i < SIM_ATTEMPTS; i++)
		if (w->attempts[id.job][i].alive)
			sim_fail(w, "job %llu: attempt %u begins on %s while attempt %u runs on %s: overlap",
				(unsigned long long)id.job, id.attempt, w->pilots[pilot].name, i,
				w->pilots[w->attempts[id.job][i].pilot].name);
	struct sim_fold f;
	sim_fold(w, id.job, &f);
	if (f.final)
		sim_fail(w, "job %llu attempt %u begins although the job is over", (unsigned long long)id.job,
			id.attempt);
	for (size_t i = 0; i < w->num_records; i++)
		if (w->journal[i].id.job == id.job && w->journal[i].id.attempt == id.attempt &&
			w->journal[i].kind != WRITE_START)
			sim_fail(w, "job %llu attempt %u begins although it has an end", (unsigned long long)id.job,
				id.attempt);
	/* Some end soon, many outlast two leases. */
	uint64_t lasts = sim_chance(w, 4) ? sim_seconds(w, 1, 8) : sim_seconds(w, 20, 200);
	*a = (struct sim_attempt){.begun = true,
		.alive = true,
		.pilot = pilot,
		.over_at = w->now + lasts,
		.planned = sim_chance(w, 10) ? OUTCOME_FAILED : OUTCOME_COMPLETED,
		.handles_term = sim_chance(w, 2)};
	w->begins++;
	sim_say(w, "%s begins job %llu attempt %u", w->pilots[pilot].name, (unsigned long long)id.job, id.attempt);
	sim_pilot_event(w, pilot, &(struct pilot_event){.kind = PILOT_STARTED, .id = id, .pid = 1});
}

static void exit_job(struct sim_world *w, struct attempt_id id, enum attempt_outcome actual, int signal, bool ours)
{
	struct sim_attempt *a = &w->attempts[id.job][id.attempt];
	const struct sim_pilot *p = &w->pilots[a->pilot];
	a->alive = false;
	a->actual = actual;
	a->near_term = p->term || a->stopped;
	a->exited_at = w->now;
	bool ok = !signal && (actual != OUTCOME_FAILED);
	/* The keeper's view: exit code 0 is completed, whatever the reason. */
	enum attempt_outcome seen = ok ? OUTCOME_COMPLETED : OUTCOME_FAILED;
	if (ours)
		seen = a->mode == CANCEL_INTERRUPT ? OUTCOME_INTERRUPTED : OUTCOME_CANCELLED;
	sim_pilot_event(w, a->pilot,
		&(struct pilot_event){.kind = PILOT_EXITED,
			.exited = {.id = id,
				.exit_code = signal ? -1
					     : ok   ? 0
						    : 1,
				.signal = signal,
				.ours = ours,
				.outcome = seen,
				.exited_ns = sim_node_clock(w, p->node),
				.duration_ms = 1,
				.peak_mem_mb = -1}});
}

static void job_step(struct sim_world *w, struct attempt_id id, struct sim_attempt *a)
{
	if (a->told_by_slurm && w->now >= a->term_at) {
		/* Slurm sent the signal directly, before the pilot knew of it: not our signal. */
		a->told_by_slurm = false;
		if (a->handles_term || sim_chance(w, 2))
			exit_job(w, id, OUTCOME_INTERRUPTED, a->handles_term ? 0 : 15, false);
	} else if (a->stopped && w->now >= a->stop_at)
		exit_job(w, id, a->mode == CANCEL_INTERRUPT ? OUTCOME_INTERRUPTED : OUTCOME_CANCELLED,
			a->handles_term ? 0 : 15, true);
	else if (w->now >= a->over_at)
		exit_job(w, id, a->planned, 0, false);
}

static void jobs_step(struct sim_world *w)
{
	for (uint64_t job = 1; job <= SIM_JOBS; job++)
		for (uint32_t i = 1; i < SIM_ATTEMPTS; i++)
			if (w->attempts[job][i].alive)
				job_step(w, (struct attempt_id){job, i}, &w->attempts[job][i]);
}

static void stop_job(struct sim_world *w, struct attempt_id id, enum cancel_mode mode)
{
	struct sim_attempt *a = &w->attempts[id.job][id.attempt];
	if (!a->alive || a->stopped)
		return;
	a->stopped = true;
	a->mode = mode;
	a->stop_at = w->now + sim_seconds(w, 0, 3);
}

/* ---- Actions --------------------------------------------------------------------------- */

/* The attempt ended so recently that the pilot cannot know whether its own end was the cause; or while the pilot was
 * stopped. */
static bool is_recent(const struct sim_world *w, int pilot, const struct sim_attempt *a)
{
	const struct sim_pilot *p = &w->pilots[pilot];
	bool unseen = w->now < p->paused_until + 300 * NS_PER_MS && a->exited_at >= p->paused_at;
	return unseen || w->now < a->exited_at + 300 * NS_PER_MS;
}

static void stop_all(struct sim_world *w, int pilot)
{
	for (uint64_t job = 1; job <= SIM_JOBS; job++)
		for (uint32_t i = 1; i < SIM_ATTEMPTS; i++)
			if (w->attempts[job][i].pilot == pilot && w->attempts[job][i].alive)
				stop_job(w, (struct attempt_id){job, i}, CANCEL_INTERRUPT);
			else if (w->attempts[job][i].pilot == pilot && is_recent(w, pilot, &w->attempts[job][i]))
				w->attempts[job][i].near_term = true;
}

static void record(struct sim_world *w, struct sim_pilot *p, const struct frame_end *end)
{
	if (p->num_outbox == sizeof(p->outbox) / sizeof(*p->outbox))
		sim_wrong(w, "outbox too small");
	p->outbox[p->num_outbox++] =
		(struct sim_outbox){.end = *end, .sync_at = w->now + sim_random(w, 300) * NS_PER_MS};
}

static void outbox_step(struct sim_world *w, struct sim_pilot *p)
{
	for (size_t i = 0; i < p->num_outbox; i++) {
		struct sim_outbox *o = &p->outbox[i];
		if (o->synced)
			continue;
		if (w->now < o->sync_at || w->now < w->nodes[p->node].nfs_until)
			return; /* in order */
		o->synced = true;
		w->attempts[o->end.id.job][o->end.id.attempt].in_outbox = true;
	}
}

static void execute(struct sim_world *w, int pilot, const struct pilot_action *a)
{
	struct sim_pilot *p = &w->pilots[pilot];
	switch (a->kind) {
	case PILOT_CONNECT:
		sim_link_open(w, pilot, a->connection);
		break;
	case PILOT_CLOSE:
		sim_link_close_by_pilot(w, pilot, a->connection);
		break;
	case PILOT_SEND:
		sim_link_send_to_coordinator(w, pilot, a->connection, a->frame);
		break;
	case PILOT_ARM:
		p->armed_ns = a->deadline_ns;
		break;
	case PILOT_BEGIN:
		begin_job(w, pilot, a->grant->id);
		break;
	case PILOT_STOP:
		stop_job(w, a->id, a->mode);
		break;
	case PILOT_END_ALL:
		stop_all(w, pilot);
		break;
	case PILOT_RECORD:
		record(w, p, a->end);
		break;
	case PILOT_LEAVE:
		sim_say(w, "%s leaves: %s", p->name, a->words);
		sim_pilot_kill(w, pilot, false);
		break;
	}
}

static void handle(struct sim_world *w, int pilot, const struct pilot_event *e)
{
	struct sim_pilot *p = &w->pilots[pilot];
	struct pilot_action a;
	if (pilot_core_handle(p->core, sim_node_clock(w, p->node), e) < 0)
		abort();
	while (p->alive && pilot_core_next(p->core, &a))
		execute(w, pilot, &a);
}

void sim_pilot_event(struct sim_world *w, int pilot, const struct pilot_event *e)
{
	struct sim_pilot *p = &w->pilots[pilot];
	struct sim_pilot_event *q = p->alive ? calloc(1, sizeof(*q)) : NULL;
	if (!q)
		return;
	q->event = *e;
	if (e->frame)
		q->event.frame = q->frame = sim_frame_copy(e->frame);
	*p->last = q;
	p->last = &q->next;
}

static void free_event(struct sim_pilot *p)
{
	struct sim_pilot_event *q = p->first;
	p->first = q->next;
	if (!p->first)
		p->last = &p->first;
	sim_frame_free(q->frame);
	free(q);
}

/* ---- Life and death -------------------------------------------------------------------- */

int sim_pilot_start(struct sim_world *w, int node, uint64_t slurm_job)
{
	if (w->num_pilots == SIM_PILOTS)
		sim_wrong(w, "too many pilots");
	int index = w->num_pilots++;
	struct sim_pilot *p = &w->pilots[index];
	*p = (struct sim_pilot){.used = true, .alive = true, .node = node, .slurm_job = slurm_job};
	p->last = &p->first;
	struct frame_gpu gpus[SIM_SLOTS] = {{.index = 0, .healthy = 1}, {.index = 1, .healthy = 1}};
	struct pilot_settings s = {.slurm_job = slurm_job,
		.started_ms = sim_node_wall_ms(w, node, w->now),
		.until_ns = sim_node_clock(w, node) + sim_seconds(w, 200, 900),
		.gpus = gpus,
		.num_gpus = SIM_SLOTS};
	snprintf(p->name, sizeof(p->name), "p%d", index);
	snprintf(s.pilot, sizeof(s.pilot), "p%d", index);
	snprintf(s.node, sizeof(s.node), "n%d", node);
	if (pilot_core_create(&s, sim_node_clock(w, node), &p->core) < 0)
		abort();
	sim_say(w, "%s starts on n%d as Slurm job %llu", p->name, node, (unsigned long long)slurm_job);
	return index;
}

void sim_pilot_kill(struct sim_world *w, int pilot, bool power)
{
	struct sim_pilot *p = &w->pilots[pilot];
	if (!p->alive)
		return;
	sim_say(w, "%s dies", p->name);
	p->alive = false;
	while (p->first)
		free_event(p);
	for (uint64_t job = 1; job <= SIM_JOBS; job++)
		for (uint32_t i = 1; i < SIM_ATTEMPTS; i++) {
			struct sim_attempt *a = &w->attempts[job][i];
			if (a->alive && a->pilot == pilot) {
				a->alive = false;
				a->actual = OUTCOME_INTERRUPTED;
			}
		}
	/* Unsynced lines are lost with the node, and maybe without it. */
	while (p->num_outbox && !p->outbox[p->num_outbox - 1].synced && (power || sim_chance(w, 2)))
		p->num_outbox--;
	if (!power)
		sim_links_drop_pilot(w, pilot);
	else
		for (size_t i = 0; i < SIM_LINKS; i++)
			if (w->links[i].used && w->links[i].pilot == pilot)
				w->links[i].open[TO_PILOT] = false;
}

/* scancel, preemption or the walltime: the jobs may be signaled a moment before the pilot is. */
void sim_pilot_term(struct sim_world *w, int pilot)
{
	struct sim_pilot *p = &w->pilots[pilot];
	if (!p->alive || p->term)
		return;
	p->term = true;
	for (uint64_t job = 1; job <= SIM_JOBS; job++)
		for (uint32_t i = 1; i < SIM_ATTEMPTS; i++) {
			struct sim_attempt *a = &w->attempts[job][i];
			if (a->alive && a->pilot == pilot) {
				a->told_by_slurm = true;
				a->term_at = w->now;
				job_step(w, (struct attempt_id){job, i}, a);
			}
		}
	sim_pilot_event(w, pilot, &(struct pilot_event){.kind = PILOT_TERM});
}

static void pilot_step(struct sim_world *w, int index)
{
	struct sim_pilot *p = &w->pilots[index];
	uint64_t clock = sim_node_clock(w, p->node);
	/* The kernel's timer fires whatever the agent does. */
	if (p->armed_ns && clock >= p->armed_ns) {
		sim_say(w, "%s: the guard's timer", p->name);
		sim_pilot_kill(w, index, false);
		return;
	}
	if (w->now < p->paused_until)
		return;
	while (p->alive && p->first) {
		handle(w, index, &p->first->event);
		if (p->alive)
			free_event(p);
	}
	if (p->alive && clock >= pilot_core_wake_ns(p->core))
		handle(w, index, &(struct pilot_event){.kind = PILOT_TICK});
}

void sim_pilots_step(struct sim_world *w)
{
	jobs_step(w);
	for (int i = 0; i < w->num_pilots; i++) {
		struct sim_pilot *p = &w->pilots[i];
		if (p->alive)
			outbox_step(w, p);
		if (p->alive)
			pilot_step(w, i);
	}
}
