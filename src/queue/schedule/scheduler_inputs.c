/* SPDX-License-Identifier: MIT */
#include "queue/schedule/scheduler_inputs.h"

#include "base/json_put.h"
#include "queue/schedule/scheduler_private.h"

static void put_numbers(struct text *t, const char *key, const int *numbers, size_t count)
{
	json_open(t, key, '[');
	for (size_t i = 0; i < count; i++)
		json_put_int(t, NULL, numbers[i]);
	json_close(t, ']');
}

static void put_pids(struct text *t, const int64_t *pids, size_t count)
{
	json_open(t, "pids", '[');
	for (size_t i = 0; i < count; i++)
		json_put_int(t, NULL, pids[i]);
	json_close(t, ']');
}

/* Sizes above INT64_MAX are not real. */
static void put_bytes(struct text *t, const char *key, uint64_t bytes)
{
	json_put_int(t, key, bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes);
}

static void put_settings(struct text *t, const struct scheduler_settings *o)
{
	json_open(t, "settings", '{');
	json_put_int(t, "min_free_mem_mb", o->rules.min_free_mem_mb);
	json_put_int(t, "jobs_per_gpu", o->rules.jobs_per_gpu);
	json_put_int(t, "cpus", o->cpus);
	put_bytes(t, "host_bytes", o->host_bytes);
	json_put_bool(t, "foreign_pids", o->foreign_pids);
	json_put_int(t, "timeout_ms", o->timeout_ms);
	json_put_int(t, "end_ms", o->end_ms);
	json_put_string(t, "end_whose", o->end_whose);
	json_close(t, '}');
}

static void put_node(struct text *t, const struct ledger_node *n)
{
	json_open(t, NULL, '{');
	json_put_string(t, "name", n->name);
	json_put_bool(t, "usable", n->usable);
	json_put_int(t, "cpus", n->cpus);
	put_bytes(t, "host_bytes", n->host_bytes);
	json_put_int(t, "end_ms", n->end_ms);
	json_close(t, '}');
}

/* Only for a cluster: the node of each GPU, from 1; 0: none. */
static void put_nodes(struct text *t, const struct scheduler *s)
{
	if (!s->cluster)
		return;
	json_open(t, "nodes", '[');
	for (size_t i = 0; i < s->num_nodes; i++)
		put_node(t, &s->nodes[i]);
	json_close(t, ']');
	json_open(t, "gpu_nodes", '[');
	for (size_t i = 0; i < s->num_gpu_nodes; i++)
		json_put_int(t, NULL, s->gpu_nodes[i] + 1);
	json_close(t, ']');
}

static void put_gpu(struct text *t, const struct gd_gpu *g, const struct ledger_note *note)
{
	json_open(t, NULL, '{');
	json_put_int(t, "known", g->known);
	json_put_int(t, "health", g->health);
	json_put_int(t, "vendor", g->vendor);
	json_put_int(t, "index", g->index);
	json_put_int(t, "mig", g->mig_index);
	json_put_int(t, "split", g->mig_enabled);
	json_put_int(t, "exclusive", g->exclusive);
	json_put_int(t, "numa", g->numa_node);
	json_put_int(t, "number", g->vendor_index);
	/* As two numbers: other JSON readers lose bits beyond 53. */
	json_put_int(t, "links", (int64_t)(g->links & UINT32_MAX));
	json_put_int(t, "links_high", (int64_t)(g->links >> 32));
	json_put_string(t, "uuid", g->uuid);
	json_put_string(t, "pci", g->pci_id);
	put_bytes(t, "total", g->memory_total_bytes);
	put_bytes(t, "free", g->memory_free_bytes);
	put_bytes(t, "used", g->memory_used_bytes);
	if (note->baseline_known)
		put_bytes(t, "baseline", note->baseline_bytes);
	json_open(t, "processes", '[');
	for (size_t i = 0; i < g->num_processes; i++) {
		json_open(t, NULL, '[');
		json_put_int(t, NULL, g->processes[i]->pid);
		if (g->processes[i]->memory_known)
			put_bytes(t, NULL, g->processes[i]->memory_bytes);
		json_close(t, ']');
	}
	json_close(t, ']');
	json_close(t, '}');
}

static void put_holder(struct text *t, const struct holder *h)
{
	json_open(t, NULL, '{');
	json_put_int(t, "id", (int64_t)h->id);
	put_bytes(t, "bytes", h->need.memory_bytes);
	json_put_bool(t, "declared", h->need.declared);
	json_put_bool(t, "alone", h->need.alone);
	json_put_bool(t, "by_card", h->need.by_card);
	json_put_int(t, "num_gpus", h->need.num_gpus);
	json_put_int(t, "cpus", h->need.cpus);
	put_bytes(t, "host_bytes", h->need.host_bytes);
	json_put_bool(t, "settled", h->watch.settled);
	json_put_bool(t, "ended", h->ended);
	json_put_bool(t, "stuck", h->stuck);
	json_put_bool(t, "unknown", h->unknown);
	if (h->node >= 0)
		json_put_int(t, "node", h->node + 1);
	put_numbers(t, "gpus", h->gpus, h->num_gpus);
	put_pids(t, h->pids, h->num_pids);
	json_close(t, '}');
}

static void put_claim(struct text *t, const struct ledger_job *c)
{
	json_open(t, NULL, '{');
	put_bytes(t, "bytes", c->promised_bytes);
	json_put_bool(t, "declared", c->declared);
	json_put_bool(t, "alone", c->alone);
	json_put_bool(t, "hidden", c->hidden);
	json_put_bool(t, "settled", c->settled);
	json_put_int(t, "user", (int64_t)c->claimant->user);
	put_bytes(t, "id", c->claimant->job);
	json_put_int(t, "pid", c->claimant->pid);
	json_put_string(t, "queue", c->claimant->queue);
	put_numbers(t, "gpus", c->gpus, c->num_gpus);
	put_pids(t, c->pids, c->num_pids);
	json_close(t, '}');
}

void scheduler_inputs_write(const struct scheduler *s, const char *key, struct text *t)
{
	json_open(t, key, '{');
	put_settings(t, &s->settings);
	put_nodes(t, s);
	json_open(t, "gpus", '[');
	for (size_t i = 0; i < s->num_gpus; i++)
		put_gpu(t, &s->gpus[i].gpu, &s->notes[i]);
	json_close(t, ']');
	json_open(t, "holders", '[');
	for (const struct holder *h = s->holders.first; h; h = h->next)
		put_holder(t, h);
	json_close(t, ']');
	json_open(t, "claims", '[');
	for (size_t i = 0; i < s->num_claims; i++)
		put_claim(t, &s->claims[i].entry);
	json_close(t, ']');
	/* The job with the reservation keeps the draining GPUs. */
	json_open(t, "reservation", '{');
	put_bytes(t, "id", s->reservation.job);
	put_numbers(t, "gpus", s->reservation.gpus, s->reservation.num_gpus);
	json_close(t, '}');
	put_bytes(t, "not_before_ns", s->not_before_ns);
	json_close(t, '}');
}
