/* SPDX-License-Identifier: MIT */
/* Shared by the parts of a report. */
#ifndef VIEW_REPORT_REPORT_PARTS_H
#define VIEW_REPORT_REPORT_PARTS_H

#include "view/report/report.h"
#include "view/report/report_chart.h"

/* Writes everything up to the first section. Both strings are escaped. */
void report_begin(struct text *t, const char *title, const char *subject);
void report_end(struct text *t, int64_t now_ms);
/* One of the figures at the top of the page; mark: "bad" or NULL. */
void report_tile(struct text *t, const char *mark, const char *name, const char *format, ...) GD_PRINTF(4, 5);
/* All figures, in rows of almost the same length. */
void report_tiles(struct text *t, const struct text *tiles);

/* A cell of a table: the GPUs. */
void report_put_gpus_of(struct text *t, const struct view_attempt *a);
/* A cell of a table: the command. */
void report_put_command(struct text *t, const struct view_job *j);
/* Sections; empty if no energy is known, or if no GPU was idle during a job. */
void report_energy(struct text *t, const struct report_facts *f);
void report_idle(struct text *t, const struct report_facts *f);
/* The same for launches and maps: empty if there were none during the time of the report. */
void report_runs(struct text *t, const struct report_facts *f, const struct view_run *runs, size_t count);
/* The reasons of failures: "7 × exit 1, 4 × GPU out of memory". */
void report_put_reasons(struct text *t, const struct report_facts *f);

/* ---- report_launch.c ---------------------------------------------------------------- */

void report_launch_tiles(struct text *t, const struct report_facts *f, const struct report_launch *l);
void report_launch_gpus(struct text *t, const struct report_facts *f, const struct report_launch *l);
void report_launch_slowest(struct text *t, const struct report_facts *f, const struct report_launch *l);
void report_launch_failed(struct text *t, const struct report_facts *f);

#endif
