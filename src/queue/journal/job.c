/* SPDX-License-Identifier: MIT */
#include "queue/journal/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/base64.h"
#include "base/date.h"
#include "queue/journal/record.h"

static const char *const state_names[JOB_STATES] = {
	[JOB_PENDING] = "pending",
	[JOB_HELD] = "held",
	[JOB_RUNNING] = "running",
	[JOB_COMPLETED] = "completed",
	[JOB_FAILED] = "failed",
	[JOB_CANCELLED] = "cancelled",
};

const char *job_state_name(enum job_state state)
{
	return state_names[state];
}

int job_state_parse(const char *name, size_t size, enum job_state *ret)
{
	for (size_t i = 0; i < JOB_STATES; i++)
		if (size && *name == *state_names[i] && strlen(state_names[i]) == size &&
			memcmp(state_names[i], name, size) == 0) {
			*ret = (enum job_state)i;
			return 0;
		}
	return -EINVAL;
}

void job_stuck_words(uint64_t id, char words[JOB_STUCK_ROOM])
{
	snprintf(words, JOB_STUCK_ROOM, "job %llu there " REASON_STUCK, (unsigned long long)id);
}

bool job_is_final(const struct job *j)
{
	return j->state == JOB_COMPLETED || j->state == JOB_FAILED || j->state == JOB_CANCELLED;
}

bool job_has_try_left(const struct job *j)
{
	return !j->cancel_requested && j->num_attempts - j->spared <= (uint32_t)j->wish->retries;
}

void jobs_init(struct jobs *js)
{
	*js = (struct jobs){0};
}

void jobs_finish(struct jobs *js)
{
	free(js->by_id);
	free(js->wishes);
	free(js->keepers);
	arena_finish(&js->arena);
	intern_finish(&js->strings);
	*js = (struct jobs){0};
}

void jobs_reset(struct jobs *js)
{
	struct jobs fresh = {.on_change = js->on_change, .context = js->context};
	jobs_finish(js);
	*js = fresh;
}

/* ---- Finding and adding ------------------------------------------------------ */

static int compare_id(const void *key, const void *element)
{
	uint64_t id = *(const uint64_t *)key, other = (*(struct job *const *)element)->id;
	return id < other ? -1 : id > other;
}

/* The index of the job with this id, or where it would be inserted. Ids mostly have no gaps. */
static size_t jobs_position(const struct jobs *js, uint64_t id)
{
	if (js->count == 0 || id > js->by_id[js->count - 1]->id)
		return js->count;
	uint64_t first = js->by_id[0]->id;
	if (id >= first && id - first < js->count && js->by_id[id - first]->id == id)
		return id - first;
	return array_lower_bound(&id, js->by_id, js->count, sizeof(*js->by_id), compare_id);
}

size_t jobs_index(const struct jobs *js, uint64_t id)
{
	size_t i = jobs_position(js, id);
	return i < js->count && js->by_id[i]->id == id ? i : js->count;
}

struct job *jobs_find(const struct jobs *js, uint64_t id)
{
	size_t i = jobs_index(js, id);
	return i < js->count ? js->by_id[i] : NULL;
}

static int jobs_insert(struct jobs *js, struct job *job)
{
	if (array_reserve(js->by_id, &js->capacity, js->count + 1) < 0)
		return -ENOMEM;
	size_t at = jobs_position(js, job->id);
	memmove(js->by_id + at + 1, js->by_id + at, (js->count - at) * sizeof(*js->by_id));
	js->by_id[at] = job;
	js->count++;
	if (job->id > js->last_id)
		js->last_id = job->id;
	return 0;
}

const struct keeper_info *jobs_keeper(const struct jobs *js, const char *name, size_t size)
{
	/* The newest first: starts name keepers that live. */
	for (size_t i = js->num_keepers; i-- > 0;)
		if (strlen(js->keepers[i]->name) == size && memcmp(js->keepers[i]->name, name, size) == 0)
			return js->keepers[i];
	return NULL;
}

/* ---- Strings of a line --------------------------------------------------------- */

