/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "slurm/coordinator_core.h"

#define S NS_PER_S

/* A coordinator and its actions. Writes and checks are answered at once, unless `manual`. */
struct lab {
	struct coordinator_core *core;
	uint64_t now, connection, session;
	bool manual;
	uint64_t last_write, last_check;
	struct coordinator_write write;
	struct frame_end write_end;
	unsigned written[WRITE_PILOT_GONE + 1];
	unsigned sent[FRAME_BYE + 1];
	struct frame last_frame;
	unsigned ready, away, gone, not_started, outboxes, lists, recovered, superseded, closed;
	enum death_proof proof;
	int last_result;
	struct {
		bool is_write;
		uint64_t number;
	} queue[64];
	size_t queued;
};

static void look(struct lab *l)
{
	struct coordinator_action a;
	while (coordinator_core_next(l->core, &a)) {
		l->ready += a.kind == COORDINATOR_READY;
		l->away += a.kind == COORDINATOR_AWAY;
		l->gone += a.kind == COORDINATOR_GONE;
		l->not_started += a.kind == COORDINATOR_NOT_STARTED;
		l->outboxes += a.kind == COORDINATOR_READ_OUTBOX;
		l->lists += a.kind == COORDINATOR_LIST;
		l->recovered += a.kind == COORDINATOR_RECOVERED;
		l->superseded += a.kind == COORDINATOR_SUPERSEDED;
		l->closed += a.kind == COORDINATOR_CLOSE;
		if (a.kind == COORDINATOR_NOT_STARTED)
			l->last_result = a.result;
		if (a.kind == COORDINATOR_GONE)
			l->proof = a.proof;
		if (a.kind == COORDINATOR_SEND) {
			l->sent[a.frame->kind]++;
			l->last_frame = *a.frame;
		}
		if (a.kind == COORDINATOR_WRITE) {
			l->written[a.write->kind]++;
			l->write = *a.write;
			if (a.write->end)
				l->write_end = *a.write->end;
			l->last_write = a.write->number;
		}
		if (a.kind == COORDINATOR_CHECK)
			l->last_check = a.number;
		if (a.kind == COORDINATOR_WRITE || a.kind == COORDINATOR_CHECK) {
			l->queue[l->queued].is_write = a.kind == COORDINATOR_WRITE;
			l->queue[l->queued++].number = a.number;
		}
	}
}

static void handle(struct lab *l, const struct coordinator_event *e)
{
	assert_int_equal(coordinator_core_handle(l->core, l->now, e), 0);
	look(l);
	while (!l->manual && l->queued) {
		struct coordinator_event done = {
			.kind = l->queue[0].is_write ? COORDINATOR_WRITTEN : COORDINATOR_CHECKED,
			.number = l->queue[0].number};
		memmove(&l->queue[0], &l->queue[1], --l->queued * sizeof(l->queue[0]));
		assert_int_equal(coordinator_core_handle(l->core, l->now, &done), 0);
		look(l);
	}
}

static void tick(struct lab *l, uint64_t ns)
{
	l->now += ns;
	handle(l, &(struct coordinator_event){.kind = COORDINATOR_TICK});
}

static void answer_write(struct lab *l, int result)
{
	handle(l, &(struct coordinator_event){.kind = COORDINATOR_WRITTEN, .number = l->last_write, .result = result});
}

static void receive(struct lab *l, uint64_t connection, uint64_t session, struct frame f)
{
	f.session = session;
	f.epoch = f.epoch ? f.epoch : 1;
	handle(l, &(struct coordinator_event){.kind = COORDINATOR_FRAME, .connection = connection, .frame = &f});
}

static struct frame hello_frame(const char *pilot)
{
	struct frame f = {.kind = FRAME_HELLO,
		.hello = {.version = FRAME_VERSION, .slurm_job = 77, .started_ms = 1000000, .remaining_ms = -1}};
	snprintf(f.hello.pilot, sizeof(f.hello.pilot), "%s", pilot);
	snprintf(f.hello.node, sizeof(f.hello.node), "n1");
	return f;
}

