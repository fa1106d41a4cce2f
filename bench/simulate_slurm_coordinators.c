/* SPDX-License-Identifier: MIT */
/* Coordinators, and the journal that they write. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "simulate_slurm.h"

static uint64_t clock_of(const struct sim_world *w, const struct sim_coordinator *c)
{
	return (uint64_t)((double)w->now * c->rate) + c->offset;
}

static int pilot_index(const struct sim_world *w, const char *name)
{
	int index = atoi(name + 1);
	if (*name != 'p' || index < 0 || index >= w->num_pilots)
		sim_wrong(w, "unknown pilot '%s'", name);
	return index;
}

/* ---- The journal ----------------------------------------------------------------------- */

/* The first end of an attempt counts, as in the journal's fold. */
void sim_fold(const struct sim_world *w, uint64_t job, struct sim_fold *ret)
{
	bool over[SIM_ATTEMPTS] = {false};
	*ret = (struct sim_fold){.pilot = -1};
	for (size_t i = 0; i < w->num_records; i++) {
		const struct sim_record *r = &w->journal[i];
		if (r->id.job != job)
			continue;
		uint32_t n = r->id.attempt;
		if (n > ret->last)
			ret->last = n;
		if (r->kind == WRITE_START && !over[n]) {
			ret->running = true;
			ret->pilot = r->pilot;
		}
		if (r->kind == WRITE_START || over[n])
			continue;
		over[n] = true;
		ret->running = ret->running && n != ret->last;
		ret->losses += r->kind == WRITE_LOST;
		ret->held = ret->held || r->hold;
		if (r->kind == WRITE_END && r->end.outcome != OUTCOME_INTERRUPTED) {
			ret->final = true;
			ret->finals++;
			ret->outcome = r->end.outcome;
		}
	}
}

static void check_end(const struct sim_world *w, const struct sim_record *r)
{
	const struct sim_attempt *a = &w->attempts[r->id.job][r->id.attempt];
	unsigned long long job = r->id.job;
	unsigned n = r->id.attempt;
	for (size_t i = 0; i < w->num_records; i++)
		if (w->journal[i].kind != WRITE_START && w->journal[i].id.job == r->id.job &&
			w->journal[i].id.attempt == n)
			return; /* a later end is ignored */
	if (r->kind == WRITE_VOID && a->begun)
		sim_fail(w, "job %llu attempt %u is void, but it was begun", job, n);
	if (a->alive)
		sim_fail(w, "job %llu attempt %u gets an end while it runs on %s", job, n, w->pilots[a->pilot].name);
	if (r->kind == WRITE_LOST && a->in_outbox)
		sim_fail(w, "job %llu attempt %u is lost, but its end is in the outbox", job, n);
	if (r->kind != WRITE_END)
		return;
	if (!a->begun)
		sim_fail(w, "job %llu attempt %u has an end, but it was not begun", job, n);
	bool may_be_interrupted = a->near_term || a->actual == OUTCOME_INTERRUPTED;
	if (r->end.outcome != a->actual && !(r->end.outcome == OUTCOME_INTERRUPTED && may_be_interrupted))
		sim_fail(w, "job %llu attempt %u: wrong end: %s in the journal, actually %s", job, n,
			attempt_outcome_name(r->end.outcome), attempt_outcome_name(a->actual));
}

static size_t append(struct sim_world *w, const struct sim_record *r)
{
	if (r->kind == WRITE_END || r->kind == WRITE_VOID || r->kind == WRITE_LOST)
		check_end(w, r);
	if (array_reserve(w->journal, &w->records_capacity, w->num_records + 1) < 0)
		abort();
	w->journal[w->num_records++] = *r;
	w->losses += r->kind == WRITE_LOST;
	w->voids += r->kind == WRITE_VOID;
	if (r->id.job) {
		struct sim_fold f;
		sim_fold(w, r->id.job, &f);
		if (f.finals > 1)
			sim_fail(w, "job %llu ended twice", (unsigned long long)r->id.job);
	}
	return w->num_records;
}

/* ---- Answers --------------------------------------------------------------------------- */

static struct sim_answer *answer_in(struct sim_world *w, struct sim_coordinator *c, uint64_t ns)
{
	struct sim_answer *a = calloc(1, sizeof(*a)), **last = &c->answers;
	if (!a)
		abort();
	a->at = w->now + ns;
	while (*last)
		last = &(*last)->next;
	*last = a;
	return a;
}

static void free_answer(struct sim_answer *a)
{
	free(a->ends);
	free(a->jobs);
	free(a->nodes);
	free(a);
}

