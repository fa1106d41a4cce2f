/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/base64.h"
#include "queue/journal/jobs_private.h"

/* Copies a string into the memory of the fold; NULL if v is absent, or on failure with *error set. */
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

const char *jobs_intern(struct jobs *js, const struct json_value *v, const struct json_value *b64, int *error)
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

/* As jobs_intern(), for a string that is most likely the same as in the previous job. */
static inline const char *intern_like(
	struct jobs *js, const char *before, const struct json_value *v, const struct json_value *b64, int *error)
{
	if (!v->type)
		return NULL;
	if (before && !v->escaped && !(b64 && b64->type) && strncmp(before, v->data, v->size) == 0 &&
		before[v->size] == '\0')
		return before;
	return jobs_intern(js, v, b64, error);
}

static const struct job_wish *intern_wish(struct jobs *js, const struct job_wish *w)
{
	/* Comparing the last few is enough: jobs that were added together have equal wishes. */
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

static uint64_t count_items(const struct json_value *v)
{
	struct json_cursor c;
	struct json_value item;
	uint64_t n = 0;
	if (!v->type)
		return 0;
	json_enter(&c, v);
	while (json_next_item(&c, &item) > 0)
		n++;
	return n;
}

static int copy_ids(const struct json_value *v, uint64_t *after)
{
	struct json_cursor c;
	struct json_value item;
	if (!v->type)
		return 0;
	json_enter(&c, v);
	while (json_next_item(&c, &item) > 0) {
		int64_t id;
		if (json_to_int64(&item, &id) < 0 || id <= 0)
			return -EBADMSG;
		after[++after[0]] = (uint64_t)id;
	}
	return 0;
}

/* The jobs that must be completed, then those that must have ended. */
static int copy_after(struct jobs *js, const struct record *r, struct job *job)
{
	uint64_t any = count_items(&r->after_any), n = count_items(&r->after) + any;
	uint64_t *after = n ? arena_alloc(&js->arena, (n + 1) * sizeof(*after)) : NULL;
	if (n == 0 || !after)
		return n ? -ENOMEM : 0;
	after[0] = 0;
	int error = copy_ids(&r->after, after);
	if (!error)
		error = copy_ids(&r->after_any, after);
	if (error)
		return error;
	js->num_after += n;
	job->after = after;
	job->num_after_any = (uint32_t)any;
	return 0;
}

/* The tags as one string, "a,b". Invalid tags are left out. */
static const char *intern_tags(struct jobs *js, const struct json_value *v, int *error)
{
	struct json_cursor c;
	struct json_value item;
	struct text t = {0};
	const char *tags = NULL;
	if (!v->type)
		return NULL;
	json_enter(&c, v);
	while (json_next_item(&c, &item) > 0) {
		if (item.type != JSON_STRING || !job_tag_is_valid(item.data, item.size))
			continue;
		if (t.length)
			text_append_char(&t, ',');
		text_append(&t, item.data, item.size);
	}
	if (text_error(&t) || (t.length && !(tags = intern(&js->strings, t.data, t.length))))
		*error = -ENOMEM;
	text_finish(&t);
	return tags;
}

static int clamp_int(int64_t n)
{
	return n > INT32_MAX ? INT32_MAX : n < INT32_MIN ? INT32_MIN : (int)n;
}

struct job *jobs_make_job(struct jobs *js, const struct record *r, uint64_t id, int *error)
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
	job->group = r->group > 0 && r->group < (int64_t)JOB_MAX_ID ? (uint32_t)r->group : 0;
	job->array_index = r->array_index < 0 ? -1 : clamp_int(r->array_index);
	static const struct job_wish none;
	const struct job_wish *last = js->num_wishes ? js->wishes[js->num_wishes - 1] : &none;
	w.cwd = intern_like(js, last->cwd, &r->cwd, &r->cwd_b64, error);
	w.env = intern_like(js, last->env, &r->env, NULL, error);
	w.file = intern_like(js, last->file, &r->file, &r->file_b64, error);
	w.log_dir = intern_like(js, last->log_dir, &r->log_dir, &r->log_dir_b64, error);
	w.on_finish = intern_like(js, last->on_finish, &r->on_finish, &r->on_finish_b64, error);
	w.on_idle = intern_like(js, last->on_idle, &r->on_idle, &r->on_idle_b64, error);
	w.gpu = intern_like(js, last->gpu, &r->gpu, NULL, error);
	w.mem_mb = r->mem_mb;
	w.min_free_mem_mb = r->min_free_mem_mb;
	w.timeout_ms = r->timeout_ms;
	w.num_gpus = clamp_int(r->num_gpus);
	w.host_mem_mb = r->host_mem_mb < 0 ? 0 : r->host_mem_mb;
	w.cpus = r->cpus < 0 ? 0 : clamp_int(r->cpus);
	w.exclusive = r->exclusive;
	w.retries = r->retries < 0 ? 0 : clamp_int(r->retries);
	w.has_retries = r->retries >= 0;
	w.has_on_finish = w.on_finish != NULL;
	w.cwd_own = r->cwd_own;
	w.cwd_id = (struct directory_id){(uint64_t)r->cwd_dev, (uint64_t)r->cwd_ino};
	w.tree = intern_like(js, last->tree, &r->tree, &r->tree_b64, error);
	w.commit = intern_like(js, last->commit, &r->commit, NULL, error);
	w.script = intern_like(js, last->script, &r->script, NULL, error);
	w.script_name = intern_like(js, last->script_name, &r->script_name, NULL, error);
	w.tags = intern_tags(js, &r->tags, error);
	w.begin_ms = r->begin_ms > 0 ? r->begin_ms : 0;
	w.warn_signal = r->signal > 0 && r->signal < 65 ? (int)r->signal : 0;
	w.warn_before_ms = w.warn_signal && r->signal_before_ms > 0 ? r->signal_before_ms : 0;
	w.idle_warn_ms = r->idle_warn_ms == 0 ? -1 : r->idle_warn_ms > 0 ? r->idle_warn_ms : 0;
	w.requeue_on = r->requeue_on > 0 && r->requeue_on < 256 ? (int)r->requeue_on : 0;
	if (!*error)
		*error = copy_after(js, r, job);
	job->wish = intern_wish(js, &w);
	if (!job->wish && !*error)
		*error = -ENOMEM;
	return *error ? NULL : job;
}

