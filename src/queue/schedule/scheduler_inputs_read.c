/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "queue/schedule/scheduler_inputs.h"
#include "queue/schedule/scheduler_private.h"

/* All possible number, flag and string members of any of the objects. */
struct fields {
	int64_t id, bytes, num_gpus, cpus, host_bytes, user, pid, known, health, vendor, index, mig, split, numa,
		number, links, links_high;
	int64_t total, free, used, baseline, min_free_mem_mb, jobs_per_gpu, not_before_ns, exclusive, timeout_ms,
		end_ms, node;
	bool usable;
	bool declared, alone, by_card, hidden, settled, ended, stuck, unknown, foreign_pids, has_baseline;
	struct json_value uuid, pci, queue, end_whose, name, nodes, gpu_nodes;
	struct json_value settings, gpu_list, pid_list, processes, holders, claims, reservation;
};

static int set_number(struct fields *f, const struct json_value *key, const struct json_value *value)
{
	const struct {
		const char *name;
		int64_t *at, least, most;
	} numbers[] = {
		{"id", &f->id, 0, INT64_MAX},
		{"bytes", &f->bytes, 0, INT64_MAX},
		{"num_gpus", &f->num_gpus, 0, INT_MAX},
		{"cpus", &f->cpus, 0, INT_MAX},
		{"host_bytes", &f->host_bytes, 0, INT64_MAX},
		{"user", &f->user, 0, UINT32_MAX},
		{"pid", &f->pid, 0, INT_MAX},
		{"known", &f->known, 0, UINT32_MAX},
		{"health", &f->health, 0, GD_GPU_HEALTH_UNREADABLE},
		{"vendor", &f->vendor, GD_VENDOR_NVIDIA, GD_VENDOR_SIMULATED},
		{"index", &f->index, 0, INT_MAX},
		{"mig", &f->mig, -1, INT_MAX},
		{"split", &f->split, 0, 1},
		{"exclusive", &f->exclusive, 0, 1},
		{"numa", &f->numa, INT_MIN, INT_MAX},
		{"number", &f->number, INT_MIN, INT_MAX},
		{"links", &f->links, 0, UINT32_MAX},
		{"links_high", &f->links_high, 0, UINT32_MAX},
		{"total", &f->total, 0, INT64_MAX},
		{"free", &f->free, 0, INT64_MAX},
		{"used", &f->used, 0, INT64_MAX},
		{"baseline", &f->baseline, 0, INT64_MAX},
		{"min_free_mem_mb", &f->min_free_mem_mb, -1, INT64_MAX >> 20},
		{"jobs_per_gpu", &f->jobs_per_gpu, 0, INT_MAX},
		{"timeout_ms", &f->timeout_ms, 0, INT64_MAX >> 1},
		{"end_ms", &f->end_ms, 0, INT64_MAX >> 1},
		{"node", &f->node, 0, INT_MAX},
		{"not_before_ns", &f->not_before_ns, 0, INT64_MAX},
	};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (json_is(key, numbers[i].name)) {
			int64_t n;
			if (json_to_int64(value, &n) < 0 || n < numbers[i].least || n > numbers[i].most)
				return -EBADMSG;
			*numbers[i].at = n;
			f->has_baseline = f->has_baseline || numbers[i].at == &f->baseline;
			return 0;
		}
	return 0; /* from a later version */
}

static int set_flag(struct fields *f, const struct json_value *key, const struct json_value *value)
{
	const struct {
		const char *name;
		bool *at;
	} flags[] = {{"declared", &f->declared}, {"alone", &f->alone}, {"by_card", &f->by_card}, {"hidden", &f->hidden},
		{"settled", &f->settled}, {"ended", &f->ended}, {"stuck", &f->stuck}, {"unknown", &f->unknown},
		{"foreign_pids", &f->foreign_pids}, {"usable", &f->usable}};
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (json_is(key, flags[i].name))
			*flags[i].at = value->type == JSON_TRUE;
	return 0;
}

