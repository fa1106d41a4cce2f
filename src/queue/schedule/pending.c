/* SPDX-License-Identifier: MIT */
#include "queue/schedule/pending.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"

#define NONE UINT32_MAX

/* Jobs with equal needs, as a heap: jobs[0] is first. A node in the tree of its kind. */
struct class
{
	struct placement_need need;
	struct pending_job **jobs;
	size_t capacity;
	uint32_t count;
	uint32_t kind;
	uint32_t left, right;     /* children that need less, more; in a free class `left` is the next free class */
	uint32_t weight;          /* random, the greatest at the root: keeps the tree flat */
	struct pending_job *best; /* the first job of this class and the classes below */
};

/* Classes that differ only in memory, as a tree ordered by memory. */
struct kind {
	struct placement_need need; /* memory is ignored */
	uint32_t root;
	bool limited;              /* in this pass… */
	uint64_t limit;            /* …classes that need at least this much are skipped */
	bool known;                /* whether `first` is valid */
	struct pending_job *first; /* first job that is not skipped; NULL: none */
};

struct pending {
	struct class *classes;
	size_t classes_capacity;
	uint32_t num_classes, free_class;
	struct kind *kinds; /* few: one for each combination of needs besides memory */
	size_t kinds_capacity;
	uint32_t num_kinds;
	uint32_t random;
	size_t count;
};

int pending_create(struct pending **ret)
{
	struct pending *p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->free_class = NONE;
	/* Otherwise another user could choose needs that make the tree a list. Its shape affects no decision. */
	p->random = (uint32_t)hash_seed();
	*ret = p;
	return 0;
}

void pending_destroy(struct pending *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->num_classes; i++)
		free(p->classes[i].jobs);
	free(p->classes);
	free(p->kinds);
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

void pending_each_need(const struct pending *p,
	void (*tell)(void *context, const struct placement_need *need, size_t num_jobs), void *context)
{
	for (uint32_t i = 0; i < p->num_classes; i++)
		if (p->classes[i].count > 0)
			tell(context, &p->classes[i].need, p->classes[i].count);
}

static bool goes_first(const struct pending_job *a, const struct pending_job *b)
{
	return a->priority != b->priority ? a->priority > b->priority : a->order < b->order;
}

/* Either may be NULL. */
static struct pending_job *first_of(struct pending_job *a, struct pending_job *b)
{
	return !a || (b && goes_first(b, a)) ? b : a;
}

/* ---- The heap of a class -------------------------------------------------- */

static void put_job(struct class *c, uint32_t i, struct pending_job *job)
{
	c->jobs[i] = job;
	job->position = i + 1;
}

/* Puts `job` at its position, given that position i is empty. */
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

/* ---- The tree of a kind ----------------------------------------------------- */

static struct pending_job *best_of(const struct pending *p, uint32_t node)
{
	return node == NONE ? NULL : p->classes[node].best;
}

static void update(struct pending *p, uint32_t node)
{
	struct class *c = &p->classes[node];
	c->best = first_of(c->count ? c->jobs[0] : NULL, first_of(best_of(p, c->left), best_of(p, c->right)));
}

/* Updates the path from the root to the class that needs `bytes`, whose first job has changed. */
static void update_path(struct pending *p, uint32_t node, uint64_t bytes)
{
	struct class *c = &p->classes[node];
	if (bytes != c->need.memory_bytes)
		update_path(p, bytes < c->need.memory_bytes ? c->left : c->right, bytes);
	update(p, node);
}

/* Splits into classes that need less than `bytes`, and the rest. */
static void split(struct pending *p, uint32_t node, uint64_t bytes, uint32_t *ret_less, uint32_t *ret_rest)
{
	if (node == NONE) {
		*ret_less = *ret_rest = NONE;
		return;
	}
	struct class *c = &p->classes[node];
	if (c->need.memory_bytes < bytes) {
		split(p, c->right, bytes, &c->right, ret_rest);
		*ret_less = node;
	} else {
		split(p, c->left, bytes, ret_less, &c->left);
		*ret_rest = node;
	}
	update(p, node);
}

/* All classes in `less` need less than those in `more`. */
static uint32_t merge(struct pending *p, uint32_t less, uint32_t more)
{
	if (less == NONE || more == NONE)
		return less == NONE ? more : less;
	struct class *l = &p->classes[less], *m = &p->classes[more];
	if (l->weight > m->weight) {
		l->right = merge(p, l->right, more);
		update(p, less);
		return less;
	}
	m->left = merge(p, less, m->left);
	update(p, more);
	return more;
}

static uint32_t insert(struct pending *p, uint32_t root, uint32_t node)
{
	uint32_t less, rest;
	split(p, root, p->classes[node].need.memory_bytes, &less, &rest);
	return merge(p, merge(p, less, node), rest);
}

static uint32_t erase(struct pending *p, uint32_t node, uint64_t bytes)
{
	struct class *c = &p->classes[node];
	if (c->need.memory_bytes == bytes)
		return merge(p, c->left, c->right);
	if (bytes < c->need.memory_bytes)
		c->left = erase(p, c->left, bytes);
	else
		c->right = erase(p, c->right, bytes);
	update(p, node);
	return node;
}

static struct pending_job *best_below(const struct pending *p, uint32_t node, uint64_t limit)
{
	struct pending_job *best = NULL;
	while (node != NONE) {
		const struct class *c = &p->classes[node];
		if (c->need.memory_bytes >= limit) {
			node = c->left;
			continue;
		}
		best = first_of(best, first_of(c->jobs[0], best_of(p, c->left)));
		node = c->right;
	}
	return best;
}

