/* SPDX-License-Identifier: MIT */
/*
 * Handles the end of a message: its items end or are sent again.
 *
 * An item is blamed only if it fails alone. A message that fails is split, down to one item. A message during which a
 * worker ended is sent once more, alone; if that worker ends too, the message is split.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "launch/items_task.h"
#include "launch/map_private.h"

#define FLUSH_BYTES   ((size_t)64 << 10)
#define MOST_PATIENCE ((uint64_t)1 << 20)

/* ---- Items -------------------------------------------------------------- */

static void note_failure(struct map *m, uint64_t number, const char *reason, size_t size)
{
	struct map_summary *s = &m->summary;
	char *copy = strndup(reason, size);
	if (copy && m->options.on_failure)
		m->options.on_failure(m->options.context, number, copy);
	if (copy && s->num_failures < MAP_MOST_FAILURES)
		m->failures[s->num_failures++] = (struct map_failure){number, copy};
	else
		free(copy);
	m->num_failed++;
	if (!m->options.max_failures || m->num_failed < m->options.max_failures || m->enough)
		return;
	m->enough = true;
	error_set(&m->reason, -EDQUOT, "%llu item%s failed (--max-failures); no new items are started",
		(unsigned long long)m->num_failed, m->num_failed == 1 ? "" : "s");
	map_stop_pool(m, 1);
}

struct map_gpu *map_gpu_counts(struct map *m, int gpu)
{
	for (size_t i = 0; i < m->summary.num_gpus; i++)
		if (m->gpu_counts[i].gpu == gpu)
			return &m->gpu_counts[i];
	return NULL;
}

static void fail_memory(struct map *m)
{
	struct gd_error err = {0};
	error_set(&err, -ENOMEM, "cannot keep results until they are written: out of memory");
	map_fail(m, &err);
}

/* After the item's line was appended to the pending lines. */
static void end_line(struct map *m, struct map_file *f, const struct map_ended *ended)
{
	if (map_record_add_ended(f, ended) < 0)
		fail_memory(m);
	if (f->pending.length >= FLUSH_BYTES)
		map_flush(m);
}

static void release_held(struct map *m)
{
	struct map_held held;
	while (map_order_take(&m->order, &held)) {
		struct map_file *f = map_record_file(&m->record, held.ended.failed);
		text_append(&f->pending, held.line, held.size);
		free(held.line);
		end_line(m, f, &held.ended);
	}
}

static void put_in_order(
	struct map *m, const struct map_item *item, const struct map_ended *ended, const char *data, size_t size)
{
	text_clear(&m->line);
	map_record_format(&m->line, item->number, item->check, ended->failed, data, size);
	if (text_error(&m->line) || map_order_put(&m->order, item->place, ended, m->line.data, m->line.length) < 0)
		fail_memory(m);
	else
		release_held(m);
}

void map_end_item(struct map *m, const struct map_item *item, int gpu, bool failed, const char *data, size_t size)
{
	const struct map_ended ended = {.bytes = item->bytes, .gpu = gpu, .failed = failed};
	if (failed)
		note_failure(m, item->number, data, size);
	if (m->options.ordered) {
		put_in_order(m, item, &ended, data, size);
		return;
	}
	struct map_file *f = map_record_file(&m->record, failed);
	map_record_format(&f->pending, item->number, item->check, failed, data, size);
	end_line(m, f, &ended);
}

static void count_ended(struct map *m, const struct map_ended *ended)
{
	struct map_summary *s = &m->summary;
	struct map_gpu *counts = map_gpu_counts(m, ended->gpu);
	s->done_bytes += ended->bytes;
	*(ended->failed ? &s->failed : &s->done) += 1;
	if (counts)
		*(ended->failed ? &counts->failed : &counts->items) += 1;
}

void map_flush(struct map *m)
{
	struct map_file *files[] = {&m->record.output, &m->record.errors};
	struct gd_error err = {0};
	for (size_t i = 0; i < 2 && !m->error; i++) {
		struct map_file *f = files[i];
		if (map_record_flush(f, &err) < 0)
			map_fail(m, &err);
		else
			for (size_t k = 0; k < f->num_ended; k++)
				count_ended(m, &f->ended[k]);
		f->num_ended = 0;
	}
}

/* ---- Messages ----------------------------------------------------------- */

/* Sends a part of a message again. If the run is ending, the part is left for the next run. */
static void send_part(struct map *m, const struct map_batch *b, size_t first, size_t count)
{
	struct map_batch *part = map_is_ending(m) ? NULL : map_batch_part(b, first, count);
	if (part) {
		m->summary.retries++;
		map_send_again(m, part);
	} else if (!map_is_ending(m)) {
		struct gd_error err = {0};
		error_set(&err, -ENOMEM, "cannot send items again: out of memory");
		map_fail(m, &err);
	}
}

static void split(struct map *m, const struct map_batch *b)
{
	size_t half = (b->count + 1) / 2;
	send_part(m, b, 0, half);
	send_part(m, b, half, b->count - half);
}

