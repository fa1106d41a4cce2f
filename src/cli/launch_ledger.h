/* SPDX-License-Identifier: MIT */
/* launch.jsonl, what gpuq launch has done in an output folder, as a model for the views: each file is a job. */
#ifndef CLI_LAUNCH_LEDGER_H
#define CLI_LAUNCH_LEDGER_H

#include "gpu_dispatch.h"
#include "view/model/model.h"
#include "view/report/report.h"

/*
 * Puts the files into the model, and what else there is to know of them into `ret`, to be released with
 * launch_ledger_finish(). -ENOENT where there is no ledger. Lines that are none are skipped and counted.
 */
int launch_ledger_read(const char *path, struct view_model *m, struct report_launch *ret, uint64_t *ret_bad_lines,
	struct gd_error *err);
void launch_ledger_finish(struct report_launch *l);

#endif
