/* SPDX-License-Identifier: MIT */
/* Lists of job ids: read from a command line, sorted, searched. */
#ifndef CLI_JOB_IDS_H
#define CLI_JOB_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "gpu_dispatch.h"
#include "queue/input/submit.h"

/* Appends the ids of "12", "12-15" or "3,4". -EINVAL for other text, -ENOMEM. */
int job_ids_parse(const char *text, struct id_list *ids, struct gd_error *err);

/* Afterwards ids ascend, each once. */
void job_ids_sort(struct id_list *l);

/* Position in a list of ascending ids, or SIZE_MAX. */
size_t job_ids_find(const struct id_list *l, uint64_t id);

#endif