static bool has_number(const int *numbers, int count, int number)
{
	for (int i = 0; i < count; i++)
		if (numbers[i] == number)
			return true;
	return false;
}

/* The different numbers of an array, or one number. Returns how many, at most 255, or -EBADMSG. */
static int read_gpus(const struct json_value *v, int gpus[255])
{
	int n = 0;
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
			if (json_to_int64(&item, &index) < 0)
				return -EBADMSG;
			if (has_number(gpus, n, clamp_int(index)))
				continue;
			if (n == 255)
				return -EBADMSG;
			gpus[n++] = clamp_int(index);
		}
	}
	return n;
}

/* The same, in the memory of the fold. A negative errno value on failure. */
static int copy_gpus(struct jobs *js, const struct json_value *v, const int **ret)
{
	/* A single GPU below 10, "[3]": all attempts share one copy. */
	const int **shared = v->type == JSON_ARRAY && v->size == 3 && v->data[1] >= '0' && v->data[1] <= '9'
				     ? &js->one_gpu[v->data[1] - '0']
				     : NULL;
	if (shared && *shared) {
		*ret = *shared;
		return 1;
	}
	int gpus[255];
	int n = read_gpus(v, gpus);
	if (n < 0)
		return n;
	int *copy = arena_alloc(&js->arena, (size_t)n * sizeof(int));
	if (!copy)
		return -ENOMEM;
	memcpy(copy, gpus, (size_t)n * sizeof(int));
	*ret = copy;
	if (shared)
		*shared = copy;
	return n;
}