/* Strings, arrays and objects, to be parsed later. */
static int set_part(struct fields *f, const struct json_value *key, const struct json_value *value)
{
	const struct {
		const char *name;
		enum json_type type;
		struct json_value *at;
	} parts[] = {{"uuid", JSON_STRING, &f->uuid}, {"pci", JSON_STRING, &f->pci}, {"queue", JSON_STRING, &f->queue},
		{"end_whose", JSON_STRING, &f->end_whose}, {"settings", JSON_OBJECT, &f->settings},
		{"gpus", JSON_ARRAY, &f->gpu_list}, {"pids", JSON_ARRAY, &f->pid_list},
		{"processes", JSON_ARRAY, &f->processes}, {"holders", JSON_ARRAY, &f->holders},
		{"claims", JSON_ARRAY, &f->claims}, {"reservation", JSON_OBJECT, &f->reservation},
		{"name", JSON_STRING, &f->name}, {"nodes", JSON_ARRAY, &f->nodes},
		{"gpu_nodes", JSON_ARRAY, &f->gpu_nodes}};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (json_is(key, parts[i].name)) {
			if (value->type != parts[i].type)
				return -EBADMSG;
			*parts[i].at = *value;
		}
	return 0;
}

static int read_fields(const struct json_value *object, struct fields *f)
{
	struct json_cursor c;
	struct json_value key, value;
	int r;
	*f = (struct fields){0};
	if (object->type != JSON_OBJECT)
		return -EBADMSG;
	json_enter(&c, object);
	while ((r = json_next_member(&c, &key, &value)) > 0) {
		if (value.type == JSON_NUMBER)
			r = set_number(f, &key, &value);
		else if (value.type == JSON_TRUE || value.type == JSON_FALSE)
			r = set_flag(f, &key, &value);
		else
			r = set_part(f, &key, &value);
		if (r < 0)
			return r;
	}
	return r;
}

static int read_word(const struct json_value *v, char *ret, size_t room)
{
	ret[0] = '\0';
	if (!v->type)
		return 0;
	if (v->size >= room)
		return -EBADMSG;
	cleanup_(freep) char *bytes = malloc(room);
	if (!bytes)
		return -ENOMEM;
	/* Control characters are replaced, because the text is shown on terminals. */
	utf8_copy_line(ret, room, bytes, json_unescape(v, bytes));
	return 0;
}

/* Positions of GPUs, and PIDs. Returns how many, or -EBADMSG. */
static int read_numbers(const struct json_value *array, int64_t most, int64_t *ret, size_t room)
{
	struct json_cursor c;
	struct json_value v;
	size_t n = 0;
	int r;
	if (!array->type)
		return 0;
	json_enter(&c, array);
	while ((r = json_next_item(&c, &v)) > 0) {
		int64_t number;
		if (n == room || json_to_int64(&v, &number) < 0 || number < 0 || number > most)
			return -EBADMSG;
		ret[n++] = number;
	}
	return r < 0 ? r : (int)n;
}

static size_t count_items(const struct json_value *array)
{
	struct json_cursor c;
	struct json_value v;
	size_t n = 0;
	if (!array->type)
		return 0;
	json_enter(&c, array);
	while (json_next_item(&c, &v) > 0)
		n++;
	return n;
}

/* ---- GPUs ----------------------------------------------------------------------------- */

#define MOST_PROCESSES 4096

static int read_processes(const struct json_value *array, struct sampled_gpu *g)
{
	struct json_cursor c;
	struct json_value v;
	size_t capacity = 0, n = 0;
	int r = 0;
	if (!array->type)
		return 0;
	json_enter(&c, array);
	while ((r = json_next_item(&c, &v)) > 0) {
		int64_t pair[2];
		int got = v.type == JSON_ARRAY ? read_numbers(&v, INT64_MAX, pair, 2) : -EBADMSG;
		if (got < 1 || n == MOST_PROCESSES || pair[0] > INT_MAX)
			return -EBADMSG;
		if (array_reserve(g->processes, &capacity, n + 1) < 0)
			return -ENOMEM;
		g->processes[n++] = (struct gd_gpu_process){.size = sizeof(*g->processes),
			.pid = (int)pair[0],
			.memory_known = got == 2,
			.memory_bytes = got == 2 ? (uint64_t)pair[1] : 0};
	}
	g->pointers = calloc(n + 1, sizeof(*g->pointers));
	if (!g->pointers)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		g->pointers[i] = &g->processes[i];
	g->gpu.processes = g->pointers;
	g->gpu.num_processes = n;
	return r;
}