static void greet(struct lab *l, const char *pilot, uint64_t connection, uint64_t session)
{
	receive(l, connection, session, hello_frame(pilot));
}

static void create(struct lab *l, uint64_t epoch)
{
	struct coordinator_settings s = {.epoch = epoch, .lease_ms = 100000, .silence_ms = 10000};
	*l = (struct lab){.now = 1000 * S};
	assert_int_equal(coordinator_core_create(&s, &l->core), 0);
}

static void begin(struct lab *l)
{
	assert_int_equal(coordinator_core_begin(l->core, l->now), 0);
	look(l);
}

static void open_lab(struct lab *l)
{
	create(l, 1);
	begin(l);
	assert_int_equal(l->recovered, 1);
	greet(l, "p1", 5, 1);
	assert_int_equal(l->sent[FRAME_WELCOME], 1);
	assert_int_equal(l->ready, 1);
}

static void start(struct lab *l, const char *pilot, uint64_t job, uint32_t attempt)
{
	int gpu = 0;
	handle(l, &(struct coordinator_event){.kind = COORDINATOR_START,
			  .start = {.id = {job, attempt},
				  .pilot = pilot,
				  .gpus = &gpu,
				  .num_gpus = 1,
				  .order = "x",
				  .order_size = 1}});
}

static void end_frame(struct lab *l, uint64_t connection, uint64_t session, uint64_t job, uint32_t attempt)
{
	receive(l, connection, session,
		(struct frame){.kind = FRAME_END,
			.end = {.id = {job, attempt}, .outcome = OUTCOME_COMPLETED, .exit_code = 0}});
}

static void begun(struct lab *l, uint64_t job, uint32_t attempt)
{
	receive(l, 5, 1, (struct frame){.kind = FRAME_BEGUN, .begun = {.id = {job, attempt}, .pid = 4}});
}

static void outbox(struct lab *l, int result, const struct frame_end *ends, size_t count)
{
	handle(l,
		&(struct coordinator_event){
			.kind = COORDINATOR_OUTBOX, .pilot = "p1", .result = result, .ends = ends, .num_ends = count});
}

static void disconnect(struct lab *l)
{
	handle(l, &(struct coordinator_event){.kind = COORDINATOR_DISCONNECTED, .connection = 5});
}

static void test_a_pilot_is_recorded_before_it_is_welcomed(void **state)
{
	(void)state;
	struct lab l;
	create(&l, 1);
	begin(&l);
	l.manual = true;
	greet(&l, "p1", 5, 1);
	assert_int_equal(l.written[WRITE_PILOT], 1);
	assert_int_equal(l.write.lease_ms, 100000);
	assert_int_equal(l.sent[FRAME_WELCOME], 0);
	answer_write(&l, 0);
	assert_int_equal(l.sent[FRAME_WELCOME], 0); /* the epoch is checked first */
	handle(&l, &(struct coordinator_event){.kind = COORDINATOR_CHECKED, .number = l.last_check});
	assert_int_equal(l.sent[FRAME_WELCOME], 1);
	coordinator_core_destroy(l.core);
}

static void test_a_grant_leaves_after_its_start_is_synced(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l);
	l.manual = true;
	start(&l, "p1", 1, 1);
	assert_int_equal(l.written[WRITE_START], 1);
	assert_int_equal(l.sent[FRAME_GRANT], 0);
	answer_write(&l, 0);
	assert_int_equal(l.sent[FRAME_GRANT], 1);
	assert_int_equal(l.last_frame.grant.id.job, 1);
	/* Not written: the job was cancelled meanwhile. */
	start(&l, "p1", 2, 1);
	answer_write(&l, -ECANCELED);
	assert_int_equal(l.sent[FRAME_GRANT], 1);
	assert_int_equal(l.not_started, 1);
	/* Perhaps written: it must be void before the job is retried. */
	start(&l, "p1", 3, 1);
	answer_write(&l, -EIO);
	tick(&l, 2 * S);
	assert_int_equal(l.written[WRITE_VOID], 1);
	assert_int_equal(l.sent[FRAME_GRANT], 1);
	coordinator_core_destroy(l.core);
}

