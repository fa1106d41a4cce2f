/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "base/json_plain.h"
#include "queue/journal/record_private.h"
#include "queue/journal/record_value.h"

/* Checks that a record has the members that its event requires. */
static int record_check(struct record *r, bool has_event)
{
	if (!has_event) {
		if (!r->command.type || !r->status.type)
			return -EBADMSG;
		r->event = EVENT_LEGACY;
		return 0;
	}
	switch (r->event) {
	case EVENT_ADD:
	case EVENT_EDIT:
		return r->id && r->command.type ? 0 : -EBADMSG;
	case EVENT_KEEPER:
		return r->keeper.type ? 0 : -EBADMSG;
	case EVENT_COORDINATOR:
		return r->epoch > 0 ? 0 : -EBADMSG;
	case EVENT_PILOT:
		return r->pilot.type && r->pilot.size ? 0 : -EBADMSG;
	case EVENT_UNKNOWN:
	case EVENT_JOURNAL:
	case EVENT_SEEN:
	case EVENT_LOSS:
	case EVENT_LOST:
	case EVENT_PAUSE:
		return 0;
	default:
		return r->id ? 0 : -EBADMSG;
	}
}

static void record_clear(struct record *r)
{
	static const struct record nothing = {.attempt = 1,
		.num_gpus = -1,
		.mem_mb = -1,
		.min_free_mem_mb = -1,
		.timeout_ms = -1,
		.retries = -1,
		.exit_code = -1,
		.peak_mem_mb = -1,
		.energy_j = -1,
		.idle_warn_ms = -1,
		.records = -1,
		.array_index = -1,
		.duration_ms = -1};
	/* A real call: the `rep stos` that the compiler would inline takes longer to begin than the rest of the
	 * function. */
	static void *(*const volatile copy)(void *, const void *, size_t) = memcpy;
	copy(r, &nothing, sizeof(*r));
}

/* ---- Values in our own format ------------------------------------------------------ */

/* Reads at most 18 digits, which cannot overflow. Returns the position after them; NULL if there are none or more. */
static inline const char *take_digits(const char *p, const char *end, uint64_t *n)
{
	const char *start = p;
	unsigned char digit;
	for (; p < end && (digit = (unsigned char)(*p - '0')) < 10; p++)
		*n = *n * 10 + digit;
	return p > start && p - start <= 18 ? p : NULL;
}

static inline bool ends_value(const char *p, const char *end)
{
	return p < end && (*p == ',' || *p == '}');
}

static inline int read_usual_int(struct json_cursor *c, struct record *r, const struct record_member *m)
{
	uint64_t n = 0;
	const char *p = take_digits(c->p, c->end, &n);
	if (!p || !ends_value(p, c->end) || (*c->p == '0' && p - c->p > 1))
		return 0;
	c->p = p;
	return record_put_int(r, m, (int64_t)n) < 0 ? -EBADMSG : 1;
}

/* Seconds with three digits after the point. */
static inline int read_usual_seconds(struct json_cursor *c, struct record *r, const struct record_member *m)
{
	uint64_t n = 0;
	const char *point = take_digits(c->p, c->end, &n);
	if (!point || point - c->p > 12 || (*c->p == '0' && point - c->p > 1) || c->end - point < 5 || *point != '.')
		return 0;
	const char *p = take_digits(point + 1, c->end, &n);
	if (!p || p - point != 4 || !ends_value(p, c->end))
		return 0;
	c->p = p;
	*(int64_t *)record_field(r, m) = (int64_t)n;
	return 1;
}

static inline int read_usual_time(struct json_cursor *c, struct record *r, const struct record_member *m)
{
	const char *p = c->p;
	if (c->end - p < RECORD_TIME_SIZE + 2 || *p != '"' || p[RECORD_TIME_SIZE + 1] != '"' ||
		!record_time_in_minute(p + 1, record_field(r, m)))
		return 0;
	c->p = p + RECORD_TIME_SIZE + 2;
	return 1;
}

