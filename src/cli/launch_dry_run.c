/* SPDX-License-Identifier: MIT */
#include "cli/launch_dry_run.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/units.h"
#include "cli/launch_audio.h"
#include "cli/launch_summary.h"
#include "cli/table.h"

#define MOST_READ 5000 /* files that are opened for their duration; of more, as many, evenly spread */

static const char *duration(double seconds, char buf[UNITS_ROOM])
{
	return units_format_duration((uint64_t)(seconds * 1000), buf);
}

/* A copy with durations, as far as they are read. */
static struct gd_found *read_durations(
	const struct gd_files *files, const struct gd_found *todo, size_t count, bool (*stopped)(void))
{
	struct gd_found *copy = calloc(count + 1, sizeof(*copy));
	if (!copy)
		return NULL;
	size_t step = (count + MOST_READ - 1) / MOST_READ;
	memcpy(copy, todo, count * sizeof(*copy));
	for (size_t i = 0; i < count && !stopped(); i += step) {
		char path[PATH_MAX];
		int n = snprintf(path, sizeof(path), "%s/%s", files->folder, copy[i].path);
		if (n > 0 && (size_t)n < sizeof(path))
			copy[i].seconds = launch_audio_seconds(NULL, path);
	}
	return copy;
}

static void append_file(struct text *out, const char *words, const char *path, uint64_t bytes)
{
	char size[UNITS_ROOM];
	text_appendf(out, "%s", words);
	display_append(out, path, strlen(path), 40);
	text_appendf(out, " (%s)", units_format_size(bytes, size));
}

/* All of the audio, as far as it can be told: of files that were not asked, by their size. */
static double all_seconds(const struct gd_found *files, size_t count)
{
	double seconds = 0, known = 0, unknown = 0;
	for (size_t i = 0; i < count; i++) {
		if (files[i].seconds < 0) {
			unknown += (double)files[i].size_bytes;
			continue;
		}
		seconds += files[i].seconds;
		known += (double)files[i].size_bytes;
	}
	return known > 0 ? seconds + unknown * seconds / known : 0;
}

static uint64_t all_bytes(const struct gd_found *files, size_t count)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < count; i++)
		bytes += files[i].size_bytes;
	return bytes;
}

static void append_workload(
	struct text *out, const struct gd_launcher *l, const struct gd_found *todo, size_t count, double seconds)
{
	char size[UNITS_ROOM], audio[UNITS_ROOM];
	struct gd_workload w;
	gd_workload_estimate(todo, count, &w);
	size_t before = gd_launcher_files(l)->count - count;
	text_appendf(out, "%zu file%s to do, %s", count, count == 1 ? "" : "s", units_format_size(w.bytes, size));
	if (seconds > 0)
		text_appendf(out, ", %s%s of audio", w.audio_unknown ? "about " : "", duration(seconds, audio));
	if (before)
		text_appendf(out, "; %zu done before", before);
	text_append_char(out, '\n');
	if (count > 0) {
		append_file(out, "largest: ", w.largest, w.largest_bytes);
		append_file(out, ", smallest: ", w.smallest, w.smallest_bytes);
		text_append_char(out, '\n');
	}
}

static int append_shares(
	struct text *out, const struct gd_gpu_list *gpus, const struct gd_share *shares, double imbalance)
{
	static const struct table_column columns[] = {{"GPU", true, false}, {"NAME", false, true},
		{"FILES", true, false}, {"SIZE", true, false}, {"AUDIO", true, false}, {"LOAD", true, false}};
	cleanup_(table_finish) struct table t = {.columns = columns, .num_columns = sizeof(columns) / sizeof(*columns)};
	for (size_t g = 0; g < gpus->count; g++) {
		char text[UNITS_ROOM];
		const struct gd_gpu *gpu = gpus->gpus[g];
		table_cellf(&t, COLOUR_BOLD, "%d", gpu->index);
		table_cell(&t, COLOUR_NONE, gpu->known & GD_GPU_KNOWN_NAME ? gpu->name : gd_vendor_name(gpu->vendor));
		table_cellf(&t, COLOUR_NONE, "%llu", (unsigned long long)shares[g].files);
		table_cell(&t, COLOUR_NONE, units_format_size(shares[g].bytes, text));
		table_cell(
			&t, COLOUR_NONE, shares[g].audio_seconds > 0 ? duration(shares[g].audio_seconds, text) : "-");
		table_cellf(&t, COLOUR_NONE, "%.1f%%", 100 * shares[g].load);
	}
	int r = table_print(&t, terminal_width(), terminal_has_colour(), out);
	text_appendf(out, "imbalance: %.1f%%; in the run, whoever is free takes the next file\n", 100 * imbalance);
	return r;
}