/* A member into memory of the fold; NULL where it is not there. -ENOMEM or -EBADMSG by *error. */
static char *copy_bytes(
	struct jobs *js, const struct json_value *v, const struct json_value *b64, size_t *ret_size, int *error)
{
	if (!v->type)
		return NULL;
	const struct json_value *from = b64 && b64->type ? b64 : v;
	char *out = arena_room(&js->arena, from->size);
	if (!out) {
		*error = -ENOMEM;
		return NULL;
	}
	ssize_t n = from == v ? (ssize_t)json_unescape(v, out) : base64_decode(from->data, from->size, out);
	if (n < 0) {
		*error = (int)n;
		return NULL;
	}
	arena_keep(&js->arena, (size_t)n);
	if (ret_size)
		*ret_size = (size_t)n;
	return out;
}

static const char *intern_value(struct jobs *js, const struct json_value *v, const struct json_value *b64, int *error)
{
	if (!v->type)
		return NULL;
	const char *s;
	if (!v->escaped && !(b64 && b64->type)) {
		s = intern(&js->strings, v->data, v->size);
	} else {
		char *room = malloc((b64 && b64->type ? b64->size : v->size) + 1);
		ssize_t n = !room              ? -ENOMEM
			    : b64 && b64->type ? base64_decode(b64->data, b64->size, room)
					       : (ssize_t)json_unescape(v, room);
		s = n < 0 ? NULL : intern(&js->strings, room, (size_t)n);
		free(room);
		if (n < 0) {
			*error = (int)n;
			return NULL;
		}
	}
	if (!s)
		*error = -ENOMEM;
	return s;
}

/* The same, where the job before most likely had the same string. */
static const char *intern_like(
	struct jobs *js, const char *before, const struct json_value *v, const struct json_value *b64, int *error)
{
	if (before && v->type && !v->escaped && !(b64 && b64->type) && strncmp(before, v->data, v->size) == 0 &&
		before[v->size] == '\0')
		return before;
	return intern_value(js, v, b64, error);
}

static const struct job_wish *intern_wish(struct jobs *js, const struct job_wish *w)
{
	/* The last few are enough: jobs that were added together wish the same. */
	for (size_t i = js->num_wishes, tries = 8; i-- > 0 && tries-- > 0;)
		if (memcmp(js->wishes[i], w, sizeof(*w)) == 0)
			return js->wishes[i];
	if (array_reserve(js->wishes, &js->wishes_capacity, js->num_wishes + 1) < 0)
		return NULL;
	struct job_wish *copy = arena_alloc(&js->arena, sizeof(*copy));
	if (!copy)
		return NULL;
	memcpy(copy, w, sizeof(*copy));
	js->wishes[js->num_wishes++] = copy;
	return copy;
}

/* ---- One line ------------------------------------------------------------------ */

static void set_state(struct jobs *js, struct job *job, enum job_state state)
{
	int old = job->state;
	js->counts[old]--;
	js->counts[state]++;
	job->state = (unsigned char)state;
	if (js->on_change)
		js->on_change(js->context, job, old);
}

static int copy_after(struct jobs *js, const struct json_value *v, const uint64_t **ret)
{
	struct json_cursor c;
	struct json_value item;
	uint64_t n = 0;
	json_enter(&c, v);
	while (json_next_item(&c, &item) > 0)
		n++;
	uint64_t *after = arena_alloc(&js->arena, (n + 1) * sizeof(*after));
	if (!after)
		return -ENOMEM;
	json_enter(&c, v);
	for (after[0] = 0; json_next_item(&c, &item) > 0;) {
		int64_t id;
		if (json_to_int64(&item, &id) < 0 || id <= 0)
			return -EBADMSG;
		after[++after[0]] = (uint64_t)id;
	}
	*ret = n ? after : NULL;
	return 0;
}

static int clamp_int(int64_t n)
{
	return n > INT32_MAX ? INT32_MAX : n < INT32_MIN ? INT32_MIN : (int)n;
}

