/* SPDX-License-Identifier: MIT */
#include "view/panel/layout.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/display.h"
#include "base/units.h"
#include "base/utf8.h"
#include "view/panel/gpu_table.h"
#include "view/panel/ink.h"

/* ---- Numbers ----------------------------------------------------------------------- */

const char *layout_number(uint64_t n, char buf[LAYOUT_NUMBER_ROOM])
{
	char *at = buf + LAYOUT_NUMBER_ROOM - 1;
	*at = 0;
	for (int digits = 0; n || !digits; digits++, n /= 10) {
		if (digits && digits % 3 == 0)
			*--at = ',';
		*--at = (char)('0' + n % 10);
	}
	return memmove(buf, at, strlen(at) + 1);
}

const char *layout_rate(double rate, char buf[LAYOUT_NUMBER_ROOM])
{
	const char *unit = "/s";
	buf[0] = 0;
	if (!(rate > 0))
		return buf;
	if (rate * 60 < 1) {
		rate *= 3600;
		unit = "/h";
	} else if (rate < 1) {
		rate *= 60;
		unit = "/min";
	} else if (rate >= 1e6) {
		rate /= 1e6;
		unit = "M/s";
	} else if (rate >= 1e4) {
		rate /= 1e3;
		unit = "k/s";
	}
	snprintf(buf, LAYOUT_NUMBER_ROOM, rate < 9.95 ? "%.1f%s" : "%.0f%s", rate, unit);
	return buf;
}

/* ---- The head ------------------------------------------------------------------------ */

/* Facts about the work, most important first; those that do not fit are left out. */
enum { FACT_FAILED, FACT_CANCELLED, FACT_ELAPSED, FACT_ETA, FACT_RATE, FACT_RUNNING, FACT_DETAIL, FACT_WAITING, FACTS };

struct facts {
	char words[FACTS][64];
	enum ink inks[FACTS];
};

const char *layout_time(uint64_t ns, char buf[UNITS_ROOM])
{
	uint64_t ms = ns / NS_PER_MS;
	if (ms >= 10000)
		return units_format_duration(ms, buf);
	snprintf(buf, UNITS_ROOM, "%us", (unsigned)(ms / 1000));
	return buf;
}

static void collect_facts(struct facts *f, const struct view_model *m, uint64_t now_ns)
{
	const struct view_work *w = view_work(m);
	char n[LAYOUT_NUMBER_ROOM], time[UNITS_ROOM];
	*f = (struct facts){.inks = {[FACT_FAILED] = w->failed ? INK_RED : INK_PLAIN}};
	if (w->timeouts)
		snprintf(f->words[FACT_FAILED], 64, "%s failed, %llu by timeout", layout_number(w->failed, n),
			(unsigned long long)w->timeouts);
	else
		snprintf(f->words[FACT_FAILED], 64, "%s failed", layout_number(w->failed, n));
	if (w->cancelled)
		snprintf(f->words[FACT_CANCELLED], 64, "%s cancelled", layout_number(w->cancelled, n));
	uint64_t until = w->end_ns ? w->end_ns : now_ns;
	if (w->start_ns && until >= w->start_ns && w->end_ns)
		snprintf(f->words[FACT_ELAPSED], 64, "took %s",
			units_format_duration((until - w->start_ns) / NS_PER_MS, time));
	else if (w->start_ns && until >= w->start_ns)
		snprintf(f->words[FACT_ELAPSED], 64, "%s", layout_time(until - w->start_ns, time));
	int64_t eta = view_eta_ns(m, now_ns);
	if (!w->end_ns && eta > 0)
		snprintf(f->words[FACT_ETA], 64, "%s to go", units_format_about((uint64_t)eta / NS_PER_MS, time));
	layout_rate(view_rate(m, now_ns), f->words[FACT_RATE]);
	if (w->detail)
		utf8_copy_line(f->words[FACT_DETAIL], 64, w->detail, strlen(w->detail));
	if (w->end_ns)
		return;
	snprintf(f->words[FACT_RUNNING], 64, "%s running", layout_number(w->running, n));
	if (w->waiting)
		snprintf(f->words[FACT_WAITING], 64, "%s pending", layout_number(w->waiting, n));
}

/* The facts that fit into `columns`, with a three-column separator between them. */
static unsigned facts_that_fit(const struct facts *f, size_t columns)
{
	unsigned chosen = 0;
	size_t used = 0;
	for (int i = 0; i < FACTS; i++) {
		size_t size = display_width(f->words[i], strlen(f->words[i]));
		size_t more = size + (used ? 3 : 0);
		if (!size || used + more > columns)
			continue;
		used += more;
		chosen |= 1u << i;
	}
	return chosen;
}

static void write_facts(struct text *t, const struct facts *f, const struct layout_options *o, size_t columns)
{
	static const int order[FACTS] = {FACT_RUNNING, FACT_WAITING, FACT_FAILED, FACT_CANCELLED, FACT_DETAIL,
		FACT_RATE, FACT_ELAPSED, FACT_ETA};
	unsigned chosen = facts_that_fit(f, columns);
	bool any = false;
	for (size_t i = 0; i < FACTS; i++) {
		if (!(chosen & (1u << order[i])))
			continue;
		if (any)
			ink_words(t, o->color, INK_DIM, " · ");
		ink_words(t, o->color, f->inks[order[i]], f->words[order[i]]);
		any = true;
	}
}

