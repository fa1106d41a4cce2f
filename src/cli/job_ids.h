/* SPDX-License-Identifier: MIT */
/* Job ids on a command line. */
#ifndef CLI_JOB_IDS_H
#define CLI_JOB_IDS_H

#include "gpu_dispatch.h"
#include "queue/input/id_list.h"

/* Appends the ids of "12", "12-15" or "3,4". -EINVAL for other text, -ENOMEM. */
int job_ids_parse(const char *text, struct id_list *ids, struct gd_error *err);

#endif