static int read_gpu(const struct json_value *v, struct sampled_gpu *ret, struct ledger_note *note)
{
	struct fields f;
	int r = read_fields(v, &f);
	if (r < 0)
		return r;
	ret->gpu = (struct gd_gpu){.size = sizeof(ret->gpu),
		.known = (unsigned)f.known,
		.health = (enum gd_gpu_health)f.health,
		.vendor = (enum gd_vendor)f.vendor,
		.index = (int)f.index,
		.mig_index = (int)f.mig,
		.mig_enabled = (int)f.split,
		.exclusive = (int)f.exclusive,
		.numa_node = (int)f.numa,
		.vendor_index = (int)f.number,
		.links = (uint64_t)f.links | (uint64_t)f.links_high << 32,
		.memory_total_bytes = (uint64_t)f.total,
		.memory_free_bytes = (uint64_t)f.free,
		.memory_used_bytes = (uint64_t)f.used};
	*note = (struct ledger_note){.baseline_known = f.has_baseline, .baseline_bytes = (uint64_t)f.baseline};
	r = read_word(&f.uuid, ret->gpu.uuid, sizeof(ret->gpu.uuid));
	if (r == 0)
		r = read_word(&f.pci, ret->gpu.pci_id, sizeof(ret->gpu.pci_id));
	return r < 0 ? r : read_processes(&f.processes, ret);
}

/* Limit for all nodes of a cluster together. */
#define MOST_GPUS 4096

static int read_gpus(struct scheduler *s, const struct json_value *array)
{
	cleanup_(freep) struct sampled_gpu *gpus = NULL;
	cleanup_(freep) struct ledger_note *notes = NULL;
	cleanup_(freep) const struct gd_gpu **pointers = NULL;
	size_t room = count_items(array);
	struct json_cursor c;
	struct json_value v;
	size_t n = 0;
	int r = array->type && room <= MOST_GPUS ? 0 : -EBADMSG;
	if (r == 0) {
		gpus = calloc(room + 1, sizeof(*gpus));
		notes = calloc(room + 1, sizeof(*notes));
		pointers = calloc(room + 1, sizeof(*pointers));
		r = gpus && notes && pointers ? 0 : -ENOMEM;
	}
	if (r == 0)
		json_enter(&c, array);
	while (r == 0 && n < room && (r = json_next_item(&c, &v)) > 0) {
		r = read_gpu(&v, &gpus[n], &notes[n]);
		pointers[n] = &gpus[n].gpu;
		n++;
	}
	if (r == 0)
		r = scheduler_sample(s, 0, pointers, n);
	if (r == 0 && n > 0)
		memcpy(s->notes, notes, n * sizeof(*notes));
	for (size_t i = 0; i < n; i++) {
		free(gpus[i].processes);
		free(gpus[i].pointers);
	}
	return r;
}

/* ---- Nodes ---------------------------------------------------------------------------- */

#define MOST_NODES 4096

static int read_node(const struct json_value *v, struct ledger_node *ret)
{
	struct fields f;
	int r = read_fields(v, &f);
	if (r < 0)
		return r;
	*ret = (struct ledger_node){
		.usable = f.usable, .cpus = (unsigned)f.cpus, .host_bytes = (uint64_t)f.host_bytes, .end_ms = f.end_ms};
	return read_word(&f.name, ret->name, sizeof(ret->name));
}

