/* SPDX-License-Identifier: MIT */
/* Reads launch.jsonl, the record of gpuq launch in an output folder, as a model for the views: each file is a job. */
#ifndef CLI_LAUNCH_MODEL_H
#define CLI_LAUNCH_MODEL_H

#include "gpu_dispatch.h"
#include "view/model/model.h"
#include "view/report/report.h"

/*
 * Puts the files into the model, and their other details into `ret`; release it with
 * launch_model_finish(). -ENOENT if there is no launch.jsonl. Bad lines are skipped and counted.
 */
int launch_model_read(const char *path, struct view_model *m, struct report_launch *ret, uint64_t *ret_bad_lines,
	struct gd_error *err);
void launch_model_finish(struct report_launch *l);

#endif
