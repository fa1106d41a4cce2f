/* SPDX-License-Identifier: MIT */
/* The report of gpuq launch: files instead of jobs, and their processing time relative to their length. */
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "view/report/html.h"
#include "view/report/report_parts.h"

#define MAX_FAILED 200

/* Files of one GPU, or all. If a file was processed several times, the last time counts. */
struct sum {
	size_t done, failed;
	double audio, processing;      /* seconds; of files for which both are known */
	double all_processing_seconds; /* of all files done */
};

static double audio_of(const struct report_launch *l, const struct view_job *j)
{
	return j->id >= 1 && j->id <= l->count ? l->audio_seconds[j->id - 1] : -1;
}

static double seconds_of(const struct report_span *s)
{
	int64_t ms = s->attempt->duration_ms >= 0 ? s->attempt->duration_ms : s->end_ms - s->start_ms;
	return (double)ms / 1000;
}

static void add(struct sum *sum, const struct report_launch *l, const struct report_span *s)
{
	if (s->attempt != view_job_last(s->job))
		return;
	sum->failed += s->attempt->state == VIEW_JOB_FAILED;
	if (s->attempt->state != VIEW_JOB_COMPLETED)
		return;
	double audio = audio_of(l, s->job);
	sum->done++;
	sum->all_processing_seconds += seconds_of(s);
	if (audio <= 0)
		return;
	sum->audio += audio;
	sum->processing += seconds_of(s);
}

/* In integers: %f writes the locale's comma. */
static void put_decimal(struct text *t, double value, unsigned digits)
{
	uint64_t scale = 1;
	for (unsigned i = 0; i < digits; i++)
		scale *= 10;
	uint64_t n = value > 0 && value < 1e12 ? (uint64_t)(value * (double)scale + 0.5) : 0;
	text_appendf(t, "%" PRIu64 ".%0*" PRIu64, n / scale, (int)digits, n % scale);
}

static void put_rtf(struct text *t, double processing, double audio)
{
	double rtf = audio > 0 ? processing / audio : -1;
	if (rtf < 0)
		text_append_string(t, "—");
	else
		put_decimal(t, rtf, rtf < 0.1 ? 4 : 3);
}

static void put_seconds(struct text *t, double seconds)
{
	char words[UNITS_ROOM];
	text_append_string(t, seconds < 0 ? "—" : units_format_seconds(seconds, words));
}

/* ---- The figures at the top -------------------------------------------------------------- */

static void put_figure(struct text *t, const char *name, struct text *value)
{
	report_tile(t, NULL, name, "%s", text_string(value));
	text_clear(value);
}

static double skew(const struct report_facts *f, const struct report_launch *l, double all)
{
	double most = 0;
	size_t num_gpus = 0;
	for (size_t i = 0; i < f->num_gpus; i++) {
		struct sum sum = {0};
		for (size_t k = 0; k < f->gpus[i].num_spans; k++)
			add(&sum, l, &f->gpus[i].spans[k]);
		most = sum.all_processing_seconds > most ? sum.all_processing_seconds : most;
		num_gpus++;
	}
	return all > 0 ? most * (double)num_gpus / all - 1 : 0;
}

void report_launch_tiles(struct text *t, const struct report_facts *f, const struct report_launch *l)
{
	struct sum sum = {0};
	struct text value = {0};
	cleanup_(text_finish) struct text tiles = {0};
	for (size_t i = 0; i < f->num_ends; i++)
		add(&sum, l, &f->ends[i]);
	report_tile(&tiles, NULL, f->num_jobs == 1 ? "file" : "files", "%zu", f->num_jobs);
	report_tile(&tiles, NULL, "done", "%zu", f->counts[VIEW_JOB_COMPLETED]);
	report_tile(&tiles, f->counts[VIEW_JOB_FAILED] ? "bad" : NULL, "failed", "%zu", f->counts[VIEW_JOB_FAILED]);
	if (sum.audio > 0) {
		put_seconds(&value, sum.audio);
		put_figure(&tiles, "of audio", &value);
		put_rtf(&value, sum.processing, sum.audio);
		put_figure(&tiles, "RTF", &value);
	}
	put_seconds(&value, sum.all_processing_seconds);
	put_figure(&tiles, "of processing", &value);
	put_seconds(&value, l->wall_seconds);
	put_figure(&tiles, "wall clock", &value);
	if (l->wall_seconds > 0) {
		put_decimal(&value, sum.all_processing_seconds / l->wall_seconds, 2);
		text_append_string(&value, " ×");
		put_figure(&tiles, "speedup", &value);
	}
	put_decimal(&value, 100 * skew(f, l, sum.all_processing_seconds), 1);
	text_append_string(&value, "%");
	put_figure(&tiles, "skew", &value);
	report_tiles(t, &tiles);
	text_append_string(t,
		"<p class=\"note\">RTF: processing time over audio duration. Speedup: processing time over wall-clock time. Skew: how much longer "
		"the busiest GPU worked than the mean.</p>\n");
	if (text_error(&value))
		t->error = text_error(&value);
	text_finish(&value);
}

/* ---- GPUs ----------------------------------------------------------------------------------- */