static int read_nodes(struct scheduler *s, const struct json_value *array, const struct json_value *of)
{
	struct json_cursor c;
	struct json_value v;
	size_t n = 0;
	int r = 0;
	if (!array->type)
		return 0;
	struct ledger_node *nodes = calloc(MOST_NODES, sizeof(*nodes));
	int64_t *numbers = calloc(MOST_GPUS, sizeof(*numbers));
	int *gpu_nodes = calloc(MOST_GPUS, sizeof(*gpu_nodes));
	if (!nodes || !numbers || !gpu_nodes)
		r = -ENOMEM;
	json_enter(&c, array);
	while (r == 0 && (r = json_next_item(&c, &v)) > 0)
		r = n < MOST_NODES ? read_node(&v, &nodes[n++]) : -EBADMSG;
	int num_gpus = r < 0 ? r : read_numbers(of, (int64_t)n, numbers, MOST_GPUS);
	for (int i = 0; i < num_gpus; i++)
		gpu_nodes[i] = (int)numbers[i] - 1;
	r = num_gpus < 0 ? num_gpus : scheduler_set_nodes(s, nodes, n, gpu_nodes, (size_t)num_gpus);
	free(nodes);
	free(numbers);
	free(gpu_nodes);
	return r;
}

/* ---- Holders and claims --------------------------------------------------------------- */

#define MOST_PIDS 1024
/* Another user may have written the file: searching for a holder takes time in proportion to their number. */
#define MOST_HOLDERS 65536
#define MOST_CLAIMS  65536

static int read_positions(const struct scheduler *s, const struct json_value *array, int *ret, size_t *ret_count)
{
	int64_t numbers[SCHEDULER_MAX_GPUS];
	int n = read_numbers(array, s->num_gpus ? (int64_t)s->num_gpus - 1 : -1, numbers, SCHEDULER_MAX_GPUS);
	for (int i = 0; i < n; i++)
		ret[i] = (int)numbers[i];
	*ret_count = n < 0 ? 0 : (size_t)n;
	return n < 0 ? n : 0;
}

static int read_holder(struct scheduler *s, const struct json_value *v)
{
	struct fields f;
	int gpus[SCHEDULER_MAX_GPUS];
	int64_t pids[MOST_PIDS];
	size_t num_gpus = 0;
	int r = read_fields(v, &f);
	if (r == 0)
		r = read_positions(s, &f.gpu_list, gpus, &num_gpus);
	int num_pids = r < 0 ? r : read_numbers(&f.pid_list, INT64_MAX, pids, MOST_PIDS);
	if (num_pids < 0)
		return num_pids;
	struct placement_need need = {.memory_bytes = (uint64_t)f.bytes,
		.declared = f.declared,
		.alone = f.alone,
		.by_card = f.by_card,
		.num_gpus = (unsigned)f.num_gpus,
		.cpus = (unsigned)f.cpus,
		.host_bytes = (uint64_t)f.host_bytes};
	struct holder *h = scheduler_hold(s, (uint64_t)f.id, &need, gpus, num_gpus);
	if (!h || scheduler_set_pids(s, h->id, pids, (size_t)num_pids) < 0)
		return -ENOMEM;
	h->watch.settled = f.settled;
	if (f.node)
		h->node = (int)f.node - 1;
	if (f.stuck)
		scheduler_set_stuck(s, h->id);
	h->ended = f.ended;
	h->unknown = f.unknown;
	return 0;
}

struct claim_reader {
	struct ledger_job *jobs;
	struct ledger_claimant *claimants;
	int (*gpus)[SCHEDULER_MAX_GPUS];
	int64_t (*pids)[MOST_PIDS];
};

static int read_claim(const struct scheduler *s, const struct json_value *v, struct claim_reader *c, size_t n)
{
	struct fields f;
	size_t num_gpus = 0;
	int r = read_fields(v, &f);
	if (r == 0)
		r = read_positions(s, &f.gpu_list, c->gpus[n], &num_gpus);
	int num_pids = r < 0 ? r : read_numbers(&f.pid_list, INT64_MAX, c->pids[n], MOST_PIDS);
	if (num_pids < 0)
		return num_pids;
	c->claimants[n] = (struct ledger_claimant){.user = (uid_t)f.user, .job = (uint64_t)f.id, .pid = f.pid};
	c->jobs[n] = (struct ledger_job){.foreign = true,
		.claimant = &c->claimants[n],
		.promised_bytes = (uint64_t)f.bytes,
		.declared = f.declared,
		.alone = f.alone,
		.hidden = f.hidden,
		.settled = f.settled,
		.gpus = c->gpus[n],
		.num_gpus = num_gpus,
		.pids = c->pids[n],
		.num_pids = (size_t)num_pids};
	return read_word(&f.queue, c->claimants[n].queue, sizeof(c->claimants[n].queue));
}

