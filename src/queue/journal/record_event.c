/* SPDX-License-Identifier: MIT */
#include "queue/journal/record_private.h"

const char *const record_event_names[RECORD_NUM_EVENT_NAMES] = {
	[EVENT_UNKNOWN] = "",
	[EVENT_JOURNAL] = "journal",
	[EVENT_ADD] = "add",
	[EVENT_KEEPER] = "keeper",
	[EVENT_START] = "start",
	[EVENT_END] = "end",
	[EVENT_FAIL] = "fail",
	[EVENT_CANCEL] = "cancel",
	[EVENT_HOLD] = "hold",
	[EVENT_RELEASE] = "release",
	[EVENT_URGENT] = "urgent",
	[EVENT_RETRY] = "retry",
	[EVENT_STUCK] = "stuck",
	[EVENT_IDLE] = "idle",
	[EVENT_HOOK] = "hook",
	[EVENT_SEEN] = "seen",
	[EVENT_UNKNOWN_JOB] = "unknown",
	[EVENT_LOSS] = "loss",
	[EVENT_LOST] = "lost",
	[EVENT_INTERRUPTED] = "interrupted",
	[EVENT_VOID] = "void",
	[EVENT_GRANT] = "grant",
	[EVENT_PAUSE] = "pause",
	[EVENT_EDIT] = "edit",
	[EVENT_COORDINATOR] = "coordinator",
	[EVENT_PILOT] = "pilot",
};

const char *record_event_name(enum event event)
{
	return event < RECORD_NUM_EVENT_NAMES ? record_event_names[event] : "";
}

enum event record_event_parse(const struct json_value *v)
{
	/* The last event whose name had this length and first letter: the next one is mostly the same. */
	static struct {
		unsigned char event, size;
	} learned[32];
	size_t at = (v->size * 8 + (unsigned char)v->data[0]) % (sizeof(learned) / sizeof(learned[0]));
	if (!v->escaped && v->size == learned[at].size &&
		json_same_bytes(v->data, record_event_names[learned[at].event], v->size))
		return learned[at].event;
	for (size_t i = 1; i < RECORD_NUM_EVENT_NAMES; i++)
		if (record_event_names[i][0] == v->data[0] && json_is(v, record_event_names[i])) {
			learned[at].event = (unsigned char)i;
			learned[at].size = (unsigned char)v->size;
			return (enum event)i;
		}
	return EVENT_UNKNOWN;
}
