/* SPDX-License-Identifier: MIT */
/* When a job may begin, as people write it. */
#ifndef QUEUE_INPUT_BEGIN_TIME_H
#define QUEUE_INPUT_BEGIN_TIME_H

#include <stdint.h>

#include "gpu_dispatch.h"

/*
 * "22:00" (the next time that the clock shows it), "+2h", "2026-11-18", "2026-11-18 22:00", in local time; or ISO 8601
 * with a zone. Milliseconds since 1970. A date may be in the past. -EINVAL with words.
 */
int begin_time_parse(const char *text, int64_t now_ms, int64_t *ret_ms, struct gd_error *err);

#endif
