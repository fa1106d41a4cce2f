/* SPDX-License-Identifier: MIT */
/* `run --json`: the jobs of a run, as `status --json` has them. Start from {0}. */
#ifndef CLI_RUN_REPORT_H
#define CLI_RUN_REPORT_H

#include "gpu_dispatch.h"
#include "queue/input/id_list.h"
#include "queue/journal/journal.h"

struct run_report {
	struct id_list open; /* ascending; that were not over when it began */
	uint64_t last_id;    /* those behind it are new */
};

/* Before the run adds anything. */
int run_report_begin(struct run_report *r, struct journal *j, struct gd_error *err);
void run_report_finish(struct run_report *r);

/* On standard output: those that the run added (`own`), or, where it is NULL, all that were open or new, unless held.
 */
int run_report_print(const struct run_report *r, const struct id_list *own, struct journal *j, struct gd_error *err);

#endif
