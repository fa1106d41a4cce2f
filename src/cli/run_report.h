/* SPDX-License-Identifier: MIT */
/* `run --json`: the jobs of a run, in the format of `status --json`. Start from {0}. */
#ifndef CLI_RUN_REPORT_H
#define CLI_RUN_REPORT_H

#include "gpu_dispatch.h"
#include "queue/input/id_list.h"
#include "queue/journal/journal.h"

struct run_report {
	struct id_list open; /* jobs that had not ended at the beginning, ascending */
	uint64_t last_id;    /* jobs with larger ids are new */
};

/* Call before the run adds jobs. */
int run_report_begin(struct run_report *r, struct journal *j, struct gd_error *err);
void run_report_finish(struct run_report *r);

/* Prints to standard output: jobs that the run added (`own`), or, if `own` is NULL, all open or new jobs that are not
 * held. */
int run_report_print(const struct run_report *r, const struct id_list *own, struct journal *j, struct gd_error *err);

#endif