static int read_claims(struct scheduler *s, const struct json_value *array)
{
	size_t room = count_items(array), n = 0;
	if (room == 0)
		return 0;
	if (room > MOST_CLAIMS)
		return -EBADMSG;
	struct claim_reader c = {calloc(room, sizeof(*c.jobs)), calloc(room, sizeof(*c.claimants)),
		calloc(room, sizeof(*c.gpus)), calloc(room, sizeof(*c.pids))};
	struct json_cursor at;
	struct json_value v;
	int r = c.jobs && c.claimants && c.gpus && c.pids ? 0 : -ENOMEM;
	json_enter(&at, array);
	while (r == 0 && n < room && (r = json_next_item(&at, &v)) > 0)
		r = read_claim(s, &v, &c, n++);
	if (r == 0)
		r = scheduler_set_claims(s, c.jobs, n);
	free(c.jobs);
	free(c.claimants);
	free(c.gpus);
	free(c.pids);
	return r;
}

static int read_holders(struct scheduler *s, const struct json_value *array)
{
	struct json_cursor c;
	struct json_value v;
	int r = 0;
	if (!array->type || count_items(array) > MOST_HOLDERS)
		return -EBADMSG;
	json_enter(&c, array);
	while (r == 0 && (r = json_next_item(&c, &v)) > 0)
		r = read_holder(s, &v);
	return r;
}

static int read_reservation(struct scheduler *s, const struct json_value *object)
{
	struct fields f;
	int gpus[SCHEDULER_MAX_GPUS];
	size_t n = 0;
	int r = read_fields(object, &f);
	if (r == 0)
		r = read_positions(s, &f.gpu_list, gpus, &n);
	if (r == 0 && n > 0 && array_reserve(s->reservation.gpus, &s->reservation.capacity, n) < 0)
		r = -ENOMEM;
	if (r < 0)
		return r;
	if (n > 0)
		memcpy(s->reservation.gpus, gpus, n * sizeof(*gpus));
	s->reservation.num_gpus = n;
	s->reservation.job = (uint64_t)f.id;
	return 0;
}

static int read_settings(struct scheduler *s, const struct json_value *object)
{
	struct fields f;
	int r = read_fields(object, &f);
	if (r < 0)
		return r;
	struct scheduler_settings settings = {
		.rules = {.min_free_mem_mb = f.min_free_mem_mb, .jobs_per_gpu = (int)f.jobs_per_gpu},
		.cpus = (unsigned)f.cpus,
		.host_bytes = (uint64_t)f.host_bytes,
		.foreign_pids = f.foreign_pids,
		.timeout_ms = f.timeout_ms,
		.end_ms = f.end_ms};
	r = read_word(&f.end_whose, settings.end_whose, sizeof(settings.end_whose));
	if (r == 0)
		scheduler_configure(s, &settings);
	return r;
}

int scheduler_inputs_read(struct scheduler *s, const struct json_value *object)
{
	struct fields f;
	int r = read_fields(object, &f);
	if (r == 0)
		r = read_settings(s, &f.settings);
	if (r == 0)
		r = read_nodes(s, &f.nodes, &f.gpu_nodes);
	if (r == 0)
		r = read_gpus(s, &f.gpu_list);
	if (r == 0)
		r = read_claims(s, &f.claims);
	if (r == 0)
		r = read_holders(s, &f.holders);
	if (r == 0)
		r = read_reservation(s, &f.reservation);
	if (r == 0)
		s->not_before_ns = (uint64_t)f.not_before_ns;
	scheduler_touch(s);
	s->pass_stale = true;
	return r;
}
