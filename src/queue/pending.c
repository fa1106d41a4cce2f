/* SPDX-License-Identifier: MIT */
#include "queue/pending.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Jobs with equal needs, as a heap: jobs[0] goes first. */
struct class
{
	struct placement_need need; /* its avoid list belongs to the class */
	struct pending_job **jobs;
	uint32_t count, room;
	uint32_t position; /* in the heap of classes, from 1; 0: skipped, or empty */
	uint32_t next;     /* in its bucket, or among the free ones */
	uint32_t hash;
	bool skipped;
};

struct pending {
	struct class *classes;
	uint32_t num_classes, classes_room, free_class;
	uint32_t *buckets;
	uint32_t num_buckets, used_classes;
	uint32_t *heap; /* of classes, by their first jobs; room for all of them */
	uint32_t heap_count;
	uint32_t *skipped; /* room for all of them, too */
	uint32_t num_skipped;
	size_t count;
};

int pending_create(struct pending **ret)
{
	struct pending *p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->free_class = NONE;
	*ret = p;
	return 0;
}

void pending_destroy(struct pending *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->num_classes; i++) {
		free((void *)p->classes[i].need.avoid);
		free(p->classes[i].jobs);
	}
	free(p->classes);
	free(p->buckets);
	free(p->heap);
	free(p->skipped);
	free(p);
}

size_t pending_count(const struct pending *p)
{
	return p->count;
}

const struct placement_need *pending_need(const struct pending *p, const struct pending_job *job)
{
	return &p->classes[job->class_number].need;
}

static bool goes_first(const struct pending_job *a, const struct pending_job *b)
{
	return a->priority != b->priority ? a->priority > b->priority : a->order < b->order;
}

/* ---- The heap of a class -------------------------------------------------- */

static void put_job(struct class *c, uint32_t i, struct pending_job *job)
{
	c->jobs[i] = job;
	job->position = i + 1;
}

/* Puts `job` where it belongs, given that place i is empty. */
static void settle_job(struct class *c, uint32_t i, struct pending_job *job)
{
	for (; i > 0 && goes_first(job, c->jobs[(i - 1) / 2]); i = (i - 1) / 2)
		put_job(c, i, c->jobs[(i - 1) / 2]);
	for (;;) {
		uint32_t child = 2 * i + 1;
		if (child + 1 < c->count && goes_first(c->jobs[child + 1], c->jobs[child]))
			child++;
		if (child >= c->count || !goes_first(c->jobs[child], job))
			break;
		put_job(c, i, c->jobs[child]);
		i = child;
	}
	put_job(c, i, job);
}

/* ---- The heap of classes --------------------------------------------------- */

static bool class_goes_first(const struct pending *p, uint32_t a, uint32_t b)
{
	return goes_first(p->classes[a].jobs[0], p->classes[b].jobs[0]);
}

static void put_class(struct pending *p, uint32_t i, uint32_t number)
{
	p->heap[i] = number;
	p->classes[number].position = i + 1;
}

static void settle_class(struct pending *p, uint32_t i, uint32_t number)
{
	for (; i > 0 && class_goes_first(p, number, p->heap[(i - 1) / 2]); i = (i - 1) / 2)
		put_class(p, i, p->heap[(i - 1) / 2]);
	for (;;) {
		uint32_t child = 2 * i + 1;
		if (child + 1 < p->heap_count && class_goes_first(p, p->heap[child + 1], p->heap[child]))
			child++;
		if (child >= p->heap_count || !class_goes_first(p, p->heap[child], number))
			break;
		put_class(p, i, p->heap[child]);
		i = child;
	}
	put_class(p, i, number);
}

static void enter_class(struct pending *p, uint32_t number)
{
	settle_class(p, p->heap_count++, number);
}

static void leave_class(struct pending *p, uint32_t number)
{
	uint32_t i = p->classes[number].position - 1;
	uint32_t last = p->heap[--p->heap_count];
	p->classes[number].position = 0;
	if (last != number)
		settle_class(p, i, last);
}

/* ---- Which class ------------------------------------------------------------ */

static uint32_t hash_bytes(uint32_t hash, const void *data, size_t size)
{
	const unsigned char *s = data;
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ s[i]) * 16777619u;
	return hash;
}

static uint32_t hash_need(const struct placement_need *need)
{
	uint32_t h = hash_bytes(2166136261u, &need->memory_bytes, sizeof(need->memory_bytes));
	h = hash_bytes(h, &need->num_gpus, sizeof(need->num_gpus));
	h = hash_bytes(h, &need->declared, sizeof(need->declared));
	return need->num_avoid ? hash_bytes(h, need->avoid, need->num_avoid * sizeof(*need->avoid)) : h;
}

static bool same_need(const struct placement_need *a, const struct placement_need *b)
{
	return a->memory_bytes == b->memory_bytes && a->declared == b->declared && a->num_gpus == b->num_gpus &&
	       a->num_avoid == b->num_avoid &&
	       (!a->num_avoid || !memcmp(a->avoid, b->avoid, a->num_avoid * sizeof(*a->avoid)));
}