static void test_an_end_is_synced_before_it_is_acknowledged(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l);
	start(&l, "p1", 1, 1);
	l.manual = true;
	end_frame(&l, 5, 1, 1, 1);
	assert_int_equal(l.written[WRITE_END], 1);
	assert_int_equal(l.sent[FRAME_END_ACK], 0);
	answer_write(&l, -EIO);
	assert_int_equal(l.sent[FRAME_END_ACK], 0);
	tick(&l, 2 * S);
	assert_int_equal(l.written[WRITE_END], 2);
	answer_write(&l, 0);
	assert_int_equal(l.sent[FRAME_END_ACK], 1);
	end_frame(&l, 5, 1, 1, 1);
	assert_int_equal(l.written[WRITE_END], 2);
	assert_int_equal(l.sent[FRAME_END_ACK], 2);
	coordinator_core_destroy(l.core);
}

static void test_a_silent_pilot_is_dead_when_its_lease_and_the_margin_have_passed(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l);
	start(&l, "p1", 1, 1);
	begun(&l, 1, 1);
	tick(&l, 11 * S);
	assert_int_equal(l.away, 1);
	assert_int_equal(l.closed, 1);
	tick(&l, 93 * S); /* 104 s after the welcome */
	assert_int_equal(l.outboxes, 0);
	start(&l, "p1", 2, 1);
	assert_int_equal(l.last_result, -EHOSTDOWN);
	tick(&l, 2 * S); /* lease 100 s, margin 5 s */
	assert_int_equal(l.outboxes, 1);
	assert_int_equal(l.written[WRITE_LOST], 0);
	outbox(&l, -ENOENT, NULL, 0);
	outbox(&l, -ESTALE, NULL, 0);
	tick(&l, 3 * S);
	assert_int_equal(l.outboxes, 2);
	assert_int_equal(l.written[WRITE_LOST], 0);
	outbox(&l, 0, NULL, 0);
	assert_int_equal(l.written[WRITE_LOST], 1);
	assert_string_equal(l.write_end.reason, REASON_PILOT_LOST);
	assert_int_equal(l.write_end.outcome, OUTCOME_INTERRUPTED);
	assert_int_equal(l.gone, 1);
	assert_int_equal(l.proof, PROOF_LEASE);
	/* If it is still alive, it is told to end. */
	greet(&l, "p1", 9, 2);
	assert_int_equal(l.sent[FRAME_REFUSE], 1);
	coordinator_core_destroy(l.core);
}

static void test_an_end_in_the_outbox_is_not_lost(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l);
	start(&l, "p1", 1, 1);
	begun(&l, 1, 1);
	disconnect(&l);
	tick(&l, 106 * S);
	struct frame_end end = {.id = {1, 1}, .outcome = OUTCOME_FAILED, .exit_code = 3};
	outbox(&l, 0, &end, 1);
	assert_int_equal(l.written[WRITE_LOST], 0);
	assert_int_equal(l.written[WRITE_END], 1);
	assert_int_equal(l.write_end.exit_code, 3);
	coordinator_core_destroy(l.core);
}

static void test_the_third_loss_holds_the_job(void **state)
{
	(void)state;
	struct lab l;
	create(&l, 2);
	coordinator_core_restore_pilot(l.core, &(struct restored_pilot){.name = "p1", .lease_ms = 200000});
	coordinator_core_restore_attempt(l.core, &(struct restored_attempt){.id = {1, 3}, .pilot = "p1", .losses = 2});
	begin(&l);
	tick(&l, 209 * S);
	assert_int_equal(l.outboxes, 0); /* the largest lease that it was ever granted, 200 s, and its margin */
	tick(&l, 2 * S);
	assert_int_equal(l.outboxes, 1);
	l.manual = true;
	outbox(&l, 0, NULL, 0);
	assert_int_equal(l.written[WRITE_LOST], 1);
	assert_true(l.write.hold);
	coordinator_core_destroy(l.core);
}