/* "53%  1,066/2,000", or "1,066 done" if the total is unknown. */
static void format_counts(char *buf, size_t room, const struct view_model *m)
{
	const struct view_work *w = view_work(m);
	char ended[LAYOUT_NUMBER_ROOM], total[LAYOUT_NUMBER_ROOM];
	double fraction = view_fraction(m);
	layout_number(w->done + w->failed, ended);
	if (w->total >= 0)
		snprintf(buf, room, "%3d%%  %s/%s", (int)(fraction * 100), ended,
			layout_number((uint64_t)w->total, total));
	else if (fraction >= 0)
		snprintf(buf, room, "%3d%%  %s", (int)(fraction * 100), ended);
	else
		snprintf(buf, room, "%s done", ended);
}

static size_t write_note(struct text *t, const char *note, const struct layout_options *o, size_t columns)
{
	if (!note || !*note)
		return 0;
	ink_begin(t, o->color, INK_YELLOW);
	display_append(t, note, strlen(note), columns);
	ink_end(t, o->color, INK_YELLOW);
	text_append_char(t, '\n');
	return 1;
}

static enum ink bar_ink(const struct view_work *w)
{
	if (!w->end_ns)
		return INK_BLUE;
	return w->failed ? INK_RED : w->cancelled ? INK_MAGENTA : INK_GREEN;
}

/* Writes the lines about the work as a whole; returns their number. */
static size_t append_head(struct text *t, const struct view_model *m, const struct layout_options *o)
{
	const struct view_work *w = view_work(m);
	size_t columns = o->width - 1;
	char counts[96];
	format_counts(counts, sizeof(counts), m);
	size_t right = strlen(counts) + 2, used = 0;
	if (w->title && columns > right + 8) {
		size_t room = columns - right - 8;
		ink_begin(t, o->color, INK_BOLD);
		used = display_append(t, w->title, strlen(w->title), room < columns / 2 ? room : columns / 2);
		ink_end(t, o->color, INK_BOLD);
		ink_spaces(t, 2);
		used += 2;
	}
	double fraction = view_fraction(m);
	if (fraction >= 0 && columns > used + right + 4) {
		size_t bar = columns - used - right;
		ink_bar(t, o->color, bar_ink(w), fraction, bar < 100 ? bar : 100);
		ink_spaces(t, 2);
	}
	display_append(t, counts, strlen(counts), columns - used);
	text_append_char(t, '\n');

	struct facts facts;
	collect_facts(&facts, m, o->now_ns);
	write_facts(t, &facts, o, columns);
	text_append_char(t, '\n');
	return 2 + write_note(t, w->note, o, columns);
}

/* ---- The panel --------------------------------------------------------------------------- */

#define LEAST_WIDTH 20

size_t layout_panel(struct text *t, const struct view_model *m, const struct layout_options *given)
{
	struct layout_options o = *given;
	if (o.width < LEAST_WIDTH)
		o.width = LEAST_WIDTH;
	if (o.height < 4)
		o.height = 4;
	size_t lines = 0;
	/* A blank line above the panel, if there is space. */
	if (o.height >= 12 && o.height - 1 >= view_num_gpus(m) + 6) {
		text_append_char(t, '\n');
		lines++;
	}
	lines += append_head(t, m, &o);
	if (lines >= o.height - 1 || view_num_gpus(m) == 0)
		return lines;
	/* A blank line, if there is space. */
	if (o.height - 1 - lines >= view_num_gpus(m) + 2) {
		text_append_char(t, '\n');
		lines++;
	}
	return lines + gpu_table_append(t, m, &o, o.height - 1 - lines);
}

void layout_line(struct text *t, const struct view_model *m, uint64_t now_ns)
{
	const struct view_work *w = view_work(m);
	struct facts f;
	char ended[LAYOUT_NUMBER_ROOM], total[LAYOUT_NUMBER_ROOM];
	double fraction = view_fraction(m);
	collect_facts(&f, m, now_ns);
	if (w->title && *w->title) {
		display_append(t, w->title, strlen(w->title), 60);
		text_append_string(t, ": ");
	}
	if (fraction >= 0)
		text_appendf(t, "%d%%, ", (int)(fraction * 100));
	text_append_string(t, layout_number(w->done + w->failed, ended));
	if (w->total >= 0)
		text_appendf(t, "/%s", layout_number((uint64_t)w->total, total));
	text_append_string(t, " done");
	static const int order[FACTS] = {FACT_FAILED, FACT_CANCELLED, FACT_RUNNING, FACT_WAITING, FACT_DETAIL,
		FACT_RATE, FACT_ELAPSED, FACT_ETA};
	for (size_t i = 0; i < FACTS; i++)
		if (f.words[order[i]][0])
			text_appendf(t, ", %s", f.words[order[i]]);
	if (w->note && *w->note) {
		text_append_string(t, "; ");
		display_append(t, w->note, strlen(w->note), 120);
	}
}
