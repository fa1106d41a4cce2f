/* SPDX-License-Identifier: MIT */
/* Reads the value of a member: record_value.c reads every form, the inline functions here the frequent ones. */
#ifndef QUEUE_JOURNAL_RECORD_VALUE_H
#define QUEUE_JOURNAL_RECORD_VALUE_H

#include <errno.h>
#include <string.h>

#include "queue/journal/record_members.h"

enum { RECORD_TIME_MINUTE = 17, RECORD_TIME_SIZE = 24 };

/* The last time read in our own format: the next one is mostly in the same minute. */
struct record_minute {
	char text[RECORD_TIME_MINUTE];
	int64_t ms;
};
extern struct record_minute record_last_minute;

/* Whether these RECORD_TIME_SIZE bytes are a time in that minute. */
static inline bool record_time_in_minute(const char *t, int64_t *ret)
{
	if (!record_last_minute.text[0] || memcmp(t, record_last_minute.text, RECORD_TIME_MINUTE) != 0 ||
		t[19] != '.' || t[23] != 'Z')
		return false;
	unsigned char d[] = {(unsigned char)(t[17] - '0'), (unsigned char)(t[18] - '0'), (unsigned char)(t[20] - '0'),
		(unsigned char)(t[21] - '0'), (unsigned char)(t[22] - '0')};
	int64_t ms = d[0] * 10000 + d[1] * 1000 + d[2] * 100 + d[3] * 10 + d[4];
	if (d[0] > 9 || d[1] > 9 || d[2] > 9 || d[3] > 9 || d[4] > 9 || ms > 60999)
		return false;
	*ret = record_last_minute.ms + ms;
	return true;
}

static inline int record_put_int(struct record *r, const struct record_member *m, int64_t n)
{
	void *field = record_field(r, m);
	if (m->kind == MEMBER_SMALL) {
		if (n < 0 || n > INT32_MAX)
			return -EBADMSG;
		int32_t small = (int32_t)n;
		memcpy(field, &small, sizeof(small));
		return 0;
	}
	if (m->kind == MEMBER_MB && n > INT64_MAX >> 20)
		return -EBADMSG;
	if (m->kind == MEMBER_ID && (n <= 0 || n >= (int64_t)JOB_MAX_ID))
		return -EBADMSG;
	memcpy(field, &n, sizeof(n));
	return 0;
}

/* Stores a value of any form in its field: 0 or -EBADMSG. */
int record_read_value(struct record *r, const struct record_member *m, const struct json_value *v);

#endif