static void test_nothing_is_granted_before_all_pilots_have_greeted(void **state)
{
	(void)state;
	struct lab l;
	create(&l, 2);
	coordinator_core_restore_pilot(l.core, &(struct restored_pilot){.name = "p1", .lease_ms = 100000});
	begin(&l);
	assert_int_equal(l.recovered, 0);
	struct frame f = hello_frame("p2");
	f.epoch = 2;
	receive(&l, 6, 1, f);
	start(&l, "p2", 1, 1);
	assert_int_equal(l.last_result, -EAGAIN);
	struct slurm_listing empty = {.ok = true};
	handle(&l, &(struct coordinator_event){.kind = COORDINATOR_LISTED, .listing = &empty});
	assert_int_equal(l.recovered, 0); /* an empty answer proves nothing about p1 */
	f = hello_frame("p1");
	f.epoch = 2;
	f.hello.last_epoch = 1;
	receive(&l, 7, 3, f);
	assert_int_equal(l.recovered, 1);
	start(&l, "p2", 1, 2);
	assert_int_equal(l.sent[FRAME_GRANT], 1);
	coordinator_core_destroy(l.core);
}

static void test_slurm_s_listing_may_name_a_pilot_that_has_not_greeted(void **state)
{
	(void)state;
	struct lab l;
	create(&l, 2);
	begin(&l);
	struct listed_job job = {.slurm_job = 5, .state = LISTED_RUNNING};
	struct slurm_listing listing = {.ok = true, .jobs = &job, .num_jobs = 1};
	struct slurm_listing failed = {.ok = false};
	handle(&l, &(struct coordinator_event){.kind = COORDINATOR_LISTED, .listing = &failed});
	handle(&l, &(struct coordinator_event){.kind = COORDINATOR_LISTED, .listing = &listing});
	assert_int_equal(l.recovered, 0);
	job.state = LISTED_OTHER;
	handle(&l, &(struct coordinator_event){.kind = COORDINATOR_LISTED, .listing = &listing});
	assert_int_equal(l.recovered, 0);
	tick(&l, 106 * S);
	assert_int_equal(l.recovered, 1);
	coordinator_core_destroy(l.core);
}

/* A lease shorter than the minute after a restart proves the death: the pilot cannot be about to connect. */
static void test_a_short_lease_fences_in_the_first_minute(void **state)
{
	(void)state;
	struct lab l;
	struct coordinator_settings s = {.epoch = 2, .lease_ms = 20000, .silence_ms = 5000};
	l = (struct lab){.now = 1000 * S};
	assert_int_equal(coordinator_core_create(&s, &l.core), 0);
	coordinator_core_restore_pilot(l.core, &(struct restored_pilot){.name = "p1", .lease_ms = 20000});
	begin(&l);
	tick(&l, 21 * S);
	assert_int_equal(l.outboxes, 0);
	tick(&l, 2 * S);
	assert_int_equal(l.outboxes, 1);
	coordinator_core_destroy(l.core);
}

static void test_a_hello_voids_what_it_does_not_list(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l);
	start(&l, "p1", 1, 1);
	start(&l, "p1", 2, 1);
	disconnect(&l);
	struct known_attempt known = {.id = {2, 1}, .state = KNOWN_RUNNING};
	struct frame f = hello_frame("p1");
	f.hello.attempts = &known;
	f.hello.num_attempts = 1;
	f.hello.last_epoch = 1;
	receive(&l, 6, 2, f);
	assert_int_equal(l.written[WRITE_VOID], 1);
	assert_int_equal(l.write.id.job, 1);
	assert_int_equal(l.sent[FRAME_WELCOME], 2);
	/* Only the new session counts. */
	end_frame(&l, 5, 1, 2, 1);
	assert_int_equal(l.written[WRITE_END], 0);
	end_frame(&l, 6, 2, 2, 1);
	assert_int_equal(l.written[WRITE_END], 1);
	/* An older hello that comes late is closed. */
	receive(&l, 7, 1, hello_frame("p1"));
	assert_int_equal(l.sent[FRAME_WELCOME], 2);
	coordinator_core_destroy(l.core);
}

