/* SPDX-License-Identifier: MIT */
#include "queue/journal/record_private.h"

#include <errno.h>
#include <string.h>

#include "base/date.h"
#include "base/json_plain.h"

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

/* As json_is(), with one call: the text of a string has no NUL. */
static inline bool is_word(const struct json_value *v, const char *word)
{
	return !v->escaped && strncmp(word, v->data, v->size) == 0 && word[v->size] == '\0';
}

static enum event event_parse(const struct json_value *v)
{
	/* The last event whose name had this length and this first letter: mostly it comes again. */
	static unsigned char learned[32];
	unsigned char *guess = &learned[(v->size * 8 + (unsigned char)v->data[0]) % sizeof(learned)];
	if (*guess && is_word(v, record_event_names[*guess]))
		return *guess;
	for (size_t i = 1; i < RECORD_NUM_EVENT_NAMES; i++)
		if (record_event_names[i][0] == v->data[0] && is_word(v, record_event_names[i])) {
			*guess = (unsigned char)i;
			return (enum event)i;
		}
	return EVENT_UNKNOWN;
}

enum member_kind {
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

struct member {
	const char *quoted; /* "key": as we write it */
	const char *key;
	unsigned char size;
	unsigned char kind;
	unsigned short offset;
};

#define MEMBER(key, kind, field)                                                                                       \
	{                                                                                                              \
		"\"" key "\":", key, sizeof(key) - 1, MEMBER_##kind, offsetof(struct record, field)                    \
	}

/* In the order of their length; those of one length, the frequent ones first. */
static const struct member members[] = {
	MEMBER("id", ID, id),
	MEMBER("by", STRING, by),
	MEMBER("to", INT, to),
	MEMBER("pid", INT, pid),
	MEMBER("try", INT, try_number),
	MEMBER("cwd", STRING, cwd),
	MEMBER("env", STRING, env),
	MEMBER("log", STRING, log),
	MEMBER("gpu", STRING, gpu),
	MEMBER("time", TIME, time_ms),
	MEMBER("gpus", ARRAY, gpus),
	MEMBER("name", STRING, name),
	MEMBER("file", STRING, file),
	MEMBER("host", STRING, host),
	MEMBER("hook", BOOL, hook),
	MEMBER("boot", STRING, boot),
	MEMBER("held", BOOL, held),
	MEMBER("must", BOOL, must),
	MEMBER("from", INT, from),
	MEMBER("cpus", INT, cpus),
	MEMBER("tags", ARRAY, tags),
	MEMBER("tree", STRING, tree),
	MEMBER("idle", SECONDS, idle_ms),
	MEMBER("node", STRING, node),
	MEMBER("event", EVENT, event),
	MEMBER("after", ARRAY, after),
	MEMBER("queue", STRING, queue),
	MEMBER("group", INT, group),
	MEMBER("begin", TIME, begin_ms),
	MEMBER("pidns", STRING, pidns),
	MEMBER("lines", STRING, lines),
	MEMBER("since", TIME, since_ms),
	MEMBER("pilot", STRING, pilot),
	MEMBER("epoch", INT, epoch),
	MEMBER("lease", SECONDS, lease_ms),
	MEMBER("until", TIME, until_ms),
	MEMBER("status", STRING, status),
	MEMBER("keeper", STRING, keeper),
	MEMBER("mem_mb", MB, mem_mb),
	MEMBER("reason", STRING, reason),
	MEMBER("script", STRING, script),
	MEMBER("commit", STRING, commit),
	MEMBER("signal", INT, signal),
	MEMBER("gpu_id", GPU, gpus),
	MEMBER("paused", BOOL, paused),
	MEMBER("command", STRING, command),
	MEMBER("attempt", SMALL, attempt),
	MEMBER("timeout", SECONDS, timeout_ms),
	MEMBER("retries", INT, retries),
	MEMBER("records", INT, records),
	MEMBER("log_dir", STRING, log_dir),
	MEMBER("version", SMALL, version),
	MEMBER("next_id", ID, next_id),
	MEMBER("cwd_own", BOOL, cwd_own),
	MEMBER("cwd_dev", INT, cwd_dev),
	MEMBER("cwd_ino", INT, cwd_ino),
	MEMBER("cwd_b64", STRING, cwd_b64),
	MEMBER("log_b64", STRING, log_b64),
	MEMBER("started", TIME, started_ms),
	MEMBER("duration", SECONDS, duration_ms),
	MEMBER("num_gpus", INT, num_gpus),
	MEMBER("priority", INT, priority),
	MEMBER("name_b64", STRING, name_b64),
	MEMBER("tree_b64", STRING, tree_b64),
	MEMBER("file_b64", STRING, file_b64),
	MEMBER("log_file", STRING, log),
	MEMBER("energy_j", INT, energy_j),
	MEMBER("exit_code", INT, exit_code),
	MEMBER("on_finish", STRING, on_finish),
	MEMBER("exclusive", BOOL, exclusive),
	MEMBER("idle_warn", SECONDS, idle_warn_ms),
	MEMBER("after_any", ARRAY, after_any),
	MEMBER("slurm_job", INT, slurm_job),
	MEMBER("generation", INT, generation),
	MEMBER("start_time", ANY, start_time),
	MEMBER("allocation", STRING, allocation),
	MEMBER("requeue_on", INT, requeue_on),
	MEMBER("peak_mem_mb", MB, peak_mem_mb),
	MEMBER("host_mem_mb", MB, host_mem_mb),
	MEMBER("array_index", INT, array_index),
	MEMBER("script_name", STRING, script_name),
	MEMBER("command_b64", STRING, command_b64),
	MEMBER("log_dir_b64", STRING, log_dir_b64),
	MEMBER("on_finish_b64", STRING, on_finish_b64),
	MEMBER("signal_before", SECONDS, signal_before_ms),
	MEMBER("min_free_mem_mb", MB, min_free_mem_mb),
};

#define NUM_MEMBERS (sizeof(members) / sizeof(members[0]))
#define MAX_KEY     15

/* Where the members of each length begin. */
static void index_members(unsigned char first[MAX_KEY + 2])
{
	for (size_t i = 0; i < NUM_MEMBERS; i++)
		for (size_t size = members[i].size + 1; size < MAX_KEY + 2; size++)
			first[size]++;
}

/* Its index, or NUM_MEMBERS. */
static size_t member_find(const struct json_value *key)
{
	static unsigned char first[MAX_KEY + 2];
	if (!first[MAX_KEY + 1])
		index_members(first);
	if (key->size > MAX_KEY || key->escaped)
		return NUM_MEMBERS;
	for (size_t i = first[key->size]; i < first[key->size + 1]; i++)
		if (members[i].key[0] == key->data[0] && memcmp(members[i].key, key->data, key->size) == 0)
			return i;
	return NUM_MEMBERS;
}

static void *field_of(struct record *r, const struct member *m)
{
	return (char *)r + m->offset;
}

/* Decimal seconds, to milliseconds; our own have three digits after the point. */
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

enum { TIME_MINUTE = 17, TIME_SIZE = 24 };

/* The last time that was read as we write it: the minute of the next one is mostly the same. */
static struct {
	char text[TIME_MINUTE];
	int64_t ms;
} last_minute;

/* Whether these TIME_SIZE bytes are a time in that minute. */
static inline bool read_time_in_minute(const char *t, int64_t *ret)
{
	if (!last_minute.text[0] || memcmp(t, last_minute.text, TIME_MINUTE) != 0 || t[19] != '.' || t[23] != 'Z')
		return false;
	unsigned char d[] = {(unsigned char)(t[17] - '0'), (unsigned char)(t[18] - '0'), (unsigned char)(t[20] - '0'),
		(unsigned char)(t[21] - '0'), (unsigned char)(t[22] - '0')};
	int64_t ms = d[0] * 10000 + d[1] * 1000 + d[2] * 100 + d[3] * 10 + d[4];
	if (d[0] > 9 || d[1] > 9 || d[2] > 9 || d[3] > 9 || d[4] > 9 || ms > 60999)
		return false;
	*ret = last_minute.ms + ms;
	return true;
}

static int read_time(const struct json_value *v, int64_t *ret)
{
	const char *t = v->data;
	if (v->size == TIME_SIZE && read_time_in_minute(t, ret))
		return 0;
	int r = date_parse(t, v->size, ret);
	if (r == 0 && v->size == TIME_SIZE && t[19] == '.' && t[23] == 'Z') {
		memcpy(last_minute.text, t, TIME_MINUTE);
		last_minute.ms = *ret - ((t[17] - '0') * 10 + (t[18] - '0')) * 1000 - (*ret % 1000 + 1000) % 1000;
	}
	return r;
}

static inline int put_int(struct record *r, const struct member *m, int64_t n)
{
	void *field = field_of(r, m);
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

static int read_int(struct record *r, const struct member *m, const struct json_value *v)
{
	int64_t n;
	if (json_to_int64(v, &n) < 0)
		return -EBADMSG;
	return put_int(r, m, n);
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

static int read_member(struct record *r, const struct member *m, const struct json_value *v)
{
	void *field = field_of(r, m);
	if (m->kind == MEMBER_STRING)
		return read_slice(field, v, JSON_STRING);
	if (m->kind == MEMBER_ARRAY)
		return read_slice(field, v, JSON_ARRAY);
	if (v->type == JSON_NULL)
		return 0;
	switch ((enum member_kind)m->kind) {
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
		r->event = event_parse(v);
		return 0;
	case MEMBER_GPU:
		/* The first gpu_dispatch: a number, or a text for none. */
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

/* What every event of its kind must have. */
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
	_Static_assert(sizeof(r->values) == sizeof(*r) - offsetof(struct record, values), "all slices are among them");
	memcpy(r, &nothing, offsetof(struct record, values));
	memset(r->values, 0, sizeof(r->values));
}

/* ---- Values as we write them ------------------------------------------------------- */

/* Digits, at most 18 of them, which cannot overflow. Returns the place after them; NULL: these are not all. */
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

static inline int read_usual_int(struct json_cursor *c, struct record *r, const struct member *m)
{
	uint64_t n = 0;
	const char *p = take_digits(c->p, c->end, &n);
	if (!p || !ends_value(p, c->end) || (*c->p == '0' && p - c->p > 1))
		return 0;
	c->p = p;
	return put_int(r, m, (int64_t)n) < 0 ? -EBADMSG : 1;
}

/* With three digits after the point. */
static inline int read_usual_seconds(struct json_cursor *c, struct record *r, const struct member *m)
{
	uint64_t n = 0;
	const char *point = take_digits(c->p, c->end, &n);
	if (!point || point - c->p > 12 || (*c->p == '0' && point - c->p > 1) || c->end - point < 5 || *point != '.')
		return 0;
	const char *p = take_digits(point + 1, c->end, &n);
	if (!p || p - point != 4 || !ends_value(p, c->end))
		return 0;
	c->p = p;
	*(int64_t *)field_of(r, m) = (int64_t)n;
	return 1;
}

static inline int read_usual_time(struct json_cursor *c, struct record *r, const struct member *m)
{
	const char *p = c->p;
	if (c->end - p < TIME_SIZE + 2 || *p != '"' || p[TIME_SIZE + 1] != '"' ||
		!read_time_in_minute(p + 1, field_of(r, m)))
		return 0;
	c->p = p + TIME_SIZE + 2;
	return 1;
}

/* Of ASCII, without escapes. */
static inline bool read_usual_string(struct json_cursor *c, struct json_value *ret)
{
	const char *p = c->p, *quote;
	if (p == c->end || *p != '"' || (quote = json_skip_plain(p + 1, c->end, false)) == c->end || *quote != '"')
		return false;
	*ret = (struct json_value){p + 1, (uint32_t)(quote - p - 1), JSON_STRING, false};
	c->p = quote + 1;
	return true;
}

/*
 * Reads a value of the most frequent forms into its place in the record: most of the time that a large journal takes is
 * spent here. 1; 0 if the value has another form, with nothing changed; -EBADMSG.
 */
static inline int read_usual(struct json_cursor *c, struct record *r, const struct member *m)
{
	struct json_value word;
	switch ((enum member_kind)m->kind) {
	case MEMBER_STRING:
		return read_usual_string(c, field_of(r, m));
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
		r->event = word.size ? event_parse(&word) : EVENT_UNKNOWN;
		return word.size ? 1 : -EBADMSG;
	default:
		return 0;
	}
}

/* ---- Lines -------------------------------------------------------------------------- */

/*
 * Reads the next member; its index in *m, or NUM_MEMBERS if it is none of ours. Lines of one kind are all alike: the
 * key that came after *m the last time mostly comes again. Returns 1, 0 at the end, or -EBADMSG.
 */
static inline int next_member(struct json_cursor *c, struct record *r, size_t *m)
{
	static unsigned char learned[EVENT_LEGACY + 1][NUM_MEMBERS + 1];
	unsigned char *guess = &learned[r->event][*m];
	const struct member *likely = &members[*guess];
	struct json_value key, value;
	int more;
	if (json_skip_key(c, likely->quoted, likely->size + 3u)) {
		*m = *guess;
		if ((more = read_usual(c, r, likely)) != 0)
			return more;
		more = json_member_value(c, &value) < 0 ? -EBADMSG : 1;
	} else {
		more = json_next_member(c, &key, &value);
		*m = more > 0 ? member_find(&key) : NUM_MEMBERS;
		if (*m < NUM_MEMBERS)
			*guess = (unsigned char)*m;
	}
	if (more > 0 && *m < NUM_MEMBERS && read_member(r, &members[*m], &value) < 0)
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
	size_t m = NUM_MEMBERS;
	while ((more = next_member(&c, r, &m)) > 0) {
		if (m == NUM_MEMBERS)
			r->unknown_member = true;
		else if (members[m].kind == MEMBER_EVENT)
			has_event = true;
	}
	if (more < 0 || json_end(&c) < 0)
		return -EBADMSG;
	return record_check(r, has_event);
}
