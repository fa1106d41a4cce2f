/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "launch/map_private.h"

/* A larger input is not read twice for its total: progress is then measured in bytes. */
#define COUNTED_BYTES ((uint64_t)16 << 20)
#define COUNT_MS      1000 /* for the total after a stop */

int map_is_done(struct map *m, const struct map_line *line, struct gd_error *err)
{
	const char *output = m->record.output.name;
	uint32_t check;
	if (!map_record_has(&m->record, line->number, &check)) {
		m->saw_new = true;
		return 0;
	}
	if (check != line->check)
		return error_set(err, -EBADMSG,
			"refusing to continue '%s': it belongs to another input: its item %llu is not line %llu of '%s'; choose another --output or remove the file",
			output, (unsigned long long)line->number, (unsigned long long)line->number, m->input.name);
	if (m->options.ordered && m->saw_new)
		return error_set(err, -EBADMSG,
			"refusing to continue '%s': it is not in order (it has item %llu, but an earlier one is missing); continue without --ordered",
			output, (unsigned long long)line->number);
	return 1;
}

/* 1 and the next line, 0 at the end, or a negative value: -ECANCELED after a stop, but not before patience_ns. */
static int next_line(
	struct map *m, enum map_input_want want, uint64_t patience_ns, struct map_line *ret, struct gd_error *err)
{
	for (;;) {
		enum map_input_event event = map_input_next(&m->input, want, ret);
		int r = event == MAP_INPUT_MORE ? map_input_read(&m->input) : 0;
		if (r < 0)
			return error_set(err, r, "cannot read input '%s': %s", m->input.name, error_words(r));
		if (event == MAP_INPUT_LINE)
			return 1;
		if (event == MAP_INPUT_END)
			return 0;
		int stops = atomic_load(&m->stops);
		if (stops > 1 || (stops > 0 && clock_now_ns() >= patience_ns))
			return error_set(err, -ECANCELED, "interrupted");
	}
}

int map_check_end(const struct map *m, uint64_t left, struct gd_error *err)
{
	if (left == 0 && m->input.taken >= m->input.limit)
		return 0;
	return error_set(err, -ENODATA,
		"input '%s' became shorter or was rewritten while it was read; restore the file and run the same command again to process the items that are left",
		m->input.name);
}

int map_survey(struct map *m, struct gd_error *err)
{
	struct map_line line;
	uint64_t total = 0;
	bool compare = m->record.count > 0;
	int r;
	if (!compare && m->input.size > COUNTED_BYTES)
		return 0;
	while ((r = next_line(m, compare ? MAP_INPUT_CHECK : MAP_INPUT_COUNT, 0, &line, err)) > 0) {
		total++;
		r = compare ? map_is_done(m, &line, err) : 0;
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = map_check_end(m, 0, err);
	if (r < 0)
		return r;
	if (m->record.highest > m->input.number)
		return error_set(err, -EBADMSG,
			"refusing to continue '%s': it belongs to another input: it has item %llu, but '%s' has only %llu line%s; choose another --output or remove the file",
			m->record.output.name, (unsigned long long)m->record.highest, m->input.name,
			(unsigned long long)m->input.number, m->input.number == 1 ? "" : "s");
	m->saw_new = false;
	m->summary.total = total;
	m->summary.total_known = true;
	r = map_input_rewind(&m->input);
	return r < 0 ? error_set(err, r, "cannot read input '%s': %s", m->input.name, error_words(r)) : 0;
}

void map_count_rest(struct map *m)
{
	struct map_line line;
	struct gd_error err;
	int r;
	if (m->summary.total_known || !m->input.regular)
		return;
	uint64_t patience_ns = clock_now_ns() + COUNT_MS * NS_PER_MS;
	while ((r = next_line(m, MAP_INPUT_COUNT, patience_ns, &line, &err)) > 0)
		m->summary.total++;
	m->summary.total_known = r == 0;
}