static void test_a_running_attempt_that_the_journal_does_not_know_is_discarded(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l);
	disconnect(&l);
	struct known_attempt known = {.id = {9, 1}, .state = KNOWN_RUNNING};
	struct frame f = hello_frame("p1");
	f.hello.attempts = &known;
	f.hello.num_attempts = 1;
	receive(&l, 6, 2, f);
	assert_int_equal(l.sent[FRAME_CANCEL], 1);
	assert_int_equal(l.last_frame.cancel.mode, CANCEL_DISCARD);
	coordinator_core_destroy(l.core);
}

static void test_a_heartbeat_is_answered_after_the_epoch_was_checked(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l);
	l.manual = true;
	receive(&l, 5, 1, (struct frame){.kind = FRAME_HEARTBEAT, .heartbeat = {.number = 1, .remaining_ms = -1}});
	uint64_t check = l.last_check;
	/* This one came after the check had begun. */
	receive(&l, 5, 1, (struct frame){.kind = FRAME_HEARTBEAT, .heartbeat = {.number = 2, .remaining_ms = -1}});
	assert_int_equal(l.sent[FRAME_RENEW], 0);
	handle(&l, &(struct coordinator_event){.kind = COORDINATOR_CHECKED, .number = check});
	assert_int_equal(l.sent[FRAME_RENEW], 0);
	assert_int_not_equal(l.last_check, check);
	handle(&l, &(struct coordinator_event){.kind = COORDINATOR_CHECKED, .number = l.last_check});
	assert_int_equal(l.sent[FRAME_RENEW], 1);
	assert_int_equal(l.last_frame.renew.number, 2);
	/* It is unknown whether the queue is ours: nothing is answered, and the next check is not made at once. */
	receive(&l, 5, 1, (struct frame){.kind = FRAME_HEARTBEAT, .heartbeat = {.number = 3, .remaining_ms = -1}});
	check = l.last_check;
	handle(&l, &(struct coordinator_event){.kind = COORDINATOR_CHECKED, .number = check, .result = -EIO});
	assert_int_equal(l.last_check, check);
	assert_true(coordinator_core_wake_ns(l.core) > l.now && coordinator_core_wake_ns(l.core) <= l.now + 2 * S);
	l.now = coordinator_core_wake_ns(l.core);
	tick(&l, 0);
	assert_int_not_equal(l.last_check, check);
	assert_int_equal(l.sent[FRAME_RENEW], 1);
	handle(&l, &(struct coordinator_event){.kind = COORDINATOR_CHECKED, .number = l.last_check, .result = -ESTALE});
	assert_int_equal(l.superseded, 1);
	assert_int_equal(l.sent[FRAME_RENEW], 1);
	tick(&l, 200 * S);
	assert_int_equal(l.outboxes, 0);
	coordinator_core_destroy(l.core);
}

static void test_a_newer_epoch_in_a_hello_supersedes(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l);
	struct frame f = hello_frame("p3");
	f.hello.last_epoch = 2;
	receive(&l, 8, 4, f);
	assert_int_equal(l.superseded, 1);
	coordinator_core_destroy(l.core);
}

static void test_bye_needs_no_proof(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l);
	start(&l, "p1", 1, 1); /* its grant crosses the bye */
	receive(&l, 5, 1, (struct frame){.kind = FRAME_BYE});
	assert_int_equal(l.written[WRITE_VOID], 1);
	assert_int_equal(l.written[WRITE_PILOT_GONE], 1);
	assert_int_equal(l.gone, 1);
	assert_int_equal(l.proof, PROOF_NONE);
	coordinator_core_destroy(l.core);
}

