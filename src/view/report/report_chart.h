/* SPDX-License-Identifier: MIT */
/* The charts of a report: facts → SVG that is as wide as the page and needs no script. */
#ifndef VIEW_REPORT_REPORT_CHART_H
#define VIEW_REPORT_REPORT_CHART_H

#include "base/text.h"
#include "view/report/report.h"
#include "view/report/report_axis.h"
#include "view/report/report_facts.h"

typedef void report_chart_fn(struct text *t, const struct report_facts *f, const struct report_axis *a);

/* A row of jobs for each GPU. Jobs narrower than a pixel are merged with their neighbors. */
report_chart_fn report_timeline;
/* A row for each sampled GPU: its utilization and memory. */
report_chart_fn report_usage;
/* Attempts that ended, per round span of time. */
report_chart_fn report_throughput;
/* Number of waiting jobs. */
report_chart_fn report_depth_chart;

/* "GPU 3", "node3:1", "no GPU". */
#define REPORT_GPU_LABEL REPORT_GPU_NAME
const char *report_gpu_label(const struct report_gpu *g, char buf[REPORT_GPU_LABEL]);

/* How an attempt ended: its reason, otherwise "exit 3", "SIGKILL"; "" if there is nothing to report. */
#define REPORT_OUTCOME 128
const char *report_outcome(const char *reason, const struct view_attempt *a, char buf[REPORT_OUTCOME]);

#endif
