/* SPDX-License-Identifier: MIT */
#include "slurm/end_line.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/json_put.h"
#include "base/json_read.h"

void end_line_write(struct text *t, const struct frame_end *e)
{
	json_open(t, NULL, '{');
	json_put_int(t, "id", (int64_t)e->id.job);
	json_put_int(t, "attempt", e->id.attempt);
	json_put_string(t, "outcome", attempt_outcome_name(e->outcome));
	json_put_int(t, "exit_code", e->exit_code);
	json_put_int(t, "signal", e->signal);
	json_put_int(t, "time_ms", e->time_ms);
	json_put_int(t, "duration_ms", e->duration_ms);
	json_put_int(t, "peak_mem_mb", e->peak_mem_mb);
	if (e->energy_j > 0)
		json_put_int(t, "energy_j", e->energy_j);
	if (*e->reason)
		json_put_string(t, "reason", e->reason);
	json_close(t, '}');
}

static enum attempt_outcome outcome_of(const struct json_value *v)
{
	for (unsigned o = OUTCOME_COMPLETED; o <= OUTCOME_INTERRUPTED; o++)
		if (json_is(v, attempt_outcome_name((enum attempt_outcome)o)))
			return (enum attempt_outcome)o;
	return (enum attempt_outcome)0;
}

enum end_member { ID, ATTEMPT, EXIT_CODE, SIGNAL, TIME, DURATION, PEAK, MEMBERS };
static const char *const member_names[MEMBERS] = {
	"id", "attempt", "exit_code", "signal", "time_ms", "duration_ms", "peak_mem_mb"};

static int take_member(struct frame_end *e, int64_t numbers[MEMBERS], unsigned *seen, const struct json_value *key,
	const struct json_value *v)
{
	for (unsigned m = 0; m < MEMBERS; m++)
		if (json_is(key, member_names[m])) {
			*seen |= 1u << m;
			return json_to_int64(v, &numbers[m]);
		}
	if (json_is(key, "energy_j"))
		return json_to_int64(v, &e->energy_j);
	if (json_is(key, "outcome")) {
		e->outcome = v->type == JSON_STRING ? outcome_of(v) : (enum attempt_outcome)0;
		return e->outcome ? 0 : -EBADMSG;
	}
	if (json_is(key, "reason")) {
		char words[sizeof(e->reason) * 6];
		if (v->type != JSON_STRING || v->size >= sizeof(words))
			return -EBADMSG;
		size_t n = json_unescape(v, words);
		n = n < sizeof(e->reason) ? n : sizeof(e->reason) - 1;
		memcpy(e->reason, words, n);
	}
	return 0;
}

int end_line_parse(const char *line, size_t size, struct frame_end *ret)
{
	struct frame_end e = {0};
	int64_t n[MEMBERS] = {0};
	unsigned seen = 0;
	struct json_cursor c;
	struct json_value key, value;
	int r = json_begin(&c, line, size);
	while (r == 0 && (r = json_next_member(&c, &key, &value)) == 1)
		r = take_member(&e, n, &seen, &key, &value);
	if (r < 0 || json_end(&c) < 0)
		return -EBADMSG;
	if (seen != (1u << MEMBERS) - 1 || !e.outcome || n[ID] < 1 || n[ATTEMPT] < 1 || n[ATTEMPT] > UINT32_MAX ||
		n[EXIT_CODE] < -1 || n[EXIT_CODE] > INT_MAX || n[SIGNAL] < 0 || n[SIGNAL] > INT_MAX)
		return -EBADMSG;
	e.id = (struct attempt_id){(uint64_t)n[ID], (uint32_t)n[ATTEMPT]};
	e.exit_code = (int)n[EXIT_CODE];
	e.signal = (int)n[SIGNAL];
	e.time_ms = n[TIME];
	e.duration_ms = n[DURATION];
	e.peak_mem_mb = n[PEAK];
	*ret = e;
	return 0;
}
