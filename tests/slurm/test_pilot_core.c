/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "slurm/pilot_core.h"

#define S NS_PER_S

/* A pilot and its actions since the last check. */
struct lab {
	struct pilot_core *core;
	uint64_t now;
	uint64_t connection, session, armed_ns;
	unsigned begun, recorded, ended_all, connects, left, stops;
	unsigned sent[FRAME_BYE + 1];
	struct attempt_id last_begun;
	struct frame_end last_end, last_record;
	struct frame_reject last_reject;
	uint64_t last_heartbeat;
	size_t hello_attempts;
	enum known_state hello_state;
};

static void sent(struct lab *l, const struct frame *f)
{
	l->sent[f->kind]++;
	if (f->kind == FRAME_HELLO) {
		l->session = f->session;
		l->hello_attempts = f->hello.num_attempts;
		if (f->hello.num_attempts)
			l->hello_state = f->hello.attempts[0].state;
	}
	if (f->kind == FRAME_END)
		l->last_end = f->end;
	if (f->kind == FRAME_REJECT)
		l->last_reject = f->reject;
	if (f->kind == FRAME_HEARTBEAT)
		l->last_heartbeat = f->heartbeat.number;
}

static void look(struct lab *l)
{
	struct pilot_action a;
	while (pilot_core_next(l->core, &a)) {
		l->connection = a.connection;
		l->begun += a.kind == PILOT_BEGIN;
		l->recorded += a.kind == PILOT_RECORD;
		l->ended_all += a.kind == PILOT_END_ALL;
		l->connects += a.kind == PILOT_CONNECT;
		l->left += a.kind == PILOT_LEAVE;
		l->stops += a.kind == PILOT_STOP;
		if (a.kind == PILOT_BEGIN)
			l->last_begun = a.grant->id;
		if (a.kind == PILOT_RECORD)
			l->last_record = *a.end;
		if (a.kind == PILOT_ARM)
			l->armed_ns = a.deadline_ns;
		if (a.kind == PILOT_SEND)
			sent(l, a.frame);
	}
}

static void handle(struct lab *l, const struct pilot_event *e)
{
	assert_int_equal(pilot_core_handle(l->core, l->now, e), 0);
	look(l);
}

static void tick(struct lab *l, uint64_t ns)
{
	l->now += ns;
	handle(l, &(struct pilot_event){.kind = PILOT_TICK});
}

static void receive_in(struct lab *l, uint64_t session, struct frame f)
{
	f.session = session;
	f.epoch = f.epoch ? f.epoch : 1;
	handle(l, &(struct pilot_event){.kind = PILOT_FRAME, .connection = l->connection, .frame = &f});
}

static void receive(struct lab *l, struct frame f)
{
	receive_in(l, l->session, f);
}

static void welcome(struct lab *l)
{
	receive(l, (struct frame){.kind = FRAME_WELCOME,
			   .welcome = {.lease_ms = 60000, .silence_ms = 10000, .heartbeat_ms = 2000}});
}

static void connect_now(struct lab *l)
{
	handle(l, &(struct pilot_event){.kind = PILOT_CONNECTED, .connection = l->connection});
}

static void open_lab(struct lab *l, uint64_t until_ns)
{
	struct pilot_settings s = {.pilot = "p1", .node = "n1", .until_ns = until_ns};
	*l = (struct lab){.now = 100 * S};
	assert_int_equal(pilot_core_create(&s, l->now, &l->core), 0);
	tick(l, 0);
	assert_int_equal(l->connects, 1);
	connect_now(l);
	assert_int_equal(l->sent[FRAME_HELLO], 1);
}

static void grant(struct lab *l, uint64_t job, uint32_t attempt)
{
	static const int gpu = 0;
	receive(l,
		(struct frame){.kind = FRAME_GRANT,
			.grant = {.id = {job, attempt}, .gpus = &gpu, .num_gpus = 1, .order = "x", .order_size = 1}});
}

static void start(struct lab *l, uint64_t job, uint32_t attempt)
{
	grant(l, job, attempt);
	handle(l, &(struct pilot_event){.kind = PILOT_STARTED, .id = {job, attempt}});
}

