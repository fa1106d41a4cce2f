/* SPDX-License-Identifier: MIT */
/* The members that lines of a journal may have, and which field of a record each one fills. */
#ifndef QUEUE_JOURNAL_RECORD_MEMBERS_H
#define QUEUE_JOURNAL_RECORD_MEMBERS_H

#include "queue/journal/record.h"

enum record_member_kind {
	MEMBER_STRING,
	MEMBER_INT,   /* int64_t */
	MEMBER_MB,    /* the same; fits in bytes, too */
	MEMBER_SMALL, /* 32 bits, not negative */
	MEMBER_ID,    /* one out of range would leave no id for the next job */
	MEMBER_SECONDS,
	MEMBER_TIME,
	MEMBER_EVENT,
	MEMBER_BOOL,
	MEMBER_ARRAY,
	MEMBER_GPU,
	MEMBER_ANY
};

struct record_member {
	char quoted[20];    /* "key": as we write it, which most lines have */
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