static void test_the_end_of_its_time_proves_a_pilot_dead(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l);
	receive(&l, 5, 1, (struct frame){.kind = FRAME_HEARTBEAT, .heartbeat = {.number = 1, .remaining_ms = 20000}});
	disconnect(&l);
	tick(&l, 24 * S);
	assert_int_equal(l.outboxes, 0);
	tick(&l, 2 * S);
	assert_int_equal(l.outboxes, 1);
	outbox(&l, 0, NULL, 0);
	assert_int_equal(l.proof, PROOF_UNTIL);
	coordinator_core_destroy(l.core);
}

static void test_a_job_that_does_not_fit_into_the_pilot_s_time_is_not_started(void **state)
{
	(void)state;
	struct lab l;
	open_lab(&l);
	receive(&l, 5, 1, (struct frame){.kind = FRAME_HEARTBEAT, .heartbeat = {.number = 1, .remaining_ms = 60000}});
	handle(&l, &(struct coordinator_event){
			   .kind = COORDINATOR_START, .start = {.id = {1, 1}, .pilot = "p1", .needed_ms = 61000}});
	assert_int_equal(l.last_result, -ETIME);
	handle(&l, &(struct coordinator_event){
			   .kind = COORDINATOR_START, .start = {.id = {1, 1}, .pilot = "p1", .needed_ms = 59000}});
	assert_int_equal(l.sent[FRAME_GRANT], 1);
	coordinator_core_destroy(l.core);
}

/* ---- Slurm's listings ------------------------------------------------------------------- */

struct slurm_lab {
	struct listed_job job;
	struct listed_node node;
	struct slurm_listing listing;
};

static void slurm_init(struct slurm_lab *s)
{
	*s = (struct slurm_lab){.job = {.slurm_job = 77, .state = LISTED_RUNNING, .node = "n1"},
		.node = {.name = "n1", .responding = true, .boot_ms = 500, .slurmd_start_ms = 600},
		.listing = {.ok = true, .boot_before_ms = 9, .boot_after_ms = 9, .cgroup = true}};
	s->listing.num_jobs = s->listing.num_nodes = 1;
}

static void list(struct lab *l, struct slurm_lab *s)
{
	s->listing.jobs = &s->job;
	s->listing.nodes = &s->node;
	l->now += 5 * S;
	handle(l, &(struct coordinator_event){.kind = COORDINATOR_LISTED, .listing = &s->listing});
}

/* A pilot that is away after its job was listed as running; then the listing changes to terminal. */
static unsigned proven(void (*change)(struct slurm_lab *s))
{
	struct lab l;
	struct slurm_lab s;
	open_lab(&l);
	slurm_init(&s);
	list(&l, &s);
	disconnect(&l);
	s.job.state = LISTED_TERMINAL;
	if (change)
		change(&s);
	list(&l, &s);
	list(&l, &s);
	unsigned result = l.outboxes;
	coordinator_core_destroy(l.core);
	return result;
}

static void change_state(struct slurm_lab *s)
{
	s->job.state = LISTED_OTHER;
}

static void change_pending(struct slurm_lab *s)
{
	s->job.state = LISTED_PENDING;
}

static void change_completing(struct slurm_lab *s)
{
	s->job.state = LISTED_COMPLETING;
}

static void change_missing(struct slurm_lab *s)
{
	s->listing.num_jobs = 0;
}

static void change_failed(struct slurm_lab *s)
{
	s->listing.ok = false;
}

static void change_node(struct slurm_lab *s)
{
	s->node.responding = false;
}

static void change_ctld(struct slurm_lab *s)
{
	s->listing.boot_before_ms = s->listing.boot_after_ms = 10;
}

