/* SPDX-License-Identifier: MIT */
/*
 * The work as a whole, and its rate.
 *
 * A rate needs some ended tasks: it is computed over the last minute if enough tasks ended in it, otherwise over all
 * ends seen. It is computed up to the last end, as long as the next one is not overdue: with jobs of an hour, the time
 * since the last end means nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "view/model/model_private.h"

#define MARK_NS     NS_PER_S
#define WINDOW_NS   (60 * NS_PER_S)
#define ENOUGH_ENDS 16

static bool same(const struct view_work *a, const struct view_work *b)
{
	return view_string_equal(a->title, b->title) && a->total == b->total && a->done == b->done &&
	       a->failed == b->failed && a->timeouts == b->timeouts && a->cancelled == b->cancelled &&
	       a->running == b->running && a->waiting == b->waiting && a->total_amount == b->total_amount &&
	       a->done_amount == b->done_amount && view_string_equal(a->detail, b->detail) &&
	       a->given_eta_ns == b->given_eta_ns && view_string_equal(a->note, b->note) &&
	       a->start_ns == b->start_ns && a->end_ns == b->end_ns;
}

static void note_pace(struct view_pace *p, const struct view_work *w)
{
	struct view_mark now = {w->time_ns, w->done + w->failed, w->done_amount};
	if (!now.time_ns || now.time_ns < p->last.time_ns)
		return;
	/* Fewer ends than before: jobs were retried or forgotten, so start over. */
	if (!p->first.time_ns || now.ends < p->last.ends || now.amount < p->last.amount) {
		p->first = p->last = now;
		p->num_marks = 0;
	}
	if (now.ends != p->last.ends)
		p->ended_ns = now.time_ns;
	if (now.amount > p->last.amount)
		p->advanced_ns = now.time_ns;
	p->last = now;
	if (!p->num_marks || now.time_ns - p->marks[(p->num_marks - 1) % VIEW_MARKS].time_ns >= MARK_NS)
		p->marks[p->num_marks++ % VIEW_MARKS] = now;
}

int view_put_work(struct view_model *m, const struct view_work *work)
{
	note_pace(&m->pace, work);
	if (same(&m->work, work)) {
		m->work.time_ns = work->time_ns;
		return 0;
	}
	size_t room = view_string_room(work->title) + view_string_room(work->detail) + view_string_room(work->note);
	char *text = malloc(room ? room : 1);
	if (!text)
		return -ENOMEM;
	char *at = text;
	struct view_work copy = *work;
	copy.title = view_string_put(&at, work->title);
	copy.detail = view_string_put(&at, work->detail);
	copy.note = view_string_put(&at, work->note);
	free(m->work_text);
	m->work_text = text;
	m->work = copy;
	m->version++;
	return 0;
}

const struct view_work *view_work(const struct view_model *m)
{
	return &m->work;
}

/* The oldest mark of the last minute. */
static const struct view_mark *window_begin(const struct view_pace *p)
{
	size_t oldest = p->num_marks > VIEW_MARKS ? p->num_marks - VIEW_MARKS : 0;
	for (size_t i = oldest; i < p->num_marks; i++)
		if (p->last.time_ns - p->marks[i % VIEW_MARKS].time_ns <= WINDOW_NS)
			return &p->marks[i % VIEW_MARKS];
	return &p->first;
}

struct speed {
	double per_ns;   /* 0: unknown */
	uint64_t age_ns; /* age of the rate: time since the last end */
};

static struct speed speed_between(double amount, uint64_t from_ns, uint64_t seen_ns, double pieces, uint64_t now_ns)
{
	if (amount <= 0)
		return (struct speed){0};
	/* Overdue: twice the mean time between two ends has passed. */
	double mean_ns = seen_ns > from_ns ? (double)(seen_ns - from_ns) / pieces : 0;
	bool overdue = now_ns > seen_ns && (double)(now_ns - seen_ns) > 2 * mean_ns;
	uint64_t until = overdue ? now_ns : seen_ns;
	if (until <= from_ns)
		return (struct speed){0};
	return (struct speed){amount / (double)(until - from_ns), now_ns > until ? now_ns - until : 0};
}

static struct speed speed_over_all(const struct view_work *w, bool amounts, uint64_t now_ns)
{
	uint64_t until = w->end_ns ? w->end_ns : now_ns;
	double done = amounts ? w->done_amount : (double)(w->done + w->failed);
	if (!w->start_ns || until <= w->start_ns)
		return (struct speed){0};
	return (struct speed){done / (double)(until - w->start_ns), 0};
}

static struct speed speed_of(const struct view_model *m, bool amounts, uint64_t now_ns)
{
	const struct view_pace *p = &m->pace;
	if (p->last.time_ns <= p->first.time_ns || (m->work.end_ns && m->work.start_ns))
		return speed_over_all(&m->work, amounts, now_ns);
	const struct view_mark *from = window_begin(p);
	if (p->last.ends - from->ends < ENOUGH_ENDS)
		from = &p->first;
	double ends = (double)(p->last.ends - from->ends);
	if (amounts)
		return speed_between(
			p->last.amount - from->amount, from->time_ns, p->advanced_ns, ends > 1 ? ends : 1, now_ns);
	return speed_between(ends, from->time_ns, p->ended_ns, ends > 1 ? ends : 1, now_ns);
}

double view_rate(const struct view_model *m, uint64_t now_ns)
{
	return speed_of(m, false, now_ns).per_ns * (double)NS_PER_S;
}

static double left_to_do(const struct view_work *w, bool amounts)
{
	if (amounts)
		return w->total_amount - w->done_amount;
	return (double)w->total - (double)w->done - (double)w->failed;
}

int64_t view_eta_ns(const struct view_model *m, uint64_t now_ns)
{
	const struct view_work *w = &m->work;
	bool amounts = w->total_amount > 0;
	if (w->end_ns)
		return 0;
	if (w->given_eta_ns > 0 && now_ns >= w->time_ns) {
		int64_t left = w->given_eta_ns - (int64_t)(now_ns - w->time_ns);
		return left < 0 ? 0 : left;
	}
	if (!amounts && w->total < 0)
		return -1;
	double left = left_to_do(w, amounts);
	if (left <= 0)
		return 0;
	struct speed speed = speed_of(m, amounts, now_ns);
	if (speed.per_ns <= 0)
		return -1;
	double eta = left / speed.per_ns - (double)speed.age_ns;
	return eta < 0 ? 0 : eta > 1e18 ? -1 : (int64_t)eta;
}

double view_fraction(const struct view_model *m)
{
	const struct view_work *w = &m->work;
	double done = w->total_amount > 0 ? w->done_amount : (double)(w->done + w->failed);
	double total = w->total_amount > 0 ? w->total_amount : (double)w->total;
	if (w->total_amount <= 0 && w->total < 0)
		return -1;
	if (total <= 0)
		return 1;
	return done < 0 ? 0 : done > total ? 1 : done / total;
}
