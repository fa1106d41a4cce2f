/* SPDX-License-Identifier: MIT */
/* Coordinators and pilots of a queue on a cluster. */
#include <errno.h>
#include <string.h>

#include "queue/journal/jobs_private.h"
#include "queue/journal/record_private.h"

bool jobs_is_outdated_epoch(const struct jobs *js, const struct record *r)
{
	return r->epoch > 0 && (uint64_t)r->epoch < js->epoch;
}

struct queue_pilot *jobs_pilot(const struct jobs *js, const char *name, size_t size)
{
	return key_table_get(&js->pilot_names, name, size);
}

/* The pilot that a line names, created if it is new. */
static struct queue_pilot *named_pilot(struct jobs *js, const struct record *r, int *error)
{
	const char *name = jobs_intern(js, &r->pilot, NULL, error);
	struct queue_pilot *p = name ? jobs_pilot(js, name, strlen(name)) : NULL;
	if (p || !name)
		return p;
	p = arena_alloc(&js->arena, sizeof(*p));
	if (!p || key_table_put(&js->pilot_names, name, strlen(name), p) < 0) {
		*error = -ENOMEM;
		return NULL;
	}
	*p = (struct queue_pilot){.next = js->pilots, .keeper = {.name = name, .is_pilot = true}};
	js->pilots = p;
	return p;
}

int jobs_set_pilot(struct jobs *js, struct job *job, const struct record *r)
{
	int error = 0;
	const struct queue_pilot *p = named_pilot(js, r, &error);
	if (p)
		job->keeper = &p->keeper;
	return error;
}

static void raise_lease(struct jobs *js, int64_t lease_ms)
{
	if (lease_ms > js->max_lease_ms)
		js->max_lease_ms = lease_ms;
}

int jobs_apply_coordinator(struct jobs *js, const struct record *r)
{
	int error = 0;
	if (jobs_is_outdated_epoch(js, r))
		return 0;
	const char *host = jobs_intern(js, &r->host, NULL, &error);
	if (error)
		return error;
	js->epoch = (uint64_t)r->epoch;
	js->epoch_host = host;
	raise_lease(js, r->lease_ms);
	return 0;
}

int jobs_apply_pilot(struct jobs *js, const struct record *r)
{
	int error = 0;
	/* The lease counts even in an outdated record: a pilot may have been granted it. */
	raise_lease(js, r->lease_ms);
	if (jobs_is_outdated_epoch(js, r))
		return 0;
	struct queue_pilot *p = named_pilot(js, r, &error);
	if (!p)
		return error;
	if (r->status.type && json_is(&r->status, RECORD_PILOT_GONE)) {
		p->gone = true;
		return 0;
	}
	const char *node = jobs_intern(js, &r->node, NULL, &error);
	if (error)
		return error;
	if (node && strlen(node) < sizeof(p->keeper.machine.host))
		strcpy(p->keeper.machine.host, node);
	p->gone = false;
	p->slurm_job = r->slurm_job > 0 ? (uint64_t)r->slurm_job : 0;
	p->started_ms = r->started_ms;
	p->until_ms = r->until_ms;
	if (r->lease_ms > p->lease_ms)
		p->lease_ms = r->lease_ms;
	return 0;
}
