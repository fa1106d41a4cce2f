/* SPDX-License-Identifier: MIT */
/* The members that lines of a journal may have, and the field of a record for each. */
#ifndef QUEUE_JOURNAL_RECORD_MEMBERS_H
#define QUEUE_JOURNAL_RECORD_MEMBERS_H

#include "queue/journal/record.h"

enum record_member_kind {
	MEMBER_STRING,
	MEMBER_INT,   /* int64_t */
	MEMBER_MB,    /* int64_t that also fits when converted to bytes */
	MEMBER_SMALL, /* 32 bits, not negative */
	MEMBER_ID,    /* an id; a value out of range would leave no id for the next job */
	MEMBER_SECONDS,
	MEMBER_TIME,
	MEMBER_EVENT,
	MEMBER_BOOL,
	MEMBER_ARRAY,
	MEMBER_GPU,
	MEMBER_ANY
};

struct record_member {
	char quoted[20];    /* "key": as we write it and as most lines have it */
	unsigned char size; /* of the key */
	unsigned char kind;
	unsigned short offset;
};

#define RECORD_NUM_MEMBERS 88
extern const struct record_member record_members[RECORD_NUM_MEMBERS];

/* The index of the member with this key, or RECORD_NUM_MEMBERS. */
size_t record_member_find(const struct json_value *key);

static inline void *record_field(struct record *r, const struct record_member *m)
{
	return (char *)r + m->offset;
}

#endif