static struct job *new_job(struct jobs *js, const struct record *r, uint64_t id, int *error)
{
	struct job *job = arena_alloc(&js->arena, sizeof(*job));
	struct job_wish w;
	memset(&w, 0, sizeof(w)); /* compared as bytes */
	if (!job) {
		*error = -ENOMEM;
		return NULL;
	}
	size_t size = 0;
	job->id = id;
	job->command = copy_bytes(js, &r->command, &r->command_b64, &size, error);
	job->command_size = (uint32_t)size;
	if (size >= UINT32_MAX)
		*error = -EBADMSG;
	job->name = copy_bytes(js, &r->name, &r->name_b64, NULL, error);
	job->submit_ms = r->time_ms;
	job->priority = clamp_int(r->priority);
	static const struct job_wish none;
	const struct job_wish *last = js->num_wishes ? js->wishes[js->num_wishes - 1] : &none;
	w.cwd = intern_like(js, last->cwd, &r->cwd, &r->cwd_b64, error);
	w.env = intern_like(js, last->env, &r->env, NULL, error);
	w.file = intern_like(js, last->file, &r->file, &r->file_b64, error);
	w.log_dir = intern_like(js, last->log_dir, &r->log_dir, &r->log_dir_b64, error);
	w.on_finish = intern_like(js, last->on_finish, &r->on_finish, &r->on_finish_b64, error);
	w.mem_mb = r->mem_mb;
	w.min_free_mem_mb = r->min_free_mem_mb;
	w.timeout_ms = r->timeout_ms;
	w.num_gpus = clamp_int(r->num_gpus);
	w.retries = r->retries < 0 ? 0 : clamp_int(r->retries);
	w.has_retries = r->retries >= 0;
	if (r->after.type && !*error)
		*error = copy_after(js, &r->after, &job->after);
	job->wish = intern_wish(js, &w);
	if (!job->wish && !*error)
		*error = -ENOMEM;
	return *error ? NULL : job;
}

static int finish_new(struct jobs *js, struct job *job)
{
	int r = jobs_insert(js, job);
	if (r < 0)
		return r;
	js->counts[job->state]++;
	if (js->on_change)
		js->on_change(js->context, job, -1);
	return 0;
}

static int apply_add(struct jobs *js, const struct record *r)
{
	int error = 0;
	if (jobs_find(js, r->id))
		return -EBADMSG;
	struct job *job = new_job(js, r, r->id, &error);
	if (!job)
		return error;
	job->state = r->held ? JOB_HELD : JOB_PENDING;
	return finish_new(js, job);
}

static int copy_gpus(struct jobs *js, const struct json_value *v, struct job_attempt *a)
{
	int gpus[255];
	size_t n = 0;
	struct json_cursor c;
	struct json_value item;
	int64_t index;
	if (v->type == JSON_NUMBER) {
		if (json_to_int64(v, &index) < 0)
			return -EBADMSG;
		gpus[n++] = clamp_int(index);
	} else if (v->type == JSON_ARRAY) {
		json_enter(&c, v);
		while (json_next_item(&c, &item) > 0) {
			if (n == sizeof(gpus) / sizeof(gpus[0]) || json_to_int64(&item, &index) < 0)
				return -EBADMSG;
			gpus[n++] = clamp_int(index);
		}
	}
	int *copy = arena_alloc(&js->arena, n * sizeof(int));
	if (!copy)
		return -ENOMEM;
	memcpy(copy, gpus, n * sizeof(int));
	a->gpus = copy;
	a->num_gpus = (unsigned char)n;
	return 0;
}

static struct job_attempt *new_attempt(struct jobs *js, struct job *job, const struct record *r, int *error)
{
	struct job_attempt *a = arena_alloc(&js->arena, sizeof(*a));
	if (!a) {
		*error = -ENOMEM;
		return NULL;
	}
	*error = copy_gpus(js, &r->gpus, a);
	a->log = copy_bytes(js, &r->log, &r->log_b64, NULL, error);
	a->attempt = r->attempt;
	a->start_ms = r->time_ms;
	a->pid = clamp_int(r->pid);
	a->exit_code = -1;
	a->duration_ms = a->peak_mem_mb = -1;
	a->state = JOB_RUNNING;
	if (*error)
		return NULL;
	a->earlier = job->attempts;
	job->attempts = a;
	job->num_attempts++;
	return a;
}

static void copy_machine_part(char *out, size_t room, const struct json_value *v)
{
	if (v->type && v->size < room && !v->escaped)
		memcpy(out, v->data, v->size);
}

static int apply_keeper(struct jobs *js, const struct record *r)
{
	if (array_reserve(js->keepers, &js->keepers_capacity, js->num_keepers + 1) < 0)
		return -ENOMEM;
	int error = 0;
	struct keeper_info *k = arena_alloc(&js->arena, sizeof(*k));
	const char *name = intern_value(js, &r->keeper, NULL, &error);
	if (!k || !name)
		return error ? error : -ENOMEM;
	k->name = name;
	k->pid = clamp_int(r->pid);
	copy_machine_part(k->machine.host, sizeof(k->machine.host), &r->host);
	copy_machine_part(k->machine.boot, sizeof(k->machine.boot), &r->boot);
	copy_machine_part(k->machine.pidns, sizeof(k->machine.pidns), &r->pidns);
	js->keepers[js->num_keepers++] = k;
	return 0;
}

