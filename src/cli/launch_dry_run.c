/* SPDX-License-Identifier: MIT */
#include "cli/launch_dry_run.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/display.h"
#include "base/table.h"
#include "base/units.h"
#include "cli/launch_durations.h"
#include "cli/launch_summary.h"

#define MOST_READ 5000            /* maximum number of files opened for their duration, evenly spread */
#define MOST_NS   (30 * NS_PER_S) /* time limit for all of them */

/* The files to process, with their durations as far as they were read: copies, and pointers to them. */
struct todo {
	struct gd_found *files;
	const struct gd_found **list;
	size_t count;
};

static void todo_finish(struct todo *t)
{
	free(t->files);
	free(t->list);
}

static int todo_init(struct todo *t, const struct gd_found *const *found, size_t count)
{
	t->files = calloc(count + 1, sizeof(*t->files));
	t->list = calloc(count + 1, sizeof(*t->list));
	if (!t->files || !t->list)
		return -ENOMEM;
	t->count = count;
	for (size_t i = 0; i < count; i++) {
		t->files[i] = *found[i];
		t->list[i] = &t->files[i];
	}
	return 0;
}

static void read_durations(struct todo *t, const char *folder, bool (*stopped)(void))
{
	size_t step = (t->count + MOST_READ - 1) / MOST_READ;
	uint64_t end_ns = clock_now_ns() + MOST_NS;
	for (size_t i = 0; i < t->count && !stopped() && clock_now_ns() < end_ns; i += step) {
		struct gd_found *f = &t->files[i];
		char path[PATH_MAX];
		int n = snprintf(path, sizeof(path), "%s/%s", folder, f->path);
		if (n > 0 && (size_t)n < sizeof(path) && launch_durations_read(NULL, path, &f->seconds) == 0)
			f->known |= GD_KNOWN_SECONDS;
	}
}

static void append_file(struct text *out, const char *words, const char *path, uint64_t bytes)
{
	char size[UNITS_ROOM];
	text_appendf(out, "%s", words);
	display_append(out, path, strlen(path), 40);
	text_appendf(out, " (%s)", units_format_size(bytes, size));
}

/* Seconds of all audio: for files that were not read, estimated from their size. */
static double all_seconds(const struct todo *t)
{
	double seconds = 0, known = 0, unknown = 0;
	for (size_t i = 0; i < t->count; i++) {
		const struct gd_found *f = &t->files[i];
		if (!(f->known & GD_KNOWN_SECONDS)) {
			unknown += (double)f->size_bytes;
			continue;
		}
		seconds += f->seconds;
		known += (double)f->size_bytes;
	}
	return known > 0 ? seconds + unknown * seconds / known : 0;
}

static uint64_t all_bytes(const struct todo *t)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < t->count; i++)
		bytes += t->files[i].size_bytes;
	return bytes;
}

static void append_workload(struct text *out, const struct gd_launcher *l, const struct todo *todo, double seconds)
{
	size_t count = todo->count;
	char size[UNITS_ROOM], audio[UNITS_ROOM];
	struct gd_workload w;
	gd_files_workload(todo->list, count, &w, sizeof(w));
	size_t before = gd_launcher_files(l)->count - count;
	text_appendf(out, "%zu file%s to do, %s", count, count == 1 ? "" : "s", units_format_size(w.bytes, size));
	if (seconds > 0)
		text_appendf(
			out, ", %s%s of audio", w.audio_unknown ? "about " : "", units_format_seconds(seconds, audio));
	if (before)
		text_appendf(out, "; %zu done before", before);
	unsigned long long skipped = gd_launcher_files(l)->skipped;
	if (skipped)
		text_appendf(out, "; %llu input%s skipped", skipped, skipped == 1 ? "" : "s");
	text_append_char(out, '\n');
	if (count > 0) {
		append_file(out, "largest: ", w.largest, w.largest_bytes);
		append_file(out, ", smallest: ", w.smallest, w.smallest_bytes);
		text_append_char(out, '\n');
	}
}