static void append_outlook(struct text *out, const struct gd_launcher *l, const struct gd_launch_options *o,
	uint64_t bytes, double seconds, double imbalance)
{
	double rtf = gd_launcher_earlier_rtf(l), speed = gd_launcher_earlier_bytes_per_second(l);
	size_t workers = gd_launcher_gpus(l)->count * (size_t)(o->workers_per_gpu ? o->workers_per_gpu : 1);
	const char *more = workers == 1 ? "" : "s";
	double share = (1 + imbalance) / (double)workers;
	char text[UNITS_ROOM], size[UNITS_ROOM];
	if (rtf > 0 && seconds > 0)
		text_appendf(out, "it will take about %s (RTF %.3g in earlier runs, %zu worker%s)\n",
			duration(seconds * rtf * share, text), rtf, workers, more);
	else if (speed > 0)
		text_appendf(out, "it will take about %s (%s/s in earlier runs, %zu worker%s)\n",
			duration((double)bytes / speed * share, text), units_format_size((uint64_t)speed, size),
			workers, more);
	else
		text_append_string(out, "how long it will take is not known: no earlier run with this worker and these "
					"settings is recorded in the output folder\n");
}

static int share_out(const struct gd_launch_options *o, const struct gd_found *todo, size_t count, size_t num_gpus,
	struct gd_share *ret, double *ret_imbalance)
{
	cleanup_(freep) size_t *gpus = calloc(count + 1, sizeof(*gpus));
	int r = gpus ? gd_share_out(todo, count, o->balance, num_gpus, gpus) : -ENOMEM;
	if (r == 0)
		*ret_imbalance = gd_share_stats(todo, gpus, count, num_gpus, ret);
	return r;
}

int launch_dry_run(struct gd_launcher *l, const struct gd_launch_options *o, bool (*stopped)(void))
{
	size_t count;
	const struct gd_found *found = gd_launcher_todo(l, &count);
	const struct gd_gpu_list *gpus = gd_launcher_gpus(l);
	cleanup_(freep) struct gd_found *todo = read_durations(gd_launcher_files(l), found, count, stopped);
	cleanup_(freep) struct gd_share *shares = calloc(gpus->count + 1, sizeof(*shares));
	cleanup_(text_finish) struct text out = {0};
	double imbalance = 0;
	if (!todo || !shares)
		return -ENOMEM;
	if (stopped())
		return -ECANCELED;
	if (count == 0 && gd_launcher_files(l)->count > 0) {
		launch_summary_print_skipped(gd_launcher_files(l)->count, true, stdout);
		return 0;
	}
	double seconds = all_seconds(todo, count);
	append_workload(&out, l, todo, count, seconds);
	int r = share_out(o, todo, count, gpus->count, shares, &imbalance);
	if (r == 0 && count > 0) {
		text_appendf(&out, "\nShared out, %s:\n", gd_balance_name(o->balance));
		r = append_shares(&out, gpus, shares, imbalance);
		text_append_char(&out, '\n');
		append_outlook(&out, l, o, all_bytes(todo, count), seconds, imbalance);
	}
	if (r < 0 || text_error(&out))
		return -ENOMEM;
	fputs(text_string(&out), stdout);
	return 0;
}