static void exits(struct lab *l, uint64_t job, uint32_t attempt, int signal, bool ours)
{
	handle(l, &(struct pilot_event){.kind = PILOT_EXITED,
			  .exited = {.id = {job, attempt},
				  .exit_code = signal ? -1 : 0,
				  .signal = signal,
				  .ours = ours,
				  .outcome = ours     ? OUTCOME_INTERRUPTED
					     : signal ? OUTCOME_FAILED
						      : OUTCOME_COMPLETED,
				  .exited_ns = l->now}});
}

static void reconnect(struct lab *l)
{
	handle(l, &(struct pilot_event){.kind = PILOT_DISCONNECTED, .connection = l->connection});
	tick(l, 2 * S);
	connect_now(l);
}

static void test_nothing_begins_without_a_welcome(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	grant(&l, 1, 1);
	assert_int_equal(l.begun, 0);
	welcome(&l);
	grant(&l, 1, 1);
	assert_int_equal(l.begun, 1);
	pilot_core_destroy(l.core);
}

static void test_no_attempt_begins_twice(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	welcome(&l);
	start(&l, 7, 2);
	grant(&l, 7, 2);
	grant(&l, 7, 1);
	assert_int_equal(l.begun, 1);
	assert_int_equal(l.last_reject.rejection, REJECTION_REPEATED);
	exits(&l, 7, 2, 0, false);
	tick(&l, S);
	receive(&l, (struct frame){.kind = FRAME_END_ACK, .end_ack = {7, 2}});
	grant(&l, 7, 2);
	assert_int_equal(l.begun, 1);
	grant(&l, 7, 3);
	assert_int_equal(l.begun, 2);
	pilot_core_destroy(l.core);
}

static void test_a_grant_of_an_older_session_is_ignored(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	welcome(&l);
	reconnect(&l);
	welcome(&l);
	struct frame f = {.kind = FRAME_GRANT, .grant = {.id = {1, 1}}};
	receive_in(&l, l.session - 1, f);
	assert_int_equal(l.begun, 0);
	pilot_core_destroy(l.core);
}

static void test_frames_of_an_older_epoch_are_ignored(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	receive(&l, (struct frame){.kind = FRAME_WELCOME,
			    .epoch = 5,
			    .welcome = {.lease_ms = 60000, .silence_ms = 10000, .heartbeat_ms = 2000}});
	grant(&l, 1, 1); /* epoch 1 */
	assert_int_equal(l.begun, 0);
	reconnect(&l);
	welcome(&l); /* of a coordinator that was replaced */
	grant(&l, 1, 1);
	assert_int_equal(l.begun, 0);
	tick(&l, 2 * S);
	assert_int_equal(l.connects, 3);
	pilot_core_destroy(l.core);
}

static void test_the_lease_counts_from_when_the_heartbeat_was_sent(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	uint64_t hello_ns = l.now;
	l.now += 5 * S;
	welcome(&l);
	assert_int_equal(l.armed_ns, hello_ns + 60 * S);
	tick(&l, 3 * S);
	uint64_t first_ns = l.now;
	assert_int_equal(l.last_heartbeat, 1);
	l.now += 9 * S;
	receive(&l, (struct frame){.kind = FRAME_RENEW, .renew = {.number = 1, .lease_ms = 60000}});
	assert_int_equal(l.armed_ns, first_ns + 60 * S);
	/* An answer to an unsent heartbeat renews nothing. */
	receive(&l, (struct frame){.kind = FRAME_RENEW, .renew = {.number = 99, .lease_ms = 60000}});
	assert_int_equal(l.armed_ns, first_ns + 60 * S);
	pilot_core_destroy(l.core);
}

static void test_the_pilot_leaves_when_its_lease_has_ended(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	welcome(&l);
	start(&l, 1, 1);
	l.now += 61 * S;
	grant(&l, 2, 1);
	assert_int_equal(l.begun, 1);
	assert_int_equal(l.left, 1);
	pilot_core_destroy(l.core);
}

