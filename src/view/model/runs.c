/* SPDX-License-Identifier: MIT */
/* The launches and maps of a model. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "view/model/model_private.h"

static void free_runs(struct view_run **runs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(runs[i]);
	free(runs);
}

void view_runs_finish(struct view_model *m)
{
	free_runs(m->runs, m->num_runs);
}

static struct view_run *copy_run(const struct view_run *run)
{
	size_t room = view_string_room(run->kind) + view_string_room(run->name) + view_string_room(run->worker);
	for (size_t i = 0; i < run->num_gpus; i++)
		room += view_string_room(run->gpus[i].task);
	struct view_run *copy = malloc(sizeof(*copy) + run->num_gpus * sizeof(*run->gpus) + room);
	if (!copy)
		return NULL;
	struct view_run_gpu *gpus = (struct view_run_gpu *)(copy + 1);
	char *at = (char *)(gpus + run->num_gpus);
	*copy = *run;
	copy->kind = view_string_put(&at, run->kind);
	copy->name = view_string_put(&at, run->name);
	copy->worker = view_string_put(&at, run->worker);
	copy->gpus = gpus;
	for (size_t i = 0; i < run->num_gpus; i++) {
		gpus[i] = run->gpus[i];
		gpus[i].task = view_string_put(&at, run->gpus[i].task);
	}
	return copy;
}

static bool same_gpus(const struct view_run *a, const struct view_run *b)
{
	if (a->num_gpus != b->num_gpus)
		return false;
	for (size_t i = 0; i < a->num_gpus; i++) {
		const struct view_run_gpu *x = &a->gpus[i], *y = &b->gpus[i];
		if (x->id != y->id || x->done != y->done || x->failed != y->failed || x->rtf != y->rtf ||
			!view_string_equal(x->task, y->task))
			return false;
	}
	return true;
}

static bool same(const struct view_run *a, const struct view_run *b)
{
	return a->pid == b->pid && a->start_ms == b->start_ms && a->total == b->total && a->done == b->done &&
	       a->failed == b->failed && a->skipped == b->skipped && a->running == b->running &&
	       a->fraction == b->fraction && a->rate == b->rate && a->rtf == b->rtf && a->eta_ms == b->eta_ms &&
	       a->watching == b->watching && a->ending == b->ending && view_string_equal(a->kind, b->kind) &&
	       view_string_equal(a->name, b->name) && view_string_equal(a->worker, b->worker) && same_gpus(a, b);
}

static int by_pid(const void *x, const void *y)
{
	const struct view_run *a = *(struct view_run *const *)x, *b = *(struct view_run *const *)y;
	return (a->pid > b->pid) - (a->pid < b->pid);
}

int view_put_runs(struct view_model *m, const struct view_run *runs, size_t count)
{
	struct view_run **copies = calloc(count + 1, sizeof(*copies));
	if (!copies)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		copies[i] = copy_run(&runs[i]);
		if (!copies[i]) {
			free_runs(copies, i);
			return -ENOMEM;
		}
	}
	qsort(copies, count, sizeof(*copies), by_pid);
	bool changed = count != m->num_runs;
	for (size_t i = 0; !changed && i < count; i++)
		changed = !same(copies[i], m->runs[i]);
	if (!changed) {
		free_runs(copies, count);
		return 0;
	}
	free_runs(m->runs, m->num_runs);
	m->runs = copies;
	m->num_runs = count;
	m->version++;
	return 0;
}

size_t view_num_runs(const struct view_model *m)
{
	return m->num_runs;
}

const struct view_run *view_run(const struct view_model *m, size_t i)
{
	return i < m->num_runs ? m->runs[i] : NULL;
}
