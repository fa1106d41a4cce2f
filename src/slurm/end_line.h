/* SPDX-License-Identifier: MIT */
/* Encodes an end as a line of an outbox: a JSON object without seal and newline. */
#ifndef SLURM_END_LINE_H
#define SLURM_END_LINE_H

#include <stddef.h>

#include "base/text.h"
#include "slurm/frame.h"

void end_line_write(struct text *t, const struct frame_end *e);
/* 0 or -EBADMSG: a member is missing or wrong. Unknown members are ignored. */
int end_line_parse(const char *line, size_t size, struct frame_end *ret);

#endif