static void test_an_end_is_sent_again_until_it_is_acknowledged(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	welcome(&l);
	start(&l, 1, 1);
	exits(&l, 1, 1, 0, false);
	assert_int_equal(l.sent[FRAME_FREED], 1);
	assert_int_equal(l.recorded, 0);
	tick(&l, 200 * NS_PER_MS);
	assert_int_equal(l.recorded, 1);
	assert_int_equal(l.sent[FRAME_END], 1);
	assert_int_equal(l.last_end.outcome, OUTCOME_COMPLETED);
	reconnect(&l);
	assert_int_equal(l.hello_attempts, 1);
	assert_int_equal(l.hello_state, KNOWN_ENDED);
	welcome(&l);
	assert_int_equal(l.sent[FRAME_END], 2);
	receive(&l, (struct frame){.kind = FRAME_END_ACK, .end_ack = {1, 1}});
	reconnect(&l);
	assert_int_equal(l.hello_attempts, 0);
	assert_int_equal(l.recorded, 1);
	pilot_core_destroy(l.core);
}

static void test_an_exit_just_before_sigterm_is_interrupted(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	welcome(&l);
	start(&l, 1, 1);
	start(&l, 2, 1);
	start(&l, 3, 1);
	exits(&l, 1, 1, 0, false);
	exits(&l, 2, 1, 9, false);
	tick(&l, 176 * NS_PER_MS); /* the first one is certain now, the second one not for 2 s */
	assert_int_equal(l.recorded, 1);
	assert_int_equal(l.last_record.outcome, OUTCOME_COMPLETED);
	exits(&l, 3, 1, 0, false);
	l.now += 100 * NS_PER_MS;
	handle(&l, &(struct pilot_event){.kind = PILOT_TERM});
	assert_int_equal(l.ended_all, 1);
	assert_int_equal(l.sent[FRAME_ENDING], 1);
	assert_int_equal(l.recorded, 3);
	assert_int_equal(l.last_record.outcome, OUTCOME_INTERRUPTED);
	assert_int_equal(l.last_end.outcome, OUTCOME_INTERRUPTED);
	grant(&l, 4, 1);
	assert_int_equal(l.begun, 3);
	assert_int_equal(l.last_reject.rejection, REJECTION_ENDING);
	pilot_core_destroy(l.core);
}

/* One sync of the outbox and one append of the coordinator serve all ends that are certain. */
static void test_ends_are_released_together(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	welcome(&l);
	for (uint64_t job = 1; job <= 3; job++)
		start(&l, job, 1);
	for (uint64_t job = 1; job <= 3; job++) {
		exits(&l, job, 1, 0, false);
		l.now += 10 * NS_PER_MS;
	}
	assert_int_equal(l.sent[FRAME_FREED], 3);
	tick(&l, 144 * NS_PER_MS); /* 174 ms after the first exit */
	assert_int_equal(l.recorded, 0);
	tick(&l, NS_PER_MS);
	assert_int_equal(l.recorded, 3);
	assert_int_equal(l.sent[FRAME_END], 3);
	pilot_core_destroy(l.core);
}

/* An end that waits only for others does not become interrupted. */
static void test_a_certain_end_stays_completed_when_sigterm_comes_before_its_release(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	welcome(&l);
	start(&l, 1, 1);
	exits(&l, 1, 1, 0, false);
	tick(&l, 151 * NS_PER_MS);
	assert_int_equal(l.recorded, 0);
	handle(&l, &(struct pilot_event){.kind = PILOT_TERM});
	assert_int_equal(l.recorded, 1);
	assert_int_equal(l.last_record.outcome, OUTCOME_COMPLETED);
	pilot_core_destroy(l.core);
}

static void test_an_exit_0_after_sigterm_is_interrupted(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	welcome(&l);
	start(&l, 1, 1);
	handle(&l, &(struct pilot_event){.kind = PILOT_TERM});
	l.now += S;
	exits(&l, 1, 1, 0, false);
	assert_int_equal(l.last_record.outcome, OUTCOME_INTERRUPTED);
	assert_int_equal(l.sent[FRAME_BYE], 0);
	receive(&l, (struct frame){.kind = FRAME_END_ACK, .end_ack = {1, 1}});
	assert_int_equal(l.sent[FRAME_BYE], 1);
	assert_int_equal(l.left, 1);
	pilot_core_destroy(l.core);
}