struct job_attempt *jobs_make_attempt(struct jobs *js, struct job *job, const struct record *r, int *error)
{
	struct job_attempt *a = arena_alloc(&js->arena, sizeof(*a));
	if (!a) {
		*error = -ENOMEM;
		return NULL;
	}
	int num_gpus = copy_gpus(js, &r->gpus, &a->gpus);
	a->num_gpus = num_gpus < 0 ? 0 : (unsigned char)num_gpus;
	*error = num_gpus < 0 ? num_gpus : 0;
	a->log = copy_bytes(js, &r->log, &r->log_b64, NULL, error);
	a->attempt = r->attempt;
	a->start_ms = r->time_ms;
	a->pid = clamp_int(r->pid);
	a->exit_code = -1;
	a->duration_ms = a->peak_mem_mb = a->energy_j = -1;
	a->state = JOB_RUNNING;
	if (*error)
		return NULL;
	a->earlier = job->attempts;
	job->attempts = a;
	job->num_attempts++;
	return a;
}

const struct attempt_idle *jobs_make_idle(struct jobs *js, const struct record *r, int *error)
{
	struct attempt_idle *idle = arena_alloc(&js->arena, sizeof(*idle));
	int num_gpus = idle ? copy_gpus(js, &r->gpus, &idle->gpus) : -ENOMEM;
	if (num_gpus < 0) {
		*error = num_gpus;
		return NULL;
	}
	idle->num_gpus = (size_t)num_gpus;
	idle->at_ms = r->time_ms;
	idle->since_ms = num_gpus ? r->since_ms : 0;
	idle->idle_ms = r->idle_ms > 0 ? r->idle_ms : 0;
	return idle;
}

static void copy_machine_part(char *out, size_t room, const struct json_value *v)
{
	if (v->type && v->size < room && !v->escaped)
		memcpy(out, v->data, v->size);
}

const struct keeper_info *jobs_add_keeper(struct jobs *js, const struct record *r, int *error)
{
	struct keeper_info *k = arena_alloc(&js->arena, sizeof(*k));
	const char *name = jobs_intern(js, &r->keeper, NULL, error);
	const char *allocation = jobs_intern(js, &r->allocation, NULL, error);
	if (!*error && (!k || !name))
		*error = -ENOMEM;
	if (*error)
		return NULL;
	k->name = name;
	k->allocation = allocation;
	k->pid = clamp_int(r->pid);
	copy_machine_part(k->machine.host, sizeof(k->machine.host), &r->host);
	copy_machine_part(k->machine.boot, sizeof(k->machine.boot), &r->boot);
	copy_machine_part(k->machine.pidns, sizeof(k->machine.pidns), &r->pidns);
	*error = key_table_put(&js->keepers, name, strlen(name), k);
	return *error ? NULL : k;
}

/* Options that a job does not set are those of the runner that starts it. */
int jobs_set_defaults(struct jobs *js, struct job *job, const struct record *r)
{
	struct job_wish w;
	int error = 0;
	memcpy(&w, job->wish, sizeof(w)); /* including padding: wishes are compared as bytes */
	if (!w.has_retries)
		w.retries = r->retries < 0 ? 0 : clamp_int(r->retries);
	if (!w.has_on_finish)
		w.on_finish = intern_like(js, w.on_finish, &r->on_finish, &r->on_finish_b64, &error);
	if (error || (w.retries == job->wish->retries && w.on_finish == job->wish->on_finish))
		return error;
	const struct job_wish *wish = intern_wish(js, &w);
	if (!wish)
		return -ENOMEM;
	job->wish = wish;
	return 0;
}

int jobs_add_seen(struct jobs *js, const struct record *r)
{
	int error = 0;
	size_t size = 0;
	struct seen_lines *s = arena_alloc(&js->arena, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->file = jobs_intern(js, &r->file, &r->file_b64, &error);
	s->hashes = copy_bytes(js, &r->lines, NULL, &size, &error);
	s->count = size / 32;
	if (error || !s->file || !s->hashes || size % 32 != 0)
		return error ? error : -EBADMSG;
	s->next = js->seen;
	js->seen = s;
	return 0;
}
