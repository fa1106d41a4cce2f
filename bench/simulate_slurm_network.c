/* SPDX-License-Identifier: MIT */
/* Connections: in order within one direction, in any order between connections, with delays up to half a minute. */
#include <stdlib.h>
#include <string.h>

#include "simulate_slurm.h"

static void *copy_bytes(const void *data, size_t size)
{
	void *copy = malloc(size + 1);
	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	return copy;
}

struct frame *sim_frame_copy(const struct frame *f)
{
	struct frame *copy = copy_bytes(f, sizeof(*f));
	if (f->kind == FRAME_HELLO) {
		copy->hello.gpus = copy_bytes(f->hello.gpus, f->hello.num_gpus * sizeof(*f->hello.gpus));
		copy->hello.attempts =
			copy_bytes(f->hello.attempts, f->hello.num_attempts * sizeof(*f->hello.attempts));
	} else if (f->kind == FRAME_GRANT) {
		copy->grant.gpus = copy_bytes(f->grant.gpus, f->grant.num_gpus * sizeof(*f->grant.gpus));
		copy->grant.order = copy_bytes(f->grant.order, f->grant.order_size);
	} else if (f->kind == FRAME_HEARTBEAT) {
		copy->heartbeat.gpus =
			copy_bytes(f->heartbeat.gpus, f->heartbeat.num_gpus * sizeof(*f->heartbeat.gpus));
	}
	return copy;
}

void sim_frame_free(struct frame *f)
{
	if (!f)
		return;
	if (f->kind == FRAME_HELLO) {
		free((void *)f->hello.gpus);
		free((void *)f->hello.attempts);
	} else if (f->kind == FRAME_GRANT) {
		free((void *)f->grant.gpus);
		free((void *)f->grant.order);
	} else if (f->kind == FRAME_HEARTBEAT) {
		free((void *)f->heartbeat.gpus);
	}
	free(f);
}

static bool is_cut(const struct sim_world *w, const struct sim_link *l)
{
	const struct sim_node *n = &w->nodes[w->pilots[l->pilot].node];
	return w->now < n->cut_until || !n->up;
}

static uint64_t delay(struct sim_world *w)
{
	if (!w->calm && sim_chance(w, 200))
		return sim_seconds(w, 1, 30);
	return (1 + sim_random(w, 100)) * NS_PER_MS;
}

static void put(struct sim_world *w, struct sim_link *l, enum sim_direction d, struct frame *f)
{
	struct sim_message *m = calloc(1, sizeof(*m));
	if (!m)
		abort();
	m->at = w->now + delay(w);
	if (m->at < l->latest[d])
		m->at = l->latest[d];
	l->latest[d] = m->at;
	m->frame = f;
	*l->last[d] = m;
	l->last[d] = &m->next;
}

static void drop_messages(struct sim_link *l, enum sim_direction d)
{
	while (l->first[d]) {
		struct sim_message *m = l->first[d];
		l->first[d] = m->next;
		sim_frame_free(m->frame);
		free(m);
	}
	l->last[d] = &l->first[d];
}

static void release(struct sim_link *l)
{
	drop_messages(l, TO_PILOT);
	drop_messages(l, TO_COORDINATOR);
	memset(l, 0, sizeof(*l));
}

void sim_link_open(struct sim_world *w, int pilot, uint64_t connection)
{
	struct sim_link *l = NULL;
	for (size_t i = 0; i < SIM_LINKS && !l; i++)
		if (!w->links[i].used)
			l = &w->links[i];
	if (!l)
		sim_wrong(w, "too many connections");
	/* The pilot may have read an old address. */
	int c = w->current;
	if (!w->calm && sim_chance(w, 6))
		c = 1 - c;
	*l = (struct sim_link){.used = true,
		.pilot = pilot,
		.coordinator = c,
		.coordinator_epoch = w->coordinators[c].epoch,
		.connection = connection,
		.number = ++w->link_numbers,
		.connected_at = w->now + delay(w),
		.open = {true, true}};
	l->last[TO_PILOT] = &l->first[TO_PILOT];
	l->last[TO_COORDINATOR] = &l->first[TO_COORDINATOR];
}

static struct sim_link *of_pilot(struct sim_world *w, int pilot, uint64_t connection)
{
	for (size_t i = 0; i < SIM_LINKS; i++)
		if (w->links[i].used && w->links[i].pilot == pilot && w->links[i].connection == connection)
			return &w->links[i];
	return NULL;
}

static struct sim_link *of_coordinator(struct sim_world *w, int coordinator, uint64_t number)
{
	for (size_t i = 0; i < SIM_LINKS; i++)
		if (w->links[i].used && w->links[i].coordinator == coordinator && w->links[i].number == number)
			return &w->links[i];
	return NULL;
}

void sim_link_send_to_coordinator(struct sim_world *w, int pilot, uint64_t connection, const struct frame *f)
{
	struct sim_link *l = of_pilot(w, pilot, connection);
	if (l && l->open[TO_PILOT])
		put(w, l, TO_COORDINATOR, sim_frame_copy(f));
}

