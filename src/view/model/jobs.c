/* SPDX-License-Identifier: MIT */
/* The jobs of a model, by id. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "view/model/model_private.h"

static const char *const state_names[VIEW_JOB_STATES] = {
	[VIEW_JOB_PENDING] = "pending",
	[VIEW_JOB_HELD] = "held",
	[VIEW_JOB_RUNNING] = "running",
	[VIEW_JOB_COMPLETED] = "completed",
	[VIEW_JOB_FAILED] = "failed",
	[VIEW_JOB_CANCELLED] = "cancelled",
	[VIEW_JOB_UNKNOWN] = "unknown",
};

const char *view_job_state_name(enum view_job_state state)
{
	return (unsigned)state < VIEW_JOB_STATES ? state_names[state] : "?";
}

int view_job_state_parse(const char *word)
{
	for (int i = 0; i < VIEW_JOB_STATES; i++)
		if (strcmp(word, state_names[i]) == 0)
			return i;
	return -1;
}

const struct view_attempt *view_job_last(const struct view_job *job)
{
	return job->num_attempts ? &job->attempts[job->num_attempts - 1] : NULL;
}

bool view_job_is_idle(const struct view_job *job)
{
	const struct view_attempt *a = view_job_last(job);
	return job->state == VIEW_JOB_RUNNING && !job->paused && a && a->idle_gpus > 0;
}

/* ---- Ids ------------------------------------------------------------------------ */

#define NUMBER_BITS 32

uint64_t view_job_id(unsigned queue, uint64_t number)
{
	return (uint64_t)queue << NUMBER_BITS | number;
}

unsigned view_id_queue(uint64_t id)
{
	return (unsigned)(id >> NUMBER_BITS);
}

uint64_t view_id_number(uint64_t id)
{
	return id & UINT32_MAX;
}

/* ---- Copies ------------------------------------------------------------------ */

static size_t room_of(const struct view_job *job)
{
	size_t room = job->num_attempts * sizeof(*job->attempts) + job->num_after * sizeof(*job->after) +
		      job->num_delays * sizeof(*job->delays);
	for (size_t i = 0; i < job->num_attempts; i++) {
		const struct view_attempt *a = &job->attempts[i];
		room += a->num_gpus * sizeof(*a->gpus) + view_string_room(a->reason) + view_string_room(a->log_file);
	}
	return room + view_string_room(job->queue) + view_string_room(job->name) + view_string_room(job->command) +
	       view_string_room(job->cwd) + view_string_room(job->reason) + view_string_room(job->node);
}

static void *put_array(char **at, const void *data, size_t size)
{
	if (!size)
		return NULL;
	void *copy = memcpy(*at, data, size);
	*at += size;
	return copy;
}

/* In order of alignment: attempts, ids and delays, then GPU numbers, then strings. */
static struct view_entry *copy_job(const struct view_job *job)
{
	struct view_entry *e = malloc(sizeof(*e) + room_of(job));
	if (!e)
		return NULL;
	char *at = (char *)(e + 1);
	e->job = *job;
	struct view_attempt *attempts = put_array(&at, job->attempts, job->num_attempts * sizeof(*job->attempts));
	e->job.attempts = attempts;
	e->job.after = put_array(&at, job->after, job->num_after * sizeof(*job->after));
	e->job.delays = put_array(&at, job->delays, job->num_delays * sizeof(*job->delays));
	for (size_t i = 0; i < job->num_attempts; i++)
		attempts[i].gpus = put_array(&at, attempts[i].gpus, attempts[i].num_gpus * sizeof(*attempts[i].gpus));
	for (size_t i = 0; i < job->num_attempts; i++) {
		attempts[i].reason = view_string_put(&at, attempts[i].reason);
		attempts[i].log_file = view_string_put(&at, attempts[i].log_file);
	}
	e->job.queue = view_string_put(&at, job->queue);
	e->job.name = view_string_put(&at, job->name);
	e->job.command = view_string_put(&at, job->command);
	e->job.cwd = view_string_put(&at, job->cwd);
	e->job.reason = view_string_put(&at, job->reason);
	e->job.node = view_string_put(&at, job->node);
	return e;
}

static bool same_array(const void *a, const void *b, size_t size)
{
	return !size || memcmp(a, b, size) == 0;
}