static void write_gpu(struct text *t, const struct report_gpu *g, const struct report_launch *l, const struct sum *all)
{
	char label[REPORT_GPU_LABEL];
	struct sum sum = {0};
	for (size_t k = 0; k < g->num_spans; k++)
		add(&sum, l, &g->spans[k]);
	double whole = all->all_processing_seconds;
	unsigned part = whole > 0 ? (unsigned)(sum.all_processing_seconds / whole * 1000 + 0.5) : 0;
	part = part > 1000 ? 1000 : part;
	text_appendf(t,
		"<tr><td class=\"k\">%s</td><td class=\"k\"><span class=\"bar\"><i style=\"width:%u.%u%%\"></i></span>%u.%u%%</td>"
		"<td class=\"n\">%zu</td><td class=\"n%s\">%zu</td><td class=\"n\">",
		report_gpu_label(g, label), part / 10, part % 10, part / 10, part % 10, sum.done,
		sum.failed ? " bad" : "", sum.failed);
	put_seconds(t, sum.all_processing_seconds);
	text_append_string(t, "</td>");
	if (all->audio > 0) {
		text_append_string(t, "<td class=\"n\">");
		put_seconds(t, sum.audio > 0 ? sum.audio : -1);
		text_append_string(t, "</td><td class=\"n\">");
		put_rtf(t, sum.processing, sum.audio);
		text_append_string(t, "</td>");
	}
	text_append_string(t, "</tr>\n");
}

void report_launch_gpus(struct text *t, const struct report_facts *f, const struct report_launch *l)
{
	struct sum all = {0};
	for (size_t i = 0; i < f->num_ends; i++)
		add(&all, l, &f->ends[i]);
	text_append_string(t,
		"<section><h2>Balance</h2>\n<div class=\"scroll\"><table><thead><tr><th>GPU</th><th>share of the work</th>"
		"<th class=\"n\">done</th><th class=\"n\">failed</th><th class=\"n\">processing</th>");
	if (all.audio > 0)
		text_append_string(t, "<th class=\"n\">audio</th><th class=\"n\">RTF</th>");
	text_append_string(t, "</tr></thead><tbody>\n");
	for (size_t i = 0; i < f->num_gpus; i++)
		write_gpu(t, &f->gpus[i], l, &all);
	text_append_string(t, "</tbody></table></div></section>\n");
}

/* ---- Files ------------------------------------------------------------------------------------- */

static void write_name(struct text *t, const struct view_job *j)
{
	text_append_string(t, "<td class=\"w\"><code>");
	html_text(t, j->command, 200);
	text_append_string(t, "</code></td></tr>\n");
}

static void put_gpu_of(struct text *t, const struct report_facts *f, const struct view_attempt *a)
{
	for (size_t i = 0; a->num_gpus && a->gpus[0] >= REPORT_NODE_GPUS && i < f->num_gpus; i++)
		if (f->gpus[i].id == a->gpus[0] && f->gpus[i].name) {
			text_appendf(t, "<td class=\"k\">%s</td>", f->gpus[i].name);
			return;
		}
	report_put_gpus_of(t, a);
}

static void write_slow(struct text *t, const struct report_facts *f, const struct report_span *s,
	const struct report_launch *l, bool has_audio)
{
	double audio = audio_of(l, s->job);
	text_append_string(t, "<tr><td class=\"n\">");
	put_seconds(t, seconds_of(s));
	if (has_audio) {
		text_append_string(t, "</td><td class=\"n\">");
		put_seconds(t, audio);
		text_append_string(t, "</td><td class=\"n\">");
		put_rtf(t, seconds_of(s), audio);
	}
	bool failed = s->attempt->state == VIEW_JOB_FAILED;
	text_appendf(t, "</td><td class=\"k%s\">%s</td>", failed ? " bad" : "", failed ? "failed" : "done");
	put_gpu_of(t, f, s->attempt);
	write_name(t, s->job);
}

void report_launch_slowest(struct text *t, const struct report_facts *f, const struct report_launch *l)
{
	if (f->num_longest == 0)
		return;
	bool has_audio = false;
	for (size_t i = 0; i < f->num_longest; i++)
		has_audio = has_audio || audio_of(l, f->longest[i].job) > 0;
	text_appendf(t,
		"<section><h2>The slowest files</h2>\n<div class=\"scroll\"><table><thead><tr><th class=\"n\">processing</th>"
		"%s<th>state</th><th>GPU</th><th>file</th></tr></thead><tbody>\n",
		has_audio ? "<th class=\"n\">audio</th><th class=\"n\">RTF</th>" : "");
	for (size_t i = 0; i < f->num_longest; i++)
		write_slow(t, f, &f->longest[i], l, has_audio);
	text_append_string(t, "</tbody></table></div></section>\n");
}

void report_launch_failed(struct text *t, const struct report_facts *f)
{
	char buf[REPORT_OUTCOME];
	if (f->num_failed == 0)
		return;
	text_append_string(t, "<section><h2>Files that failed</h2>\n");
	report_put_reasons(t, f);
	text_append_string(t,
		"<div class=\"scroll\"><table><thead><tr><th>reason</th><th class=\"n\">tries</th><th>file</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < f->num_failed && i < MAX_FAILED; i++) {
		const struct view_job *j = f->failed[i];
		text_append_string(t, "<tr><td class=\"bad\">");
		html_text(t, report_outcome(j->reason, view_job_last(j), buf), 100);
		text_appendf(t, "</td><td class=\"n\">%zu</td>", j->num_attempts);
		write_name(t, j);
	}
	text_append_string(t, "</tbody></table></div>\n");
	if (f->num_failed > MAX_FAILED)
		text_appendf(
			t, "<p class=\"note\">%d of %zu; launch.jsonl lists all.</p>\n", MAX_FAILED, f->num_failed);
	text_append_string(t, "</section>\n");
}
