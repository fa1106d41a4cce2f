/* SPDX-License-Identifier: MIT */
/* The coordinator's side of the journal: what it writes, and what it does not write after other processes have taken
 * over. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "queue/journal/record.h"
#include "slurm/coordinator_journal.h"
#include "support/scratch.h"

static char path[SCRATCH_PATH_SIZE + 32];
static struct journal *journal;
static struct gd_error err;
static int changes, reloads;

static void count_change(void *context, struct job *job, int old_state)
{
	(void)context, (void)job, (void)old_state;
	changes++;
}

static void count_reload(void *context)
{
	(void)context;
	reloads++;
}

static int set_up(void **state)
{
	int r = scratch_enter(state);
	snprintf(path, sizeof(path), "%s/jobs.jsonl", scratch_path());
	changes = reloads = 0;
	return r == 0 ? journal_open(path, false, &journal, &err) : r;
}

static int tear_down(void **state)
{
	journal_close(journal);
	return scratch_leave(state);
}

/* Locks belong to processes: runs `act` in another process. */
static void elsewhere(int (*act)(struct journal *j))
{
	int status = 0;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct journal *mine;
		_exit(journal_open(path, false, &mine, NULL) < 0 || act(mine) < 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int append(struct journal *j, struct text *t, bool raise)
{
	int r = journal_lock(j, NULL);
	if (r == 0 && raise)
		r = journal_raise_fence(j, NULL);
	if (r == 0)
		r = journal_append(j, t->data, t->length, NULL, NULL);
	journal_unlock(j);
	text_finish(t);
	return r;
}

static int add_jobs(struct journal *j)
{
	struct text t = {0};
	struct job_spec spec = {.command = "a",
		.command_size = 1,
		.on_finish = "hook",
		.num_gpus = -1,
		.mem_mb = -1,
		.min_free_mem_mb = -1,
		.timeout_ms = -1,
		.retries = -1};
	if (journal_lock(j, NULL) < 0)
		return -1;
	uint64_t id = journal_take_ids(j, 2);
	record_write_add(&t, id, 5000, &spec);
	record_write_add(&t, id + 1, 5000, &spec);
	int r = journal_append(j, t.data, t.length, NULL, NULL);
	journal_unlock(j);
	text_finish(&t);
	return r;
}

static int control(struct journal *j, enum event event)
{
	struct text t = {0};
	record_write_control(&t, event, 1, NULL);
	return append(j, &t, true);
}

static int cancel_job(struct journal *j)
{
	return control(j, EVENT_CANCEL);
}

static int hold_job(struct journal *j)
{
	return control(j, EVENT_HOLD);
}

static int pause_queue(struct journal *j)
{
	struct text t = {0};
	record_write_pause(&t, 0, true);
	return append(j, &t, true);
}

static int write_epoch(struct journal *j, uint64_t epoch, const char *host)
{
	struct text t = {0};
	struct machine m = {0};
	snprintf(m.host, sizeof(m.host), "%s", host);
	record_write_coordinator(&t, epoch, &m, 5, 0);
	return append(j, &t, true);
}

static int replace_coordinator(struct journal *j)
{
	return write_epoch(j, 2, "other");
}

static struct coordinator_journal *begin(void)
{
	struct coordinator_journal *c = NULL;
	pid_t holder;
	struct coordinator_journal_options options = {
		.journal = journal, .lease_ms = 900000, .on_change = count_change, .on_reload = count_reload};
	assert_int_equal(coordinator_journal_open(&options, &c, &holder, &err), 0);
	return c;
}

static const struct start_details details = {.gpus = (int[]){3}, .num_gpus = 1, .log = "/logs/a", .retries = 1};
static const struct coordinator_write pilot = {.kind = WRITE_PILOT,
	.pilot = "p1",
	.node = "node7",
	.slurm_job = 12,
	.started_ms = 4000,
	.lease_ms = 900000,
	.remaining_ms = -1};
static const struct coordinator_write gone = {.kind = WRITE_PILOT_GONE, .pilot = "p1"};

static void take_result(void *context, uint64_t number, int result)
{
	int *results = context;
	results[number] = result;
}

static int put_with(struct coordinator_journal *c, const struct coordinator_write *w, const struct start_details *d)
{
	int result = 1;
	assert_int_equal(coordinator_journal_add(c, w, d), 0);
	assert_true(coordinator_journal_append(c, take_result, &result, &err));
	return result;
}

static int start(struct coordinator_journal *c, uint64_t job, uint32_t attempt)
{
	struct coordinator_write w = {.kind = WRITE_START, .id = {job, attempt}, .pilot = "p1"};
	return put_with(c, &w, &details);
}

static int end(struct coordinator_journal *c, uint32_t attempt, enum attempt_outcome outcome)
{
	struct frame_end e = {
		.id = {1, attempt}, .outcome = outcome, .exit_code = 0, .duration_ms = 7, .peak_mem_mb = -1};
	return put_with(c, &(struct coordinator_write){.kind = WRITE_END, .end = &e}, NULL);
}

static int lose(struct coordinator_journal *c, uint32_t attempt, bool hold)
{
	struct frame_end e = {.id = {1, attempt},
		.outcome = OUTCOME_INTERRUPTED,
		.exit_code = -1,
		.duration_ms = -1,
		.peak_mem_mb = -1,
		.reason = REASON_PILOT_LOST};
	return put_with(c, &(struct coordinator_write){.kind = WRITE_LOST, .end = &e, .hold = hold}, NULL);
}

static int put(struct coordinator_journal *c, const struct coordinator_write *w)
{
	return put_with(c, w, NULL);
}

static const struct job *read_job(struct coordinator_journal *c)
{
	assert_int_equal(coordinator_journal_read(c, &err), 0);
	return jobs_find(coordinator_journal_jobs(c), 1);
}

/* ---- Tests ---- */

static void test_state_of_an_attempt_is_read_from_its_lines(void **state)
{
	(void)state;
	elsewhere(add_jobs);
	struct coordinator_journal *c = begin();
	struct coordinator_settings s = {0};
	coordinator_journal_settings(c, &s);
	assert_true(s.epoch == 1 && s.max_lease_ms == 900000 && changes == 0);
	assert_int_equal(put(c, &pilot), 0);
	assert_int_equal(start(c, 1, 1), 0);
	const struct job *job = read_job(c);
	assert_true(job->state == JOB_RUNNING && job->keeper->is_pilot && job->attempts->gpus[0] == 3 && changes == 1);
	assert_string_equal(job->attempts->log, "/logs/a");
	assert_int_equal(put(c, &(struct coordinator_write){.kind = WRITE_VOID, .id = {1, 1}}), 0);
	assert_int_equal(read_job(c)->state, JOB_PENDING);
	/* The number of an attempt is not reused. */
	assert_int_equal(start(c, 1, 1), -ECANCELED);
	assert_int_equal(start(c, 1, 2), 0);
	assert_int_equal(end(c, 2, OUTCOME_INTERRUPTED), 0);
	assert_true(read_job(c)->state == JOB_PENDING && job->hooks_due == 0);
	assert_int_equal(start(c, 1, 3), 0);
	assert_int_equal(end(c, 3, OUTCOME_COMPLETED), 0);
	assert_int_equal(coordinator_journal_sync(c, &err), 0);
	assert_true(read_job(c)->state == JOB_COMPLETED && job->hooks_due == 1 && job->attempts->duration_ms == 7);
	/* A hook without a keeper: the process that runs the queue runs it. */
	assert_null(coordinator_journal_jobs(c)->hooks->keeper);
	coordinator_journal_close(c);
}

/* A pilot reports its end again to each coordinator, until one acknowledges it. */
static void test_an_end_is_written_once(void **state)
{
	(void)state;
	struct stat before, after;
	elsewhere(add_jobs);
	struct coordinator_journal *c = begin();
	assert_int_equal(start(c, 1, 1), 0);
	assert_int_equal(end(c, 1, OUTCOME_COMPLETED), 0);
	coordinator_journal_close(c);
	c = begin();
	assert_int_equal(stat(journal->path, &before), 0);
	assert_int_equal(end(c, 1, OUTCOME_COMPLETED), 0);
	assert_int_equal(stat(journal->path, &after), 0);
	assert_int_equal(after.st_size, before.st_size);
	assert_int_equal(read_job(c)->state, JOB_COMPLETED);
	coordinator_journal_close(c);
}

static void test_job_that_was_lost_too_often_is_held(void **state)
{
	(void)state;
	elsewhere(add_jobs);
	struct coordinator_journal *c = begin();
	for (uint32_t attempt = 1; attempt <= 3; attempt++) {
		assert_int_equal(start(c, 1, attempt), 0);
		assert_int_equal(lose(c, attempt, attempt == 3), 0);
		assert_int_equal(coordinator_journal_losses(read_job(c)), attempt);
	}
	assert_int_equal(read_job(c)->state, JOB_HELD);
	coordinator_journal_close(c);
}

static void test_start_is_refused_after_a_cancel_a_hold_or_a_pause(void **state)
{
	(void)state;
	int (*const acts[])(struct journal *) = {hold_job, cancel_job};
	elsewhere(add_jobs);
	struct coordinator_journal *c = begin();
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
		elsewhere(acts[i]);
		assert_int_equal(start(c, 1, 1), -ECANCELED);
		/* They raise the fence, but do not take over the queue. */
		assert_int_equal(coordinator_journal_check(c, &err), 0);
	}
	assert_null(read_job(c)->attempts);
	assert_int_equal(start(c, 99, 1), -ECANCELED);
	elsewhere(pause_queue);
	assert_int_equal(start(c, 2, 1), -ECANCELED);
	assert_int_equal(put(c, &pilot), 0);
	coordinator_journal_close(c);
}

/* With these numbers: the end of job 1, the start of an unknown job, the start of job 2, the end of a pilot. */
static void add_four(struct coordinator_journal *c)
{
	struct frame_end e = {.id = {1, 1}, .outcome = OUTCOME_COMPLETED, .duration_ms = 7, .peak_mem_mb = -1};
	struct coordinator_write writes[] = {{.number = 0, .kind = WRITE_END, .end = &e},
		{.number = 1, .kind = WRITE_START, .id = {99, 1}, .pilot = "p1"},
		{.number = 2, .kind = WRITE_START, .id = {2, 1}, .pilot = "p1"},
		{.number = 3, .kind = WRITE_PILOT_GONE, .pilot = "p1"}};
	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
		assert_int_equal(coordinator_journal_add(c, &writes[i], &details), 0);
	/* The lines do not point to the memory of the caller. */
	memset(&e, 0, sizeof(e));
	memset(writes, 0, sizeof(writes));
}

static void test_lines_of_a_round_are_judged_one_by_one(void **state)
{
	(void)state;
	int results[4] = {1, 1, 1, 1};
	elsewhere(add_jobs);
	struct coordinator_journal *c = begin();
	assert_false(coordinator_journal_append(c, take_result, results, &err));
	assert_int_equal(start(c, 1, 1), 0);
	add_four(c);
	assert_true(coordinator_journal_append(c, take_result, results, &err));
	assert_true(results[0] == 0 && results[1] == -ECANCELED && results[2] == 0 && results[3] == 0);
	assert_false(coordinator_journal_append(c, take_result, results, &err));
	assert_int_equal(read_job(c)->state, JOB_COMPLETED);
	assert_int_equal(jobs_find(coordinator_journal_jobs(c), 2)->state, JOB_RUNNING);
	coordinator_journal_close(c);
}

/* As on a full disk: a file size limit. */
static void test_lines_that_do_not_fit_are_reported_and_the_others_are_written(void **state)
{
	(void)state;
	int results[4] = {1, 1, 1, 1};
	struct rlimit old, limit;
	struct stat st;
	elsewhere(add_jobs);
	struct coordinator_journal *c = begin();
	assert_int_equal(start(c, 1, 1), 0);
	add_four(c);
	assert_int_equal(stat(journal->path, &st), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_IGN);
	limit = (struct rlimit){(rlim_t)st.st_size + 250, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_true(coordinator_journal_append(c, take_result, results, &err));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_true(results[0] == 0 && results[1] == -ECANCELED && results[2] == -EFBIG && results[3] == -EFBIG);
	assert_int_equal(read_job(c)->state, JOB_COMPLETED);
	assert_int_equal(jobs_find(coordinator_journal_jobs(c), 2)->state, JOB_PENDING);
	assert_int_equal(start(c, 2, 1), 0);
	coordinator_journal_close(c);
}

static void test_replaced_coordinator_writes_only_ends(void **state)
{
	(void)state;
	elsewhere(add_jobs);
	struct coordinator_journal *c = begin();
	assert_int_equal(put(c, &pilot), 0);
	assert_int_equal(start(c, 1, 1), 0);
	assert_int_equal(coordinator_journal_check(c, &err), 0);
	elsewhere(replace_coordinator);
	assert_int_equal(coordinator_journal_check(c, &err), -ESTALE);
	assert_non_null(strstr(err.message, "'other'"));
	assert_int_equal(start(c, 2, 1), -ESTALE);
	assert_int_equal(put(c, &gone), -ESTALE);
	assert_int_equal(put(c, &(struct coordinator_write){.kind = WRITE_VOID, .id = {1, 1}}), -ESTALE);
	assert_int_equal(lose(c, 1, false), -ESTALE);
	assert_int_equal(read_job(c)->state, JOB_RUNNING);
	assert_int_equal(end(c, 1, OUTCOME_COMPLETED), 0);
	assert_int_equal(read_job(c)->state, JOB_COMPLETED);
	coordinator_journal_close(c);
}

static int try_to_begin(struct journal *j)
{
	struct coordinator_journal *c;
	pid_t holder = 0;
	struct coordinator_journal_options options = {.journal = j};
	return coordinator_journal_open(&options, &c, &holder, NULL) == -EBUSY && holder == getppid() ? 0 : -1;
}

static void test_queue_has_one_coordinator(void **state)
{
	(void)state;
	struct coordinator_journal *c = begin();
	elsewhere(try_to_begin);
	assert_int_equal(coordinator_journal_check(c, &err), 0);
	coordinator_journal_close(c);
}

static void test_next_coordinator_finds_what_may_be_alive(void **state)
{
	(void)state;
	elsewhere(add_jobs);
	struct coordinator_journal *c = begin();
	struct coordinator_write other = pilot;
	other.pilot = "p2";
	assert_int_equal(put(c, &pilot), 0);
	assert_int_equal(put(c, &other), 0);
	assert_int_equal(start(c, 1, 1), 0);
	other.kind = WRITE_PILOT_GONE;
	assert_int_equal(put(c, &other), 0);
	coordinator_journal_close(c);

	c = begin();
	struct coordinator_settings s = {.lease_ms = 1000};
	coordinator_journal_settings(c, &s);
	assert_true(s.epoch == 2 && s.max_lease_ms == 900000);
	struct coordinator_core *core;
	struct pilot_info info;
	assert_int_equal(coordinator_core_create(&s, &core), 0);
	assert_int_equal(coordinator_journal_restore(c, core), 0);
	assert_int_equal(coordinator_core_begin(core, 1), 0);
	assert_true(coordinator_core_pilot(core, 0, &info));
	assert_string_equal(info.name, "p1");
	assert_string_equal(info.node, "node7");
	assert_true(info.slurm_job == 12 && info.num_attempts == 1 && !coordinator_core_pilot(core, 1, &info));
	assert_false(coordinator_core_is_recovered(core));
	coordinator_core_destroy(core);
	coordinator_journal_close(c);
}

static int coordinate_on_another_host(struct journal *j)
{
	struct text t = {0};
	int r = write_epoch(j, 1, "other");
	record_write_pilot(&t, &(struct pilot_record){.name = "p1", .epoch = 1, .node = "node7", .lease_ms = 900000});
	return r < 0 ? r : append(j, &t, false);
}

static void test_pilots_of_another_host_are_taken_over_only_if_asked_for(void **state)
{
	(void)state;
	struct coordinator_journal *c = NULL;
	pid_t holder;
	elsewhere(coordinate_on_another_host);
	struct coordinator_journal_options options = {.journal = journal};
	assert_int_equal(coordinator_journal_open(&options, &c, &holder, &err), -EREMOTE);
	assert_non_null(strstr(err.message, "'other'"));
	options.takeover = true;
	assert_int_equal(coordinator_journal_open(&options, &c, &holder, &err), 0);
	coordinator_journal_close(c);
}

#define journal_test(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		journal_test(test_state_of_an_attempt_is_read_from_its_lines),
		journal_test(test_an_end_is_written_once),
		journal_test(test_job_that_was_lost_too_often_is_held),
		journal_test(test_start_is_refused_after_a_cancel_a_hold_or_a_pause),
		journal_test(test_lines_of_a_round_are_judged_one_by_one),
		journal_test(test_lines_that_do_not_fit_are_reported_and_the_others_are_written),
		journal_test(test_replaced_coordinator_writes_only_ends),
		journal_test(test_queue_has_one_coordinator),
		journal_test(test_next_coordinator_finds_what_may_be_alive),
		journal_test(test_pilots_of_another_host_are_taken_over_only_if_asked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