/* A string of ASCII, without escapes. */
static inline bool read_usual_string(struct json_cursor *c, struct json_value *ret)
{
	const char *p = c->p, *quote;
	if (p == c->end || *p != '"' || (quote = json_skip_plain(p + 1, c->end, false)) == c->end || *quote != '"')
		return false;
	*ret = (struct json_value){p + 1, (uint32_t)(quote - p - 1), JSON_STRING, false};
	c->p = quote + 1;
	return true;
}

/* An array with the index of one GPU. */
static inline bool read_usual_array(struct json_cursor *c, struct json_value *ret)
{
	const char *p = c->p;
	if (c->end - p < 4 || p[0] != '[' || (unsigned char)(p[1] - '0') > 9 || p[2] != ']')
		return false;
	*ret = (struct json_value){p, 3, JSON_ARRAY, false};
	c->p = p + 3;
	return true;
}

/*
 * Reads a value of the most frequent forms into its field of the record: reading a large journal spends most of its
 * time here. 1; 0 if the value has another form, with nothing changed; -EBADMSG.
 */
static inline int read_usual(struct json_cursor *c, struct record *r, const struct record_member *m)
{
	struct json_value word;
	switch ((enum record_member_kind)m->kind) {
	case MEMBER_STRING:
		return read_usual_string(c, record_field(r, m));
	case MEMBER_ARRAY:
		return read_usual_array(c, record_field(r, m));
	case MEMBER_INT:
	case MEMBER_MB:
	case MEMBER_SMALL:
	case MEMBER_ID:
		return read_usual_int(c, r, m);
	case MEMBER_TIME:
		return read_usual_time(c, r, m);
	case MEMBER_SECONDS:
		return read_usual_seconds(c, r, m);
	case MEMBER_EVENT:
		if (!read_usual_string(c, &word))
			return 0;
		r->event = word.size ? record_event_parse(&word) : EVENT_UNKNOWN;
		return word.size ? 1 : -EBADMSG;
	default:
		return 0;
	}
}

/* ---- Lines -------------------------------------------------------------------------- */

/*
 * Reads the next member; sets *m to its index, or RECORD_NUM_MEMBERS if it is unknown. Lines of one event have similar
 * keys: the key that followed *m the last time mostly follows again. Returns 1, 0 at the end, or -EBADMSG.
 */
static inline int next_member(struct json_cursor *c, struct record *r, size_t *m)
{
	static unsigned char learned[EVENT_LEGACY + 1][RECORD_NUM_MEMBERS + 1];
	unsigned char *guess = &learned[r->event][*m];
	const struct record_member *likely = &record_members[*guess];
	struct json_value key, value;
	int more;
	if (json_skip_key(c, likely->quoted, likely->size + 3u)) {
		*m = *guess;
		if ((more = read_usual(c, r, likely)) != 0)
			return more;
		more = json_member_value(c, &value) < 0 ? -EBADMSG : 1;
	} else {
		more = json_next_member(c, &key, &value);
		*m = more > 0 ? record_member_find(&key) : RECORD_NUM_MEMBERS;
		if (*m < RECORD_NUM_MEMBERS)
			*guess = (unsigned char)*m;
	}
	if (more > 0 && *m < RECORD_NUM_MEMBERS && record_read_value(r, &record_members[*m], &value) < 0)
		return -EBADMSG;
	return more;
}

int record_parse(const char *line, size_t size, struct record *ret)
{
	struct record *r = ret;
	record_clear(r);
	struct json_cursor c;
	bool has_event = false;
	if (json_begin(&c, line, size) < 0)
		return -EBADMSG;
	int more;
	size_t m = RECORD_NUM_MEMBERS;
	while ((more = next_member(&c, r, &m)) > 0) {
		if (m == RECORD_NUM_MEMBERS)
			r->unknown_member = true;
		else if (record_members[m].kind == MEMBER_EVENT)
			has_event = true;
	}
	if (more < 0 || json_end(&c) < 0)
		return -EBADMSG;
	return record_check(r, has_event);
}