void sim_link_send_to_pilot(struct sim_world *w, int coordinator, uint64_t number, const struct frame *f)
{
	struct sim_link *l = of_coordinator(w, coordinator, number);
	if (l && l->open[TO_COORDINATOR])
		put(w, l, TO_PILOT, sim_frame_copy(f));
}

/* Frames sent before still arrive. */
void sim_link_close_by_pilot(struct sim_world *w, int pilot, uint64_t connection)
{
	struct sim_link *l = of_pilot(w, pilot, connection);
	if (!l || !l->open[TO_PILOT])
		return;
	l->open[TO_PILOT] = false;
	l->connected_at = 0;
	put(w, l, TO_COORDINATOR, NULL);
}

void sim_link_close_by_coordinator(struct sim_world *w, int coordinator, uint64_t number)
{
	struct sim_link *l = of_coordinator(w, coordinator, number);
	if (!l || !l->open[TO_COORDINATOR])
		return;
	l->open[TO_COORDINATOR] = false;
	put(w, l, TO_PILOT, NULL);
}

void sim_links_drop_pilot(struct sim_world *w, int pilot)
{
	for (size_t i = 0; i < SIM_LINKS; i++)
		if (w->links[i].used && w->links[i].pilot == pilot)
			sim_link_close_by_pilot(w, pilot, w->links[i].connection);
}

void sim_links_drop_coordinator(struct sim_world *w, int coordinator)
{
	for (size_t i = 0; i < SIM_LINKS; i++)
		if (w->links[i].used && w->links[i].coordinator == coordinator)
			sim_link_close_by_coordinator(w, coordinator, w->links[i].number);
}

static void connect_step(struct sim_world *w, struct sim_link *l)
{
	const struct sim_coordinator *c = &w->coordinators[l->coordinator];
	if (!l->connected_at || w->now < l->connected_at || is_cut(w, l))
		return;
	l->connected_at = 0;
	if (!c->alive || c->epoch != l->coordinator_epoch) {
		l->open[TO_COORDINATOR] = false;
		put(w, l, TO_PILOT, NULL);
		return;
	}
	sim_pilot_event(w, l->pilot, &(struct pilot_event){.kind = PILOT_CONNECTED, .connection = l->connection});
}

static void deliver(struct sim_world *w, struct sim_link *l, enum sim_direction d, const struct sim_message *m)
{
	const struct sim_coordinator *c = &w->coordinators[l->coordinator];
	if (d == TO_PILOT && l->open[TO_PILOT]) {
		sim_pilot_event(w, l->pilot,
			&(struct pilot_event){.kind = m->frame ? PILOT_FRAME : PILOT_DISCONNECTED,
				.connection = l->connection,
				.frame = m->frame});
		l->open[TO_PILOT] = l->open[TO_PILOT] && m->frame;
	}
	if (d == TO_COORDINATOR && l->open[TO_COORDINATOR] && c->alive && c->epoch == l->coordinator_epoch) {
		sim_coordinator_event(w, l->coordinator,
			&(struct coordinator_event){.kind = m->frame ? COORDINATOR_FRAME : COORDINATOR_DISCONNECTED,
				.connection = l->number,
				.frame = m->frame});
		l->open[TO_COORDINATOR] = l->open[TO_COORDINATOR] && m->frame;
	}
}

static void flow(struct sim_world *w, struct sim_link *l, enum sim_direction d)
{
	const struct sim_coordinator *c = &w->coordinators[l->coordinator];
	while (l->used && l->first[d] && w->now >= l->first[d]->at && !is_cut(w, l)) {
		/* A stopped coordinator reads nothing; a stopped pilot has its own queue. */
		if (d == TO_COORDINATOR && c->alive && w->now < c->paused_until)
			return;
		struct sim_message *m = l->first[d];
		l->first[d] = m->next;
		if (!l->first[d])
			l->last[d] = &l->first[d];
		deliver(w, l, d, m);
		sim_frame_free(m->frame);
		free(m);
	}
}

void sim_network_step(struct sim_world *w)
{
	for (size_t i = 0; i < SIM_LINKS; i++) {
		struct sim_link *l = &w->links[i];
		if (!l->used)
			continue;
		connect_step(w, l);
		flow(w, l, TO_COORDINATOR);
		flow(w, l, TO_PILOT);
		const struct sim_pilot *p = &w->pilots[l->pilot];
		const struct sim_coordinator *c = &w->coordinators[l->coordinator];
		bool other_side = c->alive && c->epoch == l->coordinator_epoch;
		bool idle = !l->first[TO_PILOT] && !l->first[TO_COORDINATOR];
		bool pilot_over = !p->alive || !l->open[TO_PILOT];
		bool coordinator_over = !other_side || !l->open[TO_COORDINATOR];
		if ((pilot_over && coordinator_over) || (!p->alive && idle && !l->open[TO_PILOT] && !other_side))
			release(l);
	}
}