static void write_line(struct sim_world *w, struct sim_coordinator *c, const struct coordinator_write *l)
{
	struct sim_answer *a = answer_in(w, c, sim_random(w, 200) * NS_PER_MS);
	a->event = (struct coordinator_event){.kind = COORDINATOR_WRITTEN, .number = l->number};
	bool has_end = l->kind == WRITE_END || l->kind == WRITE_LOST;
	if (l->kind != WRITE_END && c->epoch != w->epoch) {
		a->event.result = -ESTALE;
		return;
	}
	if (!w->calm && sim_chance(w, 100)) {
		a->event.result = sim_chance(w, 2) && l->kind == WRITE_START ? -ECANCELED : -EIO;
		return;
	}
	struct sim_record r = {.kind = l->kind,
		.id = l->id,
		.hold = l->hold,
		.pilot = pilot_index(w, l->pilot),
		.lease_ms = l->lease_ms,
		.epoch = c->epoch};
	if (has_end)
		r.end = *l->end;
	a->record = append(w, &r);
}

static void read_outbox(struct sim_world *w, struct sim_coordinator *c, const char *pilot)
{
	const struct sim_pilot *p = &w->pilots[pilot_index(w, pilot)];
	struct sim_answer *a = answer_in(w, c, sim_random(w, 500) * NS_PER_MS);
	snprintf(a->name, sizeof(a->name), "%s", pilot);
	a->event = (struct coordinator_event){.kind = COORDINATOR_OUTBOX};
	static const int errors[] = {-ENOENT, -EIO, -ESTALE};
	if (w->now < w->outbox_bad_until || (!w->calm && sim_chance(w, 5))) {
		a->event.result = errors[sim_random(w, 3)];
		return;
	}
	a->ends = calloc(p->num_outbox + 1, sizeof(*a->ends));
	if (!a->ends)
		abort();
	for (size_t i = 0; i < p->num_outbox; i++)
		a->ends[a->event.num_ends++] = p->outbox[i].end;
}

/* ---- Actions --------------------------------------------------------------------------- */

static void execute(struct sim_world *w, int index, const struct coordinator_action *x)
{
	struct sim_coordinator *c = &w->coordinators[index];
	struct sim_answer *a;
	switch (x->kind) {
	case COORDINATOR_SEND:
		sim_link_send_to_pilot(w, index, x->connection, x->frame);
		break;
	case COORDINATOR_CLOSE:
		sim_link_close_by_coordinator(w, index, x->connection);
		break;
	case COORDINATOR_WRITE:
		write_line(w, c, x->write);
		break;
	case COORDINATOR_CHECK:
		a = answer_in(w, c, sim_random(w, 50) * NS_PER_MS);
		a->event = (struct coordinator_event){
			.kind = COORDINATOR_CHECKED, .number = x->number, .result = c->epoch == w->epoch ? 0 : -ESTALE};
		break;
	case COORDINATOR_READ_OUTBOX:
		read_outbox(w, c, x->pilot);
		break;
	case COORDINATOR_LIST:
		a = answer_in(w, c, sim_seconds(w, 0, 3));
		a->event = (struct coordinator_event){.kind = COORDINATOR_LISTED};
		sim_cluster_list(w, a);
		break;
	case COORDINATOR_READY:
	case COORDINATOR_AWAY:
	case COORDINATOR_GONE:
		c->ready[pilot_index(w, x->pilot)] = x->kind == COORDINATOR_READY;
		if (x->kind == COORDINATOR_GONE) {
			w->proofs[x->proof]++;
			sim_say(w, "coordinator %d: %s gone, proof %s", index, x->pilot, death_proof_name(x->proof));
		}
		break;
	case COORDINATOR_SUPERSEDED:
		sim_coordinator_kill(w, index, false);
		break;
	default:
		break;
	}
}

static void drain(struct sim_world *w, int index)
{
	struct sim_coordinator *c = &w->coordinators[index];
	struct coordinator_action a;
	while (c->alive && coordinator_core_next(c->core, &a))
		execute(w, index, &a);
}

void sim_coordinator_event(struct sim_world *w, int index, const struct coordinator_event *e)
{
	struct sim_coordinator *c = &w->coordinators[index];
	if (coordinator_core_handle(c->core, clock_of(w, c), e) < 0)
		abort();
	drain(w, index);
}

/* ---- A simplified scheduler ------------------------------------------------------------ */

static void schedule(struct sim_world *w, int index)
{
	struct sim_coordinator *c = &w->coordinators[index];
	unsigned busy[SIM_PILOTS] = {0};
	struct sim_fold folds[SIM_JOBS + 1];
	for (uint64_t job = 1; job <= SIM_JOBS; job++) {
		sim_fold(w, job, &folds[job]);
		if (folds[job].running && folds[job].pilot >= 0)
			busy[folds[job].pilot]++;
	}
	for (uint64_t job = 1; job <= SIM_JOBS && c->alive; job++) {
		const struct sim_fold *f = &folds[job];
		int pilot = -1;
		for (int i = 0; i < w->num_pilots; i++)
			if (c->ready[i] && busy[i] < SIM_SLOTS && (pilot < 0 || sim_chance(w, 2)))
				pilot = i;
		if (f->final || f->held || f->running || pilot < 0)
			continue;
		char name[FRAME_NAME_ROOM];
		int gpu = 0;
		snprintf(name, sizeof(name), "p%d", pilot);
		busy[pilot]++;
		sim_coordinator_event(w, index,
			&(struct coordinator_event){.kind = COORDINATOR_START,
				.start = {.id = {job, f->last + 1},
					.pilot = name,
					.gpus = &gpu,
					.num_gpus = 1,
					.order = "x",
					.order_size = 1,
					.losses = f->losses}});
	}
}

