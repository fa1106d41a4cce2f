/* SPDX-License-Identifier: MIT */
/* From the input to the pool: collects items in messages. */
#include <errno.h>
#include <poll.h>

#include "base/error.h"
#include "launch/map_private.h"

#define MESSAGE_BYTES ((size_t)4 << 20)  /* a message of this size gets no more items */
#define POOL_BYTES    ((size_t)64 << 20) /* of messages in the pool */
#define MOST_SPARE    64
#define SPARE_BYTES   ((size_t)256 << 10)
#define AHEAD         4     /* messages submitted per message in flight, so that short ones keep the workers busy */
#define ORDERED_AHEAD 65536 /* items that may end before an earlier one */
#define ORDERED_BYTES ((uint64_t)64 << 20)
#define MOST_PASSED   8192 /* lines without an item to send that are read before the workers are served again */

/* ---- Reading ------------------------------------------------------------ */

static void fail_memory(struct map *m)
{
	struct gd_error err = {0};
	error_set(&err, -ENOMEM, "cannot send more items: out of memory");
	map_fail(m, &err);
}

/* Reuse batches: otherwise their memory grows again for each message. */
static struct map_batch *take_spare(struct map *m)
{
	struct map_batch *b = m->spare;
	if (!b)
		return map_batch_create();
	m->spare = b->next;
	m->num_spare--;
	map_batch_clear(b);
	return b;
}

static bool has_input(const struct map *m)
{
	struct pollfd fd = {.fd = m->input.fd, .events = POLLIN};
	return m->input.regular || poll(&fd, 1, 0) != 0;
}

static void take_line(struct map *m, const struct map_line *line)
{
	struct gd_error err = {0};
	int done = map_is_done(m, line, &err);
	if (done < 0) {
		map_fail(m, &err);
		return;
	}
	m->summary.total += !m->summary.total_known;
	if (done) {
		m->summary.skipped++;
		m->summary.done_bytes += line->bytes;
		return;
	}
	struct map_item item = {
		.number = line->number, .place = m->places++, .bytes = line->bytes, .check = line->check};
	if (line->bad) {
		struct text reason = {0};
		text_appendf(&reason, "%s:%llu: %s", m->input.name, (unsigned long long)line->number, line->bad);
		map_end_item(m, &item, -1, true, text_string(&reason), reason.length);
		text_finish(&reason);
		return;
	}
	if (!m->filling && !(m->filling = take_spare(m)))
		fail_memory(m);
	else if (map_batch_add(m->filling, &item, line->text, line->size, m->options.lines) < 0)
		fail_memory(m);
}

static bool is_full(const struct map *m)
{
	return m->filling && (m->filling->count >= m->batch || m->filling->task.length >= MESSAGE_BYTES);
}

static bool order_is_full(const struct map *m)
{
	return m->options.ordered && (m->places - m->order.next > ORDERED_AHEAD || m->order.bytes > ORDERED_BYTES);
}

/* Reads until the message is full, there is nothing to read, or many lines gave no item. */
static void fill(struct map *m)
{
	unsigned passed = 0;
	m->wants_input = m->reads_on = false;
	while (!is_full(m) && !m->input_over && !map_is_ending(m) && !order_is_full(m)) {
		struct map_line line;
		enum map_input_event event = map_input_next(&m->input, MAP_INPUT_ITEM, &line);
		if (event == MAP_INPUT_LINE) {
			size_t before = m->filling ? m->filling->count : 0;
			take_line(m, &line);
			passed += !m->filling || m->filling->count == before;
			m->reads_on = passed == MOST_PASSED;
			if (m->reads_on)
				return;
			continue;
		}
		if (event == MAP_INPUT_END) {
			m->input_over = true;
			return;
		}
		if (!has_input(m)) {
			m->wants_input = true;
			return;
		}
		int r = map_input_read(&m->input);
		if (r < 0) {
			struct gd_error err = {0};
			error_set(&err, r, "cannot read input '%s': %s", m->input.name, error_words(r));
			map_fail(m, &err);
		}
	}
}

/* ---- Messages ----------------------------------------------------------- */

void map_drop_batch(struct map *m, struct map_batch *b)
{
	if (m->num_spare >= MOST_SPARE || b->task.room > SPARE_BYTES) {
		map_batch_destroy(b);
		return;
	}
	b->next = m->spare;
	m->spare = b;
	m->num_spare++;
}

void map_send_again(struct map *m, struct map_batch *b)
{
	b->next = NULL;
	if (m->again)
		m->again_last->next = b;
	else
		m->again = b;
	m->again_last = b;
}

/* At the end of the input, the remaining items are divided among the idle workers. */
static void share_last(struct map *m)
{
	size_t idle = m->num_workers > m->in_pool ? m->num_workers - m->in_pool : 1;
	size_t count = m->filling->count, share = (count + idle - 1) / idle;
	struct map_batch *all = m->filling;
	m->filling = NULL;
	for (size_t first = 0; first < count; first += share) {
		size_t n = count - first < share ? count - first : share;
		struct map_batch *part = n == count ? all : map_batch_part(all, first, n);
		if (!part)
			fail_memory(m);
		else
			map_send_again(m, part);
	}
	if (share < count)
		map_batch_destroy(all);
}

static struct map_batch *take_again(struct map *m)
{
	struct map_batch *b = m->again;
	m->again = b->next;
	return b;
}

/* The next message, or NULL. An incomplete message waits for more items only while all workers are busy. */
static struct map_batch *next_message(struct map *m)
{
	if (m->again)
		return take_again(m);
	fill(m);
	if (!m->filling || m->filling->count == 0 || map_is_ending(m))
		return NULL;
	if (m->input_over && !is_full(m)) {
		share_last(m);
		return m->again ? take_again(m) : NULL;
	}
	if (!is_full(m) && m->in_pool >= m->num_workers)
		return NULL;
	struct map_batch *b = m->filling;
	m->filling = NULL;
	return b;
}

static bool has_room(const struct map *m)
{
	size_t most = m->num_workers * m->options.in_flight * AHEAD;
	return m->in_pool < most && (m->bytes_in_pool < POOL_BYTES || m->in_pool < m->num_workers);
}

static int submit(struct map *m, struct map_batch *b)
{
	int r = map_batch_seal(b);
	if (r == 0)
		r = gd_pool_submit(m->pool, b->task.data, b->task.length, b, NULL, NULL);
	if (r < 0)
		return r;
	m->in_pool++;
	m->items_in_pool += b->count;
	m->bytes_in_pool += b->task.length;
	return 0;
}

void map_feed(struct map *m)
{
	while (has_room(m) && !map_is_ending(m)) {
		struct map_batch *b = next_message(m);
		if (!b)
			return;
		int r = submit(m, b);
		if (r == 0)
			continue;
		b->next = m->again;
		if (!m->again)
			m->again_last = b;
		m->again = b;
		if (r == -ENOMEM)
			fail_memory(m);
		break; /* -EAGAIN: the pool is full; otherwise it is ending */
	}
	/* Nothing can be read before an answer comes: wait for it. */
	m->reads_on = false;
}