static bool same_attempt(const struct view_attempt *a, const struct view_attempt *b)
{
	return a->start_ms == b->start_ms && a->end_ms == b->end_ms && a->duration_ms == b->duration_ms &&
	       a->peak_mem_mb == b->peak_mem_mb && a->energy_j == b->energy_j && a->idle_ms == b->idle_ms &&
	       a->idle_at_ms == b->idle_at_ms && a->idle_since_ms == b->idle_since_ms && a->idle_gpus == b->idle_gpus &&
	       a->exit_code == b->exit_code && a->signal == b->signal && a->state == b->state && a->pid == b->pid &&
	       a->num_gpus == b->num_gpus && same_array(a->gpus, b->gpus, a->num_gpus * sizeof(*a->gpus)) &&
	       view_string_equal(a->reason, b->reason) && view_string_equal(a->log_file, b->log_file);
}

static bool same_delay(const struct view_delay *a, const struct view_delay *b)
{
	return a->from_ms == b->from_ms && a->to_ms == b->to_ms && a->kind == b->kind;
}

static bool same_job(const struct view_job *a, const struct view_job *b)
{
	if (a->state != b->state || a->cancelling != b->cancelling || a->paused != b->paused ||
		a->priority != b->priority || a->num_gpus != b->num_gpus || a->mem_mb != b->mem_mb ||
		a->timeout_ms != b->timeout_ms || a->num_after != b->num_after || a->submit_ms != b->submit_ms ||
		a->num_attempts != b->num_attempts || a->num_delays != b->num_delays ||
		!same_array(a->after, b->after, a->num_after * sizeof(*a->after)))
		return false;
	for (size_t i = a->num_attempts; i-- > 0;)
		if (!same_attempt(&a->attempts[i], &b->attempts[i]))
			return false;
	for (size_t i = a->num_delays; i-- > 0;)
		if (!same_delay(&a->delays[i], &b->delays[i]))
			return false;
	return view_string_equal(a->queue, b->queue) && view_string_equal(a->name, b->name) &&
	       view_string_equal(a->command, b->command) && view_string_equal(a->cwd, b->cwd) &&
	       view_string_equal(a->reason, b->reason) && view_string_equal(a->node, b->node);
}

/* ---- The table by id ----------------------------------------------------------- */

/* Another user may have chosen the ids. */
static size_t home(const struct view_model *m, uint64_t id)
{
	return (size_t)hash_seeded(&id, sizeof(id), m->seed) & (m->table_room - 1);
}

/* The place of this id, or the empty place where it belongs. */
static size_t place(const struct view_model *m, uint64_t id)
{
	size_t i = home(m, id);
	while (m->table[i] && m->table[i]->job.id != id)
		i = (i + 1) & (m->table_room - 1);
	return i;
}

static int grow_table(struct view_model *m)
{
	if (m->table_room && m->num_jobs * 2 < m->table_room)
		return 0;
	struct view_entry **old = m->table;
	size_t old_room = m->table_room;
	size_t room = old_room ? old_room * 2 : 64;
	struct view_entry **table = calloc(room, sizeof(struct view_entry *));
	if (!table)
		return -ENOMEM;
	m->table = table;
	m->table_room = room;
	for (size_t i = 0; i < old_room; i++)
		if (old[i])
			table[place(m, old[i]->job.id)] = old[i];
	free(old);
	return 0;
}

static struct view_entry *find(const struct view_model *m, uint64_t id)
{
	return m->table_room ? m->table[place(m, id)] : NULL;
}

/* ---- The order by id ------------------------------------------------------------ */

static int by_id(const void *a, const void *b)
{
	uint64_t x = (*(struct view_entry *const *)a)->job.id, y = (*(struct view_entry *const *)b)->job.id;
	return (x > y) - (x < y);
}

/* Merges the sorted tail into the sorted rest, from the end; the tail is copied first. Without memory for the copy,
 * sorts everything.
 */
static void merge_tail(struct view_by_id *o)
{
	size_t tail = o->count - o->sorted;
	struct view_entry **late = malloc(tail * sizeof(struct view_entry *));
	if (!late) {
		qsort(o->entries, o->count, sizeof(struct view_entry *), by_id);
		return;
	}
	qsort(o->entries + o->sorted, tail, sizeof(struct view_entry *), by_id);
	memcpy(late, o->entries + o->sorted, tail * sizeof(struct view_entry *));
	size_t rest = o->sorted;
	for (size_t to = o->count; tail > 0;) {
		if (rest > 0 && o->entries[rest - 1]->job.id > late[tail - 1]->job.id)
			o->entries[--to] = o->entries[--rest];
		else
			o->entries[--to] = late[--tail];
	}
	free(late);
}

