/* SPDX-License-Identifier: MIT */
#include "queue/journal/record_value.h"

#include "base/date.h"
#include "queue/journal/record_private.h"

struct record_minute record_last_minute;

/* Converts decimal seconds to milliseconds; our own have three digits after the point. */
static int read_seconds(const struct json_value *v, int64_t *ret)
{
	double s;
	if (v->size > 4 && v->size < 15 && v->data[v->size - 4] == '.' && v->data[0] != '-') {
		int64_t n = 0;
		for (size_t i = 0; i < v->size; i++)
			if (i != v->size - 4) {
				if (v->data[i] < '0' || v->data[i] > '9')
					return -EBADMSG;
				n = n * 10 + (v->data[i] - '0');
			}
		*ret = n;
		return 0;
	}
	if (json_to_double(v, &s) < 0 || !(s > -1e12 && s < 1e12))
		return -EBADMSG;
	*ret = (int64_t)(s * 1000 + (s < 0 ? -0.5 : 0.5));
	return 0;
}

static int read_time(const struct json_value *v, int64_t *ret)
{
	const char *t = v->data;
	if (v->size == RECORD_TIME_SIZE && record_time_in_minute(t, ret))
		return 0;
	int r = date_parse(t, v->size, ret);
	if (r == 0 && v->size == RECORD_TIME_SIZE && t[19] == '.' && t[23] == 'Z') {
		memcpy(record_last_minute.text, t, RECORD_TIME_MINUTE);
		record_last_minute.ms =
			*ret - ((t[17] - '0') * 10 + (t[18] - '0')) * 1000 - (*ret % 1000 + 1000) % 1000;
	}
	return r;
}

static int read_int(struct record *r, const struct record_member *m, const struct json_value *v)
{
	int64_t n;
	if (json_to_int64(v, &n) < 0)
		return -EBADMSG;
	return record_put_int(r, m, n);
}

static int read_slice(struct json_value *field, const struct json_value *v, enum json_type type)
{
	if (v->type == JSON_NULL)
		field->type = 0;
	else if (v->type != type)
		return -EBADMSG;
	else
		*field = *v;
	return 0;
}

int record_read_value(struct record *r, const struct record_member *m, const struct json_value *v)
{
	void *field = record_field(r, m);
	if (m->kind == MEMBER_STRING)
		return read_slice(field, v, JSON_STRING);
	if (m->kind == MEMBER_ARRAY)
		return read_slice(field, v, JSON_ARRAY);
	if (v->type == JSON_NULL)
		return 0;
	switch ((enum record_member_kind)m->kind) {
	case MEMBER_INT:
	case MEMBER_MB:
	case MEMBER_SMALL:
	case MEMBER_ID:
		return read_int(r, m, v);
	case MEMBER_SECONDS:
		return v->type == JSON_NUMBER ? read_seconds(v, field) : -EBADMSG;
	case MEMBER_TIME:
		return v->type == JSON_STRING ? read_time(v, field) : -EBADMSG;
	case MEMBER_BOOL:
		if (v->type != JSON_TRUE && v->type != JSON_FALSE)
			return -EBADMSG;
		*(bool *)field = v->type == JSON_TRUE;
		return 0;
	case MEMBER_EVENT:
		if (v->type != JSON_STRING || v->size == 0)
			return -EBADMSG;
		r->event = record_event_parse(v);
		return 0;
	case MEMBER_GPU:
		/* Written by the original gpu_dispatch: the number of a GPU; a string means no GPU. */
		if (v->type == JSON_NUMBER)
			memcpy(field, v, sizeof(*v));
		return 0;
	case MEMBER_STRING:
	case MEMBER_ARRAY:
	case MEMBER_ANY:
		break;
	}
	memcpy(field, v, sizeof(*v));
	return 0;
}