static void change_ctld_meanwhile(struct slurm_lab *s)
{
	s->listing.boot_after_ms = 10;
}

static void change_slurmd(struct slurm_lab *s)
{
	s->node.slurmd_start_ms = 700;
}

static void change_proctrack(struct slurm_lab *s)
{
	s->listing.cgroup = false;
}

static void change_restarts(struct slurm_lab *s)
{
	s->job.restarts = 1;
}

static void change_host(struct slurm_lab *s)
{
	snprintf(s->job.node, sizeof(s->job.node), "n2");
}

static void test_slurm_proves_a_death_only_with_all_its_conditions(void **state)
{
	(void)state;
	assert_int_equal(proven(NULL), 1);
	void (*const changes[])(struct slurm_lab *) = {change_state, change_pending, change_completing, change_missing,
		change_failed, change_node, change_ctld, change_ctld_meanwhile, change_slurmd, change_proctrack,
		change_restarts, change_host};
	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++)
		if (proven(changes[i]) != 0)
			fail_msg("change %zu", i);
}

static void test_a_job_that_was_never_seen_alive_proves_nothing(void **state)
{
	(void)state;
	struct lab l;
	struct slurm_lab s;
	open_lab(&l);
	slurm_init(&s);
	disconnect(&l);
	s.job.state = LISTED_TERMINAL;
	list(&l, &s);
	list(&l, &s);
	assert_int_equal(l.outboxes, 0);
	coordinator_core_destroy(l.core);
}

static void test_a_later_boot_of_its_node_proves_a_pilot_dead(void **state)
{
	(void)state;
	struct lab l;
	struct slurm_lab s;
	open_lab(&l);
	slurm_init(&s);
	s.node.responding = false;
	s.job.state = LISTED_OTHER;
	disconnect(&l);
	s.node.boot_ms = 2000000; /* the pilot began at 1000000; but this slurmd is older: the clock was set */
	list(&l, &s);
	assert_int_equal(l.outboxes, 0);
	s.node.slurmd_start_ms = 2000500;
	list(&l, &s);
	assert_int_equal(l.outboxes, 1);
	outbox(&l, 0, NULL, 0);
	assert_int_equal(l.proof, PROOF_BOOT);
	coordinator_core_destroy(l.core);
}

static void test_no_pilot_is_fenced_in_the_first_minute(void **state)
{
	(void)state;
	struct lab l;
	struct slurm_lab s;
	create(&l, 2);
	coordinator_core_restore_pilot(l.core,
		&(struct restored_pilot){
			.name = "p1", .node = "n1", .slurm_job = 77, .started_ms = 1000000, .lease_ms = 100000});
	begin(&l);
	slurm_init(&s);
	s.node.boot_ms = 2000000;
	s.node.slurmd_start_ms = 2000500;
	l.now += 53 * S;
	list(&l, &s);
	assert_int_equal(l.outboxes, 0);
	list(&l, &s);
	assert_int_equal(l.outboxes, 1);
	coordinator_core_destroy(l.core);
}

static void test_states_of_slurm_are_read_strictly(void **state)
{
	(void)state;
	assert_int_equal(listed_state_parse("RUNNING"), LISTED_RUNNING);
	assert_int_equal(listed_state_parse("CANCELLED by 1000"), LISTED_TERMINAL);
	assert_int_equal(listed_state_parse("COMPLETED"), LISTED_TERMINAL);
	assert_int_equal(listed_state_parse("COMPLETING"), LISTED_COMPLETING);
	assert_int_equal(listed_state_parse("NODE_FAIL"), LISTED_OTHER);
	assert_int_equal(listed_state_parse("SUSPENDED"), LISTED_OTHER);
	assert_int_equal(listed_state_parse("FAILED,COMPLETING"), LISTED_OTHER);
	assert_int_equal(listed_state_parse(""), LISTED_OTHER);
}