/* Where a job says nothing of retries, those hold that its runner gives. */
static int set_retries(struct jobs *js, struct job *job, int64_t retries)
{
	struct job_wish w;
	memcpy(&w, job->wish, sizeof(w)); /* with what lies between, for it is compared */
	w.retries = retries < 0 ? 0 : clamp_int(retries);
	if (w.has_retries || w.retries == job->wish->retries)
		return 0;
	const struct job_wish *wish = intern_wish(js, &w);
	if (!wish)
		return -ENOMEM;
	job->wish = wish;
	return 0;
}

static int apply_start(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find(js, r->id);
	if (!job || job->state == JOB_RUNNING)
		return -EBADMSG;
	int error = set_retries(js, job, r->retries);
	if (error || !new_attempt(js, job, r, &error))
		return error;
	if (r->keeper.type && !(job->keeper = jobs_keeper(js, r->keeper.data, r->keeper.size))) {
		/* Its own line is missing: where it lived is not known, but its lock still tells. */
		struct record k = {.keeper = r->keeper};
		error = apply_keeper(js, &k);
		if (error)
			return error;
		job->keeper = js->keepers[js->num_keepers - 1];
	}
	job->cancel_requested = job->stuck = job->hook_due = false;
	job->reason = NULL;
	set_state(js, job, JOB_RUNNING);
	return 0;
}

static int apply_end(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find(js, r->id);
	enum job_state state;
	if (!job || job->state != JOB_RUNNING || job->attempts->attempt != r->attempt || !r->status.type ||
		job_state_parse(r->status.data, r->status.size, &state) < 0)
		return -EBADMSG;
	int error = 0;
	struct job_attempt *a = job->attempts;
	a->reason = intern_value(js, &r->reason, NULL, &error);
	if (error)
		return error;
	a->end_ms = r->time_ms;
	a->duration_ms = r->duration_ms;
	a->peak_mem_mb = r->peak_mem_mb;
	a->exit_code = (short)r->exit_code;
	a->signal = (unsigned char)r->signal;
	a->state = (unsigned char)state;
	if (a->reason && strcmp(a->reason, REASON_GPU_MEMORY) == 0 && a->peak_mem_mb > job->need_mb)
		job->need_mb = a->peak_mem_mb;
	job->stuck = false;
	job->hook_due = r->by.type && json_is(&r->by, "runner");
	bool again = state == JOB_FAILED && job_has_try_left(job);
	if (state == JOB_FAILED && job->cancel_requested)
		state = JOB_CANCELLED;
	set_state(js, job, again ? JOB_PENDING : state);
	return 0;
}

static int apply_fail(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find(js, r->id);
	if (!job)
		return -EBADMSG;
	if (job->state != JOB_PENDING && job->state != JOB_HELD)
		return 0; /* cancelled in the meantime */
	int error = 0;
	job->reason = intern_value(js, &r->reason, NULL, &error);
	if (error)
		return error;
	job->hook_due = true;
	set_state(js, job, JOB_FAILED);
	return 0;
}

static int apply_stuck(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find(js, r->id);
	if (!job)
		return -EBADMSG;
	if (job->state != JOB_RUNNING || job->attempts->attempt != r->attempt)
		return 0; /* it died after all */
	job->stuck = true;
	set_state(js, job, JOB_RUNNING);
	return 0;
}

static int apply_hook(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find(js, r->id);
	/* It may have been pruned between its end and this. */
	if (job)
		job->hook_due = false;
	return 0;
}