struct view_entry **view_jobs_in_order(const struct view_model *m)
{
	struct view_by_id *o = m->by_id;
	if (o->sorted == o->count)
		return o->entries;
	merge_tail(o);
	o->sorted = o->count;
	for (size_t i = 0; i < o->count; i++)
		o->entries[i]->position = i;
	return o->entries;
}

static int append_in_order(struct view_by_id *o, struct view_entry *e)
{
	if (array_reserve(o->entries, &o->capacity, o->count + 1) < 0)
		return -ENOMEM;
	bool fits = o->sorted == o->count && (!o->count || o->entries[o->count - 1]->job.id < e->job.id);
	e->position = o->count;
	o->entries[o->count++] = e;
	if (fits)
		o->sorted = o->count;
	return 0;
}

/* ---- Changes ---------------------------------------------------------------------- */

static void set_version(struct view_model *m, struct view_entry *e)
{
	m->jobs_version = e->job.version = ++m->version;
}

static int add_job(struct view_model *m, struct view_entry *e)
{
	if (grow_table(m) < 0 || append_in_order(m->by_id, e) < 0)
		return -ENOMEM;
	m->table[place(m, e->job.id)] = e;
	m->num_jobs++;
	m->counts[e->job.state]++;
	if (view_id_number(e->job.id) > m->max_number)
		m->max_number = view_id_number(e->job.id);
	set_version(m, e);
	return 0;
}

static void replace_job(struct view_model *m, struct view_entry *old, struct view_entry *e)
{
	e->position = old->position;
	m->by_id->entries[old->position] = e;
	m->table[place(m, e->job.id)] = e;
	m->counts[old->job.state]--;
	m->counts[e->job.state]++;
	set_version(m, e);
	free(old);
}

int view_put_job(struct view_model *m, const struct view_job *job)
{
	if ((unsigned)job->state >= VIEW_JOB_STATES)
		return -EINVAL;
	struct view_entry *old = find(m, job->id);
	if (old && same_job(&old->job, job))
		return 0;
	struct view_entry *e = copy_job(job);
	if (!e)
		return -ENOMEM;
	if (old) {
		replace_job(m, old, e);
		return 0;
	}
	int result = add_job(m, e);
	if (result < 0)
		free(e);
	return result;
}

static void free_jobs(struct view_model *m)
{
	for (size_t i = 0; i < m->by_id->count; i++)
		free(m->by_id->entries[i]);
}

void view_forget_jobs(struct view_model *m)
{
	free_jobs(m);
	if (m->table_room)
		memset(m->table, 0, m->table_room * sizeof(struct view_entry *));
	m->by_id->count = m->by_id->sorted = 0;
	m->num_jobs = 0;
	m->max_number = 0;
	memset(m->counts, 0, sizeof(m->counts));
	m->jobs_version = ++m->version;
}

void view_forget_queue(struct view_model *m, unsigned queue)
{
	struct view_by_id *o = m->by_id;
	struct view_entry **entries = view_jobs_in_order(m);
	size_t kept = 0;
	if (m->num_jobs == 0)
		return;
	memset(m->table, 0, m->table_room * sizeof(struct view_entry *));
	for (size_t i = 0; i < o->count; i++) {
		struct view_entry *e = entries[i];
		if (view_id_queue(e->job.id) == queue) {
			m->counts[e->job.state]--;
			free(e);
			continue;
		}
		e->position = kept;
		entries[kept++] = e;
		m->table[place(m, e->job.id)] = e;
	}
	o->count = o->sorted = m->num_jobs = kept;
	m->jobs_version = ++m->version;
}

void view_jobs_finish(struct view_model *m)
{
	free_jobs(m);
	free(m->table);
	free(m->by_id->entries);
	free(m->by_id);
}

/* ---- Queries ------------------------------------------------------------------------ */

size_t view_num_jobs(const struct view_model *m)
{
	return m->num_jobs;
}

const struct view_job *view_job(const struct view_model *m, size_t i)
{
	return i < m->num_jobs ? &view_jobs_in_order(m)[i]->job : NULL;
}

const struct view_job *view_find_job(const struct view_model *m, uint64_t id)
{
	const struct view_entry *e = find(m, id);
	return e ? &e->job : NULL;
}

uint64_t view_max_number(const struct view_model *m)
{
	return m->max_number;
}

size_t view_job_count(const struct view_model *m, enum view_job_state state)
{
	return (unsigned)state < VIEW_JOB_STATES ? m->counts[state] : 0;
}

uint64_t view_jobs_version(const struct view_model *m)
{
	return m->jobs_version;
}