/* A damaged file does not recover, but the damage may be only in the cache of a file server. */
static void test_intact_lines_of_a_damaged_outbox_are_used_after_a_minute(void **state)
{
	(void)state;
	struct lab l;
	create(&l, 1);
	begin(&l);
	greet(&l, "p1", 5, 1);
	start(&l, "p1", 1, 1);
	begun(&l, 1, 1);
	start(&l, "p1", 2, 1);
	begun(&l, 2, 1);
	tick(&l, 11 * S);
	tick(&l, 95 * S);
	assert_int_equal(l.outboxes, 1);
	struct frame_end end = {.id = {1, 1}, .outcome = OUTCOME_COMPLETED};
	for (int i = 0; i < 29; i++) {
		outbox(&l, -EBADMSG, &end, 1);
		tick(&l, 2 * S);
	}
	assert_true(l.written[WRITE_END] == 0 && l.written[WRITE_LOST] == 0);
	tick(&l, 2 * S);
	outbox(&l, -EBADMSG, &end, 1);
	assert_int_equal(l.written[WRITE_END], 1);
	assert_int_equal(l.written[WRITE_LOST], 1);
	coordinator_core_destroy(l.core);
}

/* For an hour: a file server may be down. */
static void test_outbox_that_cannot_be_read_proves_nothing(void **state)
{
	(void)state;
	struct lab l;
	create(&l, 1);
	begin(&l);
	greet(&l, "p1", 5, 1);
	start(&l, "p1", 1, 1);
	begun(&l, 1, 1);
	tick(&l, 11 * S);
	tick(&l, 95 * S);
	for (int i = 0; i < 1800; i++) {
		outbox(&l, i % 3 == 0 ? -ENOENT : i % 3 == 1 ? -EIO : -EBADMSG, NULL, 0);
		tick(&l, 2 * S);
	}
	assert_true(l.written[WRITE_END] == 0 && l.written[WRITE_LOST] == 0);
	coordinator_core_destroy(l.core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_pilot_is_recorded_before_it_is_welcomed),
		cmocka_unit_test(test_intact_lines_of_a_damaged_outbox_are_used_after_a_minute),
		cmocka_unit_test(test_outbox_that_cannot_be_read_proves_nothing),
		cmocka_unit_test(test_a_grant_leaves_after_its_start_is_synced),
		cmocka_unit_test(test_an_end_is_synced_before_it_is_acknowledged),
		cmocka_unit_test(test_a_silent_pilot_is_dead_when_its_lease_and_the_margin_have_passed),
		cmocka_unit_test(test_an_end_in_the_outbox_is_not_lost),
		cmocka_unit_test(test_the_third_loss_holds_the_job),
		cmocka_unit_test(test_nothing_is_granted_before_all_pilots_have_greeted),
		cmocka_unit_test(test_slurm_s_listing_may_name_a_pilot_that_has_not_greeted),
		cmocka_unit_test(test_a_short_lease_fences_in_the_first_minute),
		cmocka_unit_test(test_no_pilot_is_fenced_in_the_first_minute),
		cmocka_unit_test(test_a_hello_voids_what_it_does_not_list),
		cmocka_unit_test(test_a_running_attempt_that_the_journal_does_not_know_is_discarded),
		cmocka_unit_test(test_a_heartbeat_is_answered_after_the_epoch_was_checked),
		cmocka_unit_test(test_a_newer_epoch_in_a_hello_supersedes),
		cmocka_unit_test(test_bye_needs_no_proof),
		cmocka_unit_test(test_the_end_of_its_time_proves_a_pilot_dead),
		cmocka_unit_test(test_a_job_that_does_not_fit_into_the_pilot_s_time_is_not_started),
		cmocka_unit_test(test_slurm_proves_a_death_only_with_all_its_conditions),
		cmocka_unit_test(test_a_job_that_was_never_seen_alive_proves_nothing),
		cmocka_unit_test(test_a_later_boot_of_its_node_proves_a_pilot_dead),
		cmocka_unit_test(test_states_of_slurm_are_read_strictly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