static int grow_buckets(struct pending *p)
{
	uint32_t count = p->num_buckets ? p->num_buckets * 2 : 16;
	uint32_t *buckets = reallocarray(NULL, count, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	memset(buckets, 0xff, count * sizeof(*buckets));
	for (uint32_t i = 0; i < p->num_buckets; i++) {
		uint32_t next;
		for (uint32_t n = p->buckets[i]; n != NONE; n = next) {
			struct class *c = &p->classes[n];
			next = c->next;
			c->next = buckets[c->hash % count];
			buckets[c->hash % count] = n;
		}
	}
	free(p->buckets);
	p->buckets = buckets;
	p->num_buckets = count;
	return 0;
}

static int grow_classes(struct pending *p)
{
	uint32_t room = p->classes_room ? p->classes_room * 2 : 16;
	struct class *classes = reallocarray(p->classes, room, sizeof(*classes));
	if (!classes)
		return -ENOMEM;
	p->classes = classes;
	uint32_t *heap = reallocarray(p->heap, room, sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	p->heap = heap;
	uint32_t *skipped = reallocarray(p->skipped, room, sizeof(*skipped));
	if (!skipped)
		return -ENOMEM;
	p->skipped = skipped;
	p->classes_room = room;
	return 0;
}

static int new_class(struct pending *p, const struct placement_need *need, uint32_t hash, uint32_t *ret)
{
	if (p->used_classes >= p->num_buckets && grow_buckets(p) < 0)
		return -ENOMEM;
	if (p->free_class == NONE && p->num_classes == p->classes_room && grow_classes(p) < 0)
		return -ENOMEM;
	int *avoid = NULL;
	if (need->num_avoid) {
		avoid = reallocarray(NULL, need->num_avoid, sizeof(*avoid));
		if (!avoid)
			return -ENOMEM;
		memcpy(avoid, need->avoid, need->num_avoid * sizeof(*avoid));
	}
	uint32_t number = p->free_class;
	if (number != NONE)
		p->free_class = p->classes[number].next;
	else
		number = p->num_classes++;
	struct class *c = &p->classes[number];
	*c = (struct class){.need = *need, .hash = hash, .next = p->buckets[hash % p->num_buckets]};
	c->need.avoid = avoid;
	p->buckets[hash % p->num_buckets] = number;
	p->used_classes++;
	*ret = number;
	return 0;
}

static int find_class(struct pending *p, const struct placement_need *need, uint32_t *ret)
{
	uint32_t hash = hash_need(need);
	uint32_t n = p->num_buckets ? p->buckets[hash % p->num_buckets] : NONE;
	for (; n != NONE; n = p->classes[n].next) {
		if (p->classes[n].hash == hash && same_need(&p->classes[n].need, need)) {
			*ret = n;
			return 0;
		}
	}
	return new_class(p, need, hash, ret);
}

/* Needs come and go (a retry has its own); an empty class goes with its last job. */
static void drop_class(struct pending *p, uint32_t number)
{
	struct class *c = &p->classes[number];
	uint32_t *link = &p->buckets[c->hash % p->num_buckets];
	while (*link != number)
		link = &p->classes[*link].next;
	*link = c->next;
	free((void *)c->need.avoid);
	free(c->jobs);
	*c = (struct class){.next = p->free_class};
	p->free_class = number;
	p->used_classes--;
}

/* ---- Jobs -------------------------------------------------------------------- */

int pending_add(struct pending *p, struct pending_job *job, const struct placement_need *need)
{
	uint32_t number;
	int r = find_class(p, need, &number);
	if (r < 0)
		return r;
	struct class *c = &p->classes[number];
	if (c->count == c->room) {
		uint32_t room = c->room ? c->room * 2 : 4;
		struct pending_job **jobs = reallocarray(c->jobs, room, sizeof(*jobs));
		if (!jobs) {
			if (c->count == 0)
				drop_class(p, number);
			return -ENOMEM;
		}
		c->jobs = jobs;
		c->room = room;
	}
	job->class_number = number;
	c->count++;
	settle_job(c, c->count - 1, job);
	p->count++;
	if (c->position)
		settle_class(p, c->position - 1, number);
	else if (!c->skipped)
		enter_class(p, number);
	return 0;
}

void pending_remove(struct pending *p, struct pending_job *job)
{
	assert(job->position > 0);
	uint32_t number = job->class_number;
	struct class *c = &p->classes[number];
	uint32_t i = job->position - 1;
	struct pending_job *last = c->jobs[--c->count];
	job->position = 0;
	p->count--;
	if (last != job)
		settle_job(c, i, last);
	if (c->count == 0) {
		if (c->position)
			leave_class(p, number);
		if (!c->skipped)
			drop_class(p, number);
	} else if (c->position) {
		settle_class(p, c->position - 1, number);
	}
}

void pending_set_priority(struct pending *p, struct pending_job *job, int32_t priority)
{
	struct class *c = &p->classes[job->class_number];
	job->priority = priority;
	settle_job(c, job->position - 1, job);
	if (c->position)
		settle_class(p, c->position - 1, job->class_number);
}

/* ---- A pass -------------------------------------------------------------------- */

void pending_rewind(struct pending *p)
{
	for (uint32_t i = 0; i < p->num_skipped; i++) {
		uint32_t number = p->skipped[i];
		p->classes[number].skipped = false;
		if (p->classes[number].count)
			enter_class(p, number);
		else
			drop_class(p, number);
	}
	p->num_skipped = 0;
}

struct pending_job *pending_peek(struct pending *p)
{
	return p->heap_count ? p->classes[p->heap[0]].jobs[0] : NULL;
}

void pending_skip(struct pending *p)
{
	if (!p->heap_count)
		return;
	uint32_t number = p->heap[0];
	leave_class(p, number);
	p->classes[number].skipped = true;
	p->skipped[p->num_skipped++] = number;
}