/* An item that failed itself: alone in its message, or according to the program's answer. */
static void fail_item(struct map *m, struct map_batch *b, size_t i, int gpu, const char *reason, size_t size)
{
	struct map_item *item = &b->items[i];
	if (item->attempts++ < (uint32_t)m->options.retries)
		send_part(m, b, i, 1);
	else
		map_end_item(m, item, gpu, true, reason, size);
}

static void fail_message(struct map *m, struct map_batch *b, const struct gd_event *e)
{
	const char *reason = e->message[0] ? e->message : gd_failure_name(e->failure);
	if (b->count > 1)
		split(m, b);
	else
		fail_item(m, b, 0, e->gpu, reason, strlen(reason));
}

static void lower_batch(struct map *m, struct map_batch *b)
{
	size_t half = b->count / 2;
	m->streak = 0;
	/* An item that fails alone was the reason, not the number of items. */
	if (b->count == 1 && b->batch_before > m->batch)
		m->batch = b->batch_before;
	if (b->count == 1 || half >= m->batch)
		return;
	if (!b->batch_before)
		b->batch_before = m->batch;
	m->batch = half;
	/* Each failed attempt costs all messages in flight. */
	m->patience = m->patience < MOST_PATIENCE ? 2 * m->patience : MOST_PATIENCE;
	if (half < m->warned_batch)
		map_warn(m, "out of memory with %zu items per message; continuing with %zu", b->count, half);
	m->warned_batch = half < m->warned_batch ? half : m->warned_batch;
}

static void raise_batch(struct map *m)
{
	if (m->batch == m->options.batch || ++m->streak < m->patience)
		return;
	m->streak = 0;
	m->batch = m->batch * 2 < m->options.batch ? m->batch * 2 : m->options.batch;
}

/* The worker ended during this message. */
static void blame_message(struct map *m, struct map_batch *b, const struct gd_event *e)
{
	bool was_alone = b->alone;
	b->deaths++;
	b->alone = true;
	if (b->deaths == 1 || (b->count == 1 && !was_alone))
		send_part(m, b, 0, b->count);
	else
		fail_message(m, b, e);
}

static void warn_replaced(struct map *m, const struct gd_event *e)
{
	if (!m->warned_replaced)
		map_warn(m, "a worker on GPU %d was replaced: %s", e->gpu, e->message);
	m->warned_replaced = true;
}

static void settle_failure(struct map *m, struct map_batch *b, const struct gd_event *e)
{
	bool answered = e->failure == GD_FAILURE_ERROR;
	if (e->failure == GD_FAILURE_CANCELLED || e->failure == GD_FAILURE_NO_WORKER || m->pool_stops > 1)
		return; /* left for the next run */
	if (answered && e->code == ITEMS_NOT_BEGUN) {
		warn_replaced(m, e);
		send_part(m, b, 0, b->count);
	} else if (answered && e->code == ITEMS_OUT_OF_MEMORY) {
		lower_batch(m, b);
		fail_message(m, b, e);
	} else if (e->failure == GD_FAILURE_TIMED_OUT || (answered && e->code != ITEMS_LOST)) {
		fail_message(m, b, e);
	} else {
		warn_replaced(m, e);
		blame_message(m, b, e);
	}
}

/* ---- Callbacks of the pool ---------------------------------------------- */

static void count_message(struct map *m, const struct map_batch *b, const struct gd_event *e)
{
	struct map_gpu *counts = map_gpu_counts(m, e->gpu);
	m->in_pool--;
	m->items_in_pool -= b->count;
	m->bytes_in_pool -= b->task.length;
	if (!counts)
		return;
	m->summary.messages++;
	counts->messages++;
}

static bool is_complete(struct gd_bytes bytes, size_t count)
{
	struct items_answer answer;
	int r;
	while ((r = items_answer_next(&bytes, &answer)) > 0 && count > 0)
		count--;
	return r == 0 && count == 0;
}

int map_on_success(void *context, const struct gd_event *e)
{
	struct map *m = context;
	struct map_batch *b = e->tag;
	struct items_answer answer;
	struct gd_bytes bytes = e->result;
	count_message(m, b, e);
	if (is_complete(bytes, b->count)) {
		raise_batch(m);
		/* The answer is in memory of the worker, which may have changed it since. */
		for (size_t i = 0; i < b->count && items_answer_next(&bytes, &answer) > 0; i++)
			if (answer.failed)
				fail_item(m, b, i, e->gpu, answer.data, answer.size);
			else
				map_end_item(m, &b->items[i], e->gpu, false, answer.data, answer.size);
	} else {
		struct gd_event damaged = *e;
		damaged.message = "the worker's answer is damaged";
		damaged.failure = GD_FAILURE_CRASHED;
		settle_failure(m, b, &damaged);
	}
	map_drop_batch(m, b);
	return 0;
}

int map_on_failure(void *context, const struct gd_event *e)
{
	struct map *m = context;
	struct map_batch *b = e->tag;
	count_message(m, b, e);
	if (e->failure == GD_FAILURE_NO_WORKER)
		m->no_worker = true;
	settle_failure(m, b, e);
	map_drop_batch(m, b);
	return 0;
}