/* Those that come too late for the job's state say nothing: whoever wrote them could not know. */
static int apply_control(struct jobs *js, const struct record *r)
{
	struct job *job = jobs_find(js, r->id);
	if (!job)
		return -EBADMSG;
	bool waits = job->state == JOB_PENDING || job->state == JOB_HELD;
	int error = 0;
	if (r->event == EVENT_CANCEL && waits) {
		job->reason = intern_value(js, &r->reason, NULL, &error);
		/* With a reason it was never accepted. */
		job->hook_due = !job->reason;
		set_state(js, job, JOB_CANCELLED);
	} else if (r->event == EVENT_CANCEL && job->state == JOB_RUNNING) {
		job->cancel_requested = true;
		set_state(js, job, JOB_RUNNING);
	} else if (r->event == EVENT_HOLD && job->state == JOB_PENDING) {
		set_state(js, job, JOB_HELD);
	} else if (r->event == EVENT_RELEASE && job->state == JOB_HELD) {
		set_state(js, job, JOB_PENDING);
	} else if (r->event == EVENT_URGENT && waits) {
		job->priority = JOB_URGENT;
		set_state(js, job, (enum job_state)job->state);
	} else if (r->event == EVENT_RETRY && job_is_final(job)) {
		job->spared = job->num_attempts;
		job->reason = NULL;
		job->cancel_requested = job->hook_due = false;
		set_state(js, job, JOB_PENDING);
	}
	return error;
}

static int apply_seen(struct jobs *js, const struct record *r)
{
	int error = 0;
	size_t size = 0;
	struct seen_lines *s = arena_alloc(&js->arena, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->file = intern_value(js, &r->file, &r->file_b64, &error);
	s->hashes = copy_bytes(js, &r->lines, NULL, &size, &error);
	s->count = size / 32;
	if (error || !s->file || !s->hashes || size % 32 != 0)
		return error ? error : -EBADMSG;
	s->next = js->seen;
	js->seen = s;
	return 0;
}

/* The first gpu_dispatch wrote down times with Python's isoformat(), or as seconds since 1970. */
static int64_t legacy_time(const struct json_value *v)
{
	int64_t ms;
	double s;
	if (v->type == JSON_STRING && date_parse(v->data, v->size, &ms) == 0)
		return ms;
	if (v->type == JSON_NUMBER && json_to_double(v, &s) == 0 && s > 0 && s < 1e12)
		return (int64_t)(s * 1000);
	return 0;
}

static int apply_legacy(struct jobs *js, struct record *r)
{
	enum job_state state;
	int error = 0;
	if (job_state_parse(r->status.data, r->status.size, &state) < 0 || state == JOB_HELD)
		return -EBADMSG;
	struct job *job = new_job(js, r, js->last_id + 1, &error);
	if (!job)
		return error;
	job->legacy = true;
	r->time_ms = legacy_time(&r->start_time);
	job->submit_ms = r->time_ms;
	if (state != JOB_PENDING) {
		struct job_attempt *a = new_attempt(js, job, r, &error);
		if (!a)
			return error;
		/* Whether it still runs, and how it ended, nobody kept: never run again by itself. */
		if (state == JOB_RUNNING)
			a->reason = REASON_END_UNKNOWN;
		state = state == JOB_RUNNING ? JOB_FAILED : state;
		a->exit_code = state == JOB_COMPLETED ? 0 : (short)r->exit_code;
		a->state = (unsigned char)state;
	}
	job->state = (unsigned char)state;
	return finish_new(js, job);
}

static int apply(struct jobs *js, struct record *r)
{
	switch (r->event) {
	case EVENT_JOURNAL:
		js->version = r->version;
		return r->version > RECORD_VERSION ? -ENOTSUP : 0;
	case EVENT_ADD:
		return apply_add(js, r);
	case EVENT_KEEPER:
		return apply_keeper(js, r);
	case EVENT_START:
		return apply_start(js, r);
	case EVENT_END:
		return apply_end(js, r);
	case EVENT_FAIL:
		return apply_fail(js, r);
	case EVENT_STUCK:
		return apply_stuck(js, r);
	case EVENT_HOOK:
		return apply_hook(js, r);
	case EVENT_CANCEL:
	case EVENT_HOLD:
	case EVENT_RELEASE:
	case EVENT_URGENT:
	case EVENT_RETRY:
		return apply_control(js, r);
	case EVENT_SEEN:
		return apply_seen(js, r);
	case EVENT_LEGACY:
		return apply_legacy(js, r);
	case EVENT_UNKNOWN:
		return 0;
	}
	return 0;
}

int jobs_apply(void *context, uint64_t line_no, const char *line, size_t size)
{
	struct jobs *js = context;
	struct record r;
	int error = size == 0 ? 0 : record_parse(line, size, &r);
	if (error == 0 && size > 0)
		error = apply(js, &r);
	if (error == -EBADMSG) {
		if (js->bad_lines++ == 0)
			js->first_bad_line = line_no;
		return 0;
	}
	return error;
}