static void test_the_pilot_ends_itself_before_its_time_is_over(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 140 * S);
	welcome(&l);
	assert_int_equal(l.armed_ns, 140 * S);
	start(&l, 1, 1);
	tick(&l, 29 * S);
	assert_int_equal(l.ended_all, 0);
	tick(&l, 2 * S);
	assert_int_equal(l.ended_all, 1);
	exits(&l, 1, 1, 15, true);
	assert_int_equal(l.last_record.outcome, OUTCOME_INTERRUPTED);
	tick(&l, 10 * S);
	assert_int_equal(l.left, 1);
	pilot_core_destroy(l.core);
}

static void test_a_released_pilot_leaves_when_it_is_idle(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	welcome(&l);
	start(&l, 1, 1);
	receive(&l, (struct frame){.kind = FRAME_RELEASE});
	assert_int_equal(l.left, 0);
	exits(&l, 1, 1, 0, false);
	tick(&l, S);
	assert_int_equal(l.left, 0);
	receive(&l, (struct frame){.kind = FRAME_END_ACK, .end_ack = {1, 1}});
	assert_int_equal(l.sent[FRAME_BYE], 1);
	assert_int_equal(l.left, 1);
	grant(&l, 2, 1);
	assert_int_equal(l.begun, 1);
	pilot_core_destroy(l.core);
}

static void test_silence_begins_a_new_session(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	welcome(&l);
	start(&l, 1, 1);
	tick(&l, 11 * S);
	tick(&l, 2 * S);
	assert_int_equal(l.connects, 2);
	connect_now(&l);
	assert_int_equal(l.session, 2);
	assert_int_equal(l.hello_attempts, 1);
	assert_int_equal(l.hello_state, KNOWN_RUNNING);
	assert_int_equal(pilot_core_num_running(l.core), 1);
	pilot_core_destroy(l.core);
}

static void test_a_refused_pilot_leaves_at_once(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	receive(&l, (struct frame){.kind = FRAME_REFUSE, .refuse = {.refusal = REFUSAL_DEAD}});
	assert_int_equal(l.left, 1);
	pilot_core_destroy(l.core);
}

static void test_a_cancel_before_its_grant_prevents_the_begin(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l, 0);
	welcome(&l);
	receive(&l, (struct frame){.kind = FRAME_CANCEL, .cancel = {.id = {1, 1}, .mode = CANCEL_ASK}});
	assert_int_equal(l.last_reject.rejection, REJECTION_CANCELLED);
	grant(&l, 1, 1);
	assert_int_equal(l.begun, 0);
	start(&l, 2, 1);
	receive(&l, (struct frame){.kind = FRAME_CANCEL, .cancel = {.id = {2, 1}, .mode = CANCEL_ASK}});
	assert_int_equal(l.stops, 1);
	pilot_core_destroy(l.core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_begins_without_a_welcome),
		cmocka_unit_test(test_no_attempt_begins_twice),
		cmocka_unit_test(test_a_grant_of_an_older_session_is_ignored),
		cmocka_unit_test(test_frames_of_an_older_epoch_are_ignored),
		cmocka_unit_test(test_the_lease_counts_from_when_the_heartbeat_was_sent),
		cmocka_unit_test(test_the_pilot_leaves_when_its_lease_has_ended),
		cmocka_unit_test(test_an_end_is_sent_again_until_it_is_acknowledged),
		cmocka_unit_test(test_an_exit_just_before_sigterm_is_interrupted),
		cmocka_unit_test(test_ends_are_released_together),
		cmocka_unit_test(test_a_certain_end_stays_completed_when_sigterm_comes_before_its_release),
		cmocka_unit_test(test_an_exit_0_after_sigterm_is_interrupted),
		cmocka_unit_test(test_the_pilot_ends_itself_before_its_time_is_over),
		cmocka_unit_test(test_a_released_pilot_leaves_when_it_is_idle),
		cmocka_unit_test(test_silence_begins_a_new_session),
		cmocka_unit_test(test_a_refused_pilot_leaves_at_once),
		cmocka_unit_test(test_a_cancel_before_its_grant_prevents_the_begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
