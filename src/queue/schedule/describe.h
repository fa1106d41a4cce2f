/* SPDX-License-Identifier: MIT */
/* Who a process is, for people: its user and its name, from /proc. */
#ifndef QUEUE_SCHEDULE_DESCRIBE_H
#define QUEUE_SCHEDULE_DESCRIBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "alice, python"; a user without a name by his number. False if there is no such process. A placement_describe. */
bool describe_process(void *context, int64_t pid, char *buf, size_t size);

#endif
