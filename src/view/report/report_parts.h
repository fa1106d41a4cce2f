/* SPDX-License-Identifier: MIT */
/* Between the parts of a report. */
#ifndef VIEW_REPORT_REPORT_PARTS_H
#define VIEW_REPORT_REPORT_PARTS_H

#include "view/report/report.h"
#include "view/report/report_chart.h"

/* Everything up to the first section. Both are escaped. */
void report_begin(struct text *t, const char *title, const char *subject);
void report_end(struct text *t, int64_t now_ms);
/* One figure of many at the top of the page; mark: "bad" or NULL. */
void report_tile(struct text *t, const char *mark, const char *name, const char *format, ...) GD_PRINTF(4, 5);
/* All of them, in rows of almost the same length. */
void report_tiles(struct text *t, const struct text *tiles);

/* A cell of a table: on which GPUs. */
void report_put_gpus_of(struct text *t, const struct view_attempt *a);
/* A cell of a table: the command. */
void report_put_command(struct text *t, const struct view_job *j);
/* Sections; nothing if no energy is known, if no GPU was idle under a job. */
void report_energy(struct text *t, const struct report_facts *f);
void report_idle(struct text *t, const struct report_facts *f);
/* The same of launches and maps: nothing if there was none at the time of the report. */
void report_runs(struct text *t, const struct report_facts *f, const struct view_run *runs, size_t count);
/* "7 × exit 1, 4 × GPU out of memory" of what failed. */
void report_put_reasons(struct text *t, const struct report_facts *f);

/* ---- report_launch.c ---------------------------------------------------------------- */

void report_launch_tiles(struct text *t, const struct report_facts *f, const struct report_launch *l);
void report_launch_gpus(struct text *t, const struct report_facts *f, const struct report_launch *l);
void report_launch_slowest(struct text *t, const struct report_facts *f, const struct report_launch *l);
void report_launch_failed(struct text *t, const struct report_facts *f);

#endif
