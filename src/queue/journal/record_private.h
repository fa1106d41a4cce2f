/* SPDX-License-Identifier: MIT */
/* Shared by the source files of records. */
#ifndef QUEUE_JOURNAL_RECORD_PRIVATE_H
#define QUEUE_JOURNAL_RECORD_PRIVATE_H

#include "queue/journal/record.h"

/* The value of the member "event" for each enum event; EVENT_UNKNOWN has "", EVENT_LEGACY has no such member. */
#define RECORD_NUM_EVENT_NAMES EVENT_LEGACY
/* The `status` of a pilot that is gone. */
#define RECORD_PILOT_GONE "gone"

extern const char *const record_event_names[RECORD_NUM_EVENT_NAMES];

/* The event with this name, a string without escapes; EVENT_UNKNOWN if there is none. Not for an empty string. */
enum event record_event_parse(const struct json_value *v);

#endif
