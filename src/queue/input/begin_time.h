/* SPDX-License-Identifier: MIT */
/* Parses the time at which a job may begin. */
#ifndef QUEUE_INPUT_BEGIN_TIME_H
#define QUEUE_INPUT_BEGIN_TIME_H

#include <stdint.h>

#include "gpu_dispatch.h"

/*
 * "22:00" (the next time that the clock shows it), "+2h", "2026-11-18", "2026-11-18 22:00", in local time; or ISO 8601
 * with a zone. Returns milliseconds since 1970. A date may be in the past. -EINVAL with a message.
 */
int begin_time_parse(const char *text, int64_t now_ms, int64_t *ret_ms, struct gd_error *err);

#endif