static int append_shares(struct text *out, const struct gd_gpu_list *gpus, const struct gd_share *shares,
	enum gd_balance balance, const char *name)
{
	static const struct table_column columns[] = {{"GPU", true, false}, {"NAME", false, true},
		{"FILES", true, false}, {"SIZE", true, false}, {"AUDIO", true, false}, {"LOAD", true, false}};
	cleanup_(table_finish) struct table t = {.columns = columns, .num_columns = sizeof(columns) / sizeof(*columns)};
	for (size_t g = 0; g < gpus->count; g++) {
		char text[UNITS_ROOM];
		const struct gd_gpu *gpu = gpus->gpus[g];
		table_cellf(&t, TERMINAL_BOLD, "%d", gpu->index);
		table_cell(&t, TERMINAL_NONE,
			name                             ? name
			: gpu->known & GD_GPU_KNOWN_NAME ? gpu->name
							 : gd_vendor_name(gpu->vendor));
		table_cellf(&t, TERMINAL_NONE, "%llu", (unsigned long long)shares[g].files);
		table_cell(&t, TERMINAL_NONE, units_format_size(shares[g].bytes, text));
		table_cell(&t, TERMINAL_NONE,
			shares[g].audio_seconds > 0 ? units_format_seconds(shares[g].audio_seconds, text) : "-");
		table_cellf(&t, TERMINAL_NONE, "%.1f%%", 100 * shares[g].load);
	}
	int r = table_print(&t, terminal_width(), terminal_has_color(), out);
	text_appendf(out, "imbalance: %.1f%%; %s\n", 100 * shares[0].imbalance,
		balance == GD_BALANCE_ROUND_ROBIN ? "each file runs on the GPU it is assigned to"
						  : "during the run, a free GPU takes the next file");
	return r;
}

static void append_outlook(struct text *out, const struct gd_launcher *l, const struct gd_launch_options *o,
	uint64_t bytes, double seconds, double imbalance)
{
	struct gd_launch_pace pace;
	gd_launcher_earlier_pace(l, &pace, sizeof(pace));
	double speed = pace.bytes_per_second;
	size_t workers = gd_launcher_gpus(l)->count * (size_t)(o->workers_per_gpu ? o->workers_per_gpu : 1);
	const char *more = workers == 1 ? "" : "s";
	double share = (1 + imbalance) / (double)workers;
	char text[UNITS_ROOM], size[UNITS_ROOM];
	if (pace.rtf > 0 && seconds > 0)
		text_appendf(out, "it will take %s (RTF %.3g in earlier runs, %zu worker%s)\n",
			units_format_about((uint64_t)(seconds * pace.rtf * share * 1000), text), pace.rtf, workers,
			more);
	else if (speed > 0)
		text_appendf(out, "it will take %s (%s/s in earlier runs, %zu worker%s)\n",
			units_format_about((uint64_t)((double)bytes / speed * share * 1000), text),
			units_format_size((uint64_t)speed, size), workers, more);
	else
		text_append_string(out, "unknown duration: the output folder has no record of an earlier run with this "
					"worker and these settings\n");
}

static int share_out(const struct gd_launch_options *o, const struct todo *todo, size_t num_gpus, struct gd_share *ret)
{
	cleanup_(freep) size_t *gpus = calloc(todo->count + 1, sizeof(*gpus));
	int r = gpus ? gd_balance_share(todo->list, todo->count, o->balance, num_gpus, gpus) : -ENOMEM;
	for (size_t g = 0; r == 0 && g < num_gpus; g++)
		r = gd_share_stats(todo->list, gpus, todo->count, num_gpus, g, &ret[g], sizeof(ret[g]));
	return r;
}

int launch_dry_run(
	struct gd_launcher *l, const struct gd_launch_options *o, const char *gpu_name, bool (*stopped)(void))
{
	size_t count;
	const struct gd_found *const *found = gd_launcher_todo(l, &count);
	const struct gd_gpu_list *gpus = gd_launcher_gpus(l);
	cleanup_(todo_finish) struct todo todo = {0};
	cleanup_(freep) struct gd_share *shares = calloc(gpus->count + 1, sizeof(*shares));
	cleanup_(text_finish) struct text out = {0};
	if (!shares || todo_init(&todo, found, count) < 0)
		return -ENOMEM;
	read_durations(&todo, gd_launcher_files(l)->folder, stopped);
	if (stopped())
		return -ECANCELED;
	if (count == 0 && gd_launcher_files(l)->count > 0) {
		launch_summary_print_skipped(gd_launcher_files(l)->count, true, stdout);
		return 0;
	}
	double seconds = all_seconds(&todo);
	append_workload(&out, l, &todo, seconds);
	int r = share_out(o, &todo, gpus->count, shares);
	if (r == 0 && count > 0) {
		text_appendf(&out, "\nDistribution (%s):\n", gd_balance_name(o->balance));
		r = append_shares(&out, gpus, shares, o->balance, gpu_name);
		text_append_char(&out, '\n');
		append_outlook(&out, l, o, all_bytes(&todo), seconds, shares[0].imbalance);
	}
	if (r < 0 || text_error(&out))
		return -ENOMEM;
	fputs(text_string(&out), stdout);
	return 0;
}