/* ---- Life and death -------------------------------------------------------------------- */

static void restore(struct sim_world *w, struct sim_coordinator *c)
{
	int64_t lease[SIM_PILOTS] = {0};
	bool gone[SIM_PILOTS] = {false};
	for (size_t i = 0; i < w->num_records; i++) {
		const struct sim_record *r = &w->journal[i];
		if (r->kind == WRITE_PILOT && r->lease_ms > lease[r->pilot])
			lease[r->pilot] = r->lease_ms;
		if (r->kind == WRITE_PILOT_GONE)
			gone[r->pilot] = true;
	}
	for (int i = 0; i < w->num_pilots; i++) {
		char node[FRAME_NAME_ROOM];
		if (!lease[i] || gone[i])
			continue;
		snprintf(node, sizeof(node), "n%d", w->pilots[i].node);
		coordinator_core_restore_pilot(c->core, &(struct restored_pilot){.name = w->pilots[i].name,
								.node = node,
								.slurm_job = w->pilots[i].slurm_job,
								.lease_ms = lease[i]});
	}
	for (uint64_t job = 1; job <= SIM_JOBS; job++) {
		struct sim_fold f;
		sim_fold(w, job, &f);
		if (f.running && !f.final)
			coordinator_core_restore_attempt(c->core,
				&(struct restored_attempt){
					.id = {job, f.last}, .pilot = w->pilots[f.pilot].name, .losses = f.losses});
	}
}

void sim_coordinator_start(struct sim_world *w, int index)
{
	struct sim_coordinator *c = &w->coordinators[index];
	append(w, &(struct sim_record){.epoch = ++w->epoch});
	w->synced = w->num_records;
	*c = (struct sim_coordinator){.alive = true,
		.epoch = w->epoch,
		.rate = 1 + ((int)sim_random(w, 2001) - 1000) * 1e-5,
		.offset = sim_seconds(w, 0, 100000)};
	struct coordinator_settings s = {.epoch = c->epoch,
		.lease_ms = SIM_LEASE_MS,
		.silence_ms = SIM_SILENCE_MS,
		.max_lease_ms = SIM_LEASE_MS};
	if (coordinator_core_create(&s, &c->core) < 0)
		abort();
	restore(w, c);
	sim_say(w, "coordinator %d starts, epoch %llu", index, (unsigned long long)c->epoch);
	coordinator_core_begin(c->core, clock_of(w, c));
	w->current = index;
	w->restarts++;
	drain(w, index);
}

void sim_coordinator_kill(struct sim_world *w, int index, bool power)
{
	struct sim_coordinator *c = &w->coordinators[index];
	if (!c->alive)
		return;
	sim_say(w, "coordinator %d dies%s", index, power ? ": power" : "");
	c->alive = false;
	sim_links_drop_coordinator(w, index);
	if (power && c->epoch == w->epoch && w->num_records > w->synced)
		w->num_records = w->synced + sim_random(w, (uint32_t)(w->num_records - w->synced));
	while (c->answers) {
		struct sim_answer *a = c->answers;
		c->answers = a->next;
		free_answer(a);
	}
}

static bool give_answer(struct sim_world *w, int index)
{
	struct sim_coordinator *c = &w->coordinators[index];
	for (struct sim_answer **p = &c->answers; *p; p = &(*p)->next) {
		struct sim_answer *a = *p;
		if (w->now < a->at)
			continue;
		*p = a->next;
		if (a->record > w->synced)
			w->synced = a->record;
		a->event.pilot = a->name;
		a->event.ends = a->ends;
		a->event.listing = &a->listing;
		a->listing.jobs = a->jobs;
		a->listing.nodes = a->nodes;
		sim_coordinator_event(w, index, &a->event);
		free_answer(a);
		return c->alive;
	}
	return false;
}

void sim_coordinators_step(struct sim_world *w)
{
	for (int i = 0; i < SIM_COORDINATORS; i++) {
		struct sim_coordinator *c = &w->coordinators[i];
		if (!c->alive && c->core) {
			coordinator_core_destroy(c->core);
			c->core = NULL;
		}
		if (!c->alive || w->now < c->paused_until)
			continue;
		while (give_answer(w, i))
			;
		if (c->alive && clock_of(w, c) >= coordinator_core_wake_ns(c->core))
			sim_coordinator_event(w, i, &(struct coordinator_event){.kind = COORDINATOR_TICK});
		if (c->alive && coordinator_core_is_recovered(c->core))
			schedule(w, i);
	}
	if (!w->coordinators[w->current].alive && !w->restart_at)
		w->restart_at = w->now + sim_seconds(w, 1, 90);
	if (w->restart_at && w->now >= w->restart_at) {
		int index = w->coordinators[0].alive ? 1 : 0;
		w->restart_at = 0;
		if (!w->coordinators[index].alive && !w->coordinators[index].core)
			sim_coordinator_start(w, index);
	}
}