/* ---- Which class ------------------------------------------------------------ */

static bool same_kind(const struct placement_need *a, const struct placement_need *b)
{
	return a->declared == b->declared && a->alone == b->alone && a->by_card == b->by_card &&
	       a->num_gpus == b->num_gpus && a->cpus == b->cpus && a->host_bytes == b->host_bytes &&
	       a->time_ms == b->time_ms && (a->pin == b->pin || (a->pin && b->pin && strcmp(a->pin, b->pin) == 0));
}

static int find_kind(struct pending *p, const struct placement_need *need, uint32_t *ret)
{
	uint32_t number = p->num_kinds;
	for (uint32_t i = 0; i < p->num_kinds; i++) {
		if (same_kind(&p->kinds[i].need, need)) {
			*ret = i;
			return 0;
		}
		/* Reuse a kind without classes. */
		if (p->kinds[i].root == NONE && !p->kinds[i].limited)
			number = i;
	}
	if (array_reserve(p->kinds, &p->kinds_capacity, (size_t)number + 1) < 0)
		return -ENOMEM;
	if (number == p->num_kinds)
		p->num_kinds++;
	p->kinds[number] = (struct kind){.need = *need, .root = NONE};
	*ret = number;
	return 0;
}

static uint32_t next_random(struct pending *p)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 17;
	p->random ^= p->random << 5;
	return p->random;
}

/* An empty class, not yet in the tree. */
static int new_class(struct pending *p, uint32_t kind, uint64_t bytes, uint32_t *ret)
{
	uint32_t number = p->free_class;
	if (number == NONE && array_reserve(p->classes, &p->classes_capacity, (size_t)p->num_classes + 1) < 0)
		return -ENOMEM;
	if (number == NONE)
		number = p->num_classes++;
	else
		p->free_class = p->classes[number].left;
	p->classes[number] = (struct class){
		.need = p->kinds[kind].need, .kind = kind, .left = NONE, .right = NONE, .weight = next_random(p)};
	p->classes[number].need.memory_bytes = bytes;
	*ret = number;
	return 0;
}

static void free_class(struct pending *p, uint32_t number)
{
	free(p->classes[number].jobs);
	p->classes[number] = (struct class){.left = p->free_class};
	p->free_class = number;
}

static int find_class(struct pending *p, const struct placement_need *need, uint32_t *ret)
{
	uint32_t kind;
	int r = find_kind(p, need, &kind);
	if (r < 0)
		return r;
	for (uint32_t n = p->kinds[kind].root; n != NONE;) {
		const struct class *c = &p->classes[n];
		if (c->need.memory_bytes == need->memory_bytes) {
			*ret = n;
			return 0;
		}
		n = need->memory_bytes < c->need.memory_bytes ? c->left : c->right;
	}
	return new_class(p, kind, need->memory_bytes, ret);
}

/* ---- Jobs -------------------------------------------------------------------- */

static void class_changed(struct pending *p, struct class *c)
{
	update_path(p, p->kinds[c->kind].root, c->need.memory_bytes);
	p->kinds[c->kind].known = false;
}

int pending_add(struct pending *p, struct pending_job *job, const struct placement_need *need)
{
	uint32_t number;
	int r = find_class(p, need, &number);
	if (r < 0)
		return r;
	struct class *c = &p->classes[number];
	bool fresh = c->count == 0;
	if (array_reserve(c->jobs, &c->capacity, (size_t)c->count + 1) < 0) {
		if (fresh)
			free_class(p, number);
		return -ENOMEM;
	}
	job->class_number = number;
	c->count++;
	settle_job(c, c->count - 1, job);
	p->count++;
	struct kind *k = &p->kinds[c->kind];
	k->known = false;
	if (fresh) {
		update(p, number);
		k->root = insert(p, k->root, number);
	} else if (c->jobs[0] == job) {
		class_changed(p, c);
	}
	return 0;
}

void pending_remove(struct pending *p, struct pending_job *job)
{
	assert(job->position > 0);
	uint32_t number = job->class_number;
	struct class *c = &p->classes[number];
	struct kind *k = &p->kinds[c->kind];
	uint32_t i = job->position - 1;
	struct pending_job *last = c->jobs[--c->count];
	job->position = 0;
	p->count--;
	if (last != job)
		settle_job(c, i, last);
	k->known = false;
	if (c->count == 0) {
		k->root = erase(p, k->root, c->need.memory_bytes);
		free_class(p, number);
	} else if (i == 0) {
		class_changed(p, c);
	}
}

/* ---- A pass -------------------------------------------------------------------- */

void pending_rewind(struct pending *p)
{
	for (uint32_t i = 0; i < p->num_kinds; i++) {
		p->kinds[i].known = p->kinds[i].known && !p->kinds[i].limited;
		p->kinds[i].limited = false;
	}
}

struct pending_job *pending_peek(struct pending *p)
{
	struct pending_job *first = NULL;
	for (uint32_t i = 0; i < p->num_kinds; i++) {
		struct kind *k = &p->kinds[i];
		if (!k->known) {
			k->first = k->limited ? best_below(p, k->root, k->limit) : best_of(p, k->root);
			k->known = true;
		}
		first = first_of(first, k->first);
	}
	return first;
}

void pending_skip(struct pending *p, uint64_t from_bytes)
{
	struct pending_job *first = pending_peek(p);
	if (!first)
		return;
	const struct class *c = &p->classes[first->class_number];
	struct kind *k = &p->kinds[c->kind];
	k->limit = from_bytes < c->need.memory_bytes ? from_bytes : c->need.memory_bytes;
	k->limited = true;
	k->known = false;
}
