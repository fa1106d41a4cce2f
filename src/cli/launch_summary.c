/* SPDX-License-Identifier: MIT */
#include "cli/launch_summary.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/json_put.h"
#include "base/table.h"
#include "base/units.h"

void launch_summary_print_skipped(size_t skipped, bool all, FILE *out)
{
	bool one = skipped == 1;
	fprintf(out, "%zu %s already done and skipped%s\n", skipped, one ? "file is" : "files are",
		!all  ? ""
		: one ? "; use --force to process it again"
		      : "; use --force to process them again");
}

/* ---- JSON -------------------------------------------------------------------- */

static void put_failures(struct text *t, const struct gd_launch_summary *s)
{
	json_open(t, "failures", '[');
	for (size_t i = 0; i < s->num_failures; i++) {
		json_open(t, NULL, '{');
		json_put_any(t, "file", s->failures[i]->file, strlen(s->failures[i]->file));
		json_put_string(t, "error", s->failures[i]->error);
		json_close(t, '}');
	}
	json_close(t, ']');
}

/* Unknown values are null. */
static void put_known(struct text *t, const char *key, bool known, double value, int digits)
{
	if (known)
		json_put_decimal(t, key, value, digits);
	else
		json_put_null(t, key);
}

static void put_gpus(struct text *t, const struct gd_launch_summary *s)
{
	json_open(t, "gpus", '[');
	for (size_t i = 0; i < s->num_gpus; i++) {
		const struct gd_launch_gpu *g = s->gpus[i];
		json_open(t, NULL, '{');
		if (g->node)
			json_put_string(t, "node", g->node);
		json_put_int(t, "gpu", g->gpu);
		json_put_int(t, "files", (int64_t)g->files);
		json_put_int(t, "failed", (int64_t)g->failed);
		put_known(t, "audio_seconds", g->audio_seconds > 0 || s->known & GD_KNOWN_RTF, g->audio_seconds, 3);
		json_put_decimal(t, "processing_seconds", g->processing_seconds, 6);
		json_put_decimal(t, "share", g->share, 6);
		json_close(t, '}');
	}
	json_close(t, ']');
}

void launch_summary_format(struct text *t, const struct gd_launch_summary *s)
{
	json_open(t, NULL, '{');
	json_put_int(t, "files_total", (int64_t)s->files_total);
	json_put_int(t, "files_done", (int64_t)s->files_done);
	json_put_int(t, "files_failed", (int64_t)s->files_failed);
	json_put_int(t, "files_skipped", (int64_t)s->files_skipped);
	json_put_int(t, "files_left", (int64_t)s->files_left);
	json_put_int(t, "inputs_skipped", (int64_t)s->inputs_skipped);
	json_put_int(t, "bytes_done", (int64_t)s->bytes_done);
	put_known(t, "audio_seconds", s->known & GD_KNOWN_RTF, s->audio_seconds, 3);
	json_put_decimal(t, "processing_seconds", s->processing_seconds, 6);
	json_put_decimal(t, "wall_seconds", s->wall_seconds, 6);
	json_put_decimal(t, "loading_seconds", s->loading_seconds, 6);
	json_put_decimal(t, "idle_seconds", s->idle_seconds, 6);
	put_known(t, "rtf", s->known & GD_KNOWN_RTF, s->rtf, 9);
	put_known(t, "speedup", s->files_done > 0, s->speedup, 6);
	put_known(t, "skew", s->files_done > 0, s->skew, 6);
	put_failures(t, s);
	put_gpus(t, s);
	json_close(t, '}');
	text_append_char(t, '\n');
}
