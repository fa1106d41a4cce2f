/* SPDX-License-Identifier: MIT */
/* The model follows the queue: jobs, GPUs, allowed actions, and which logs are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/queue_view_parts.h"
#include "queue/journal/journal.h"
#include "queue/journal/journal_home.h"
#include "queue/journal/queue_registry.h"
#include "support/check.h"
#include "support/scratch.h"

struct queue {
	struct queue_choice choice;
	struct queue_view *view;
	struct view_model *model;
	const struct view_actions *actions;
};

static void append(const struct queue *q, const char *lines)
{
	struct journal *j;
	assert_int_equal(journal_open(q->choice.journal_path, true, &j, NULL), 0);
	assert_int_equal(journal_home_set(j), 0);
	assert_int_equal(journal_append_line(j, lines, strlen(lines), NULL), 0);
	journal_close(j);
}

#define ADD(id, command)                                                                                               \
	"{\"event\":\"add\",\"id\":" #id ",\"time\":\"2026-01-01T00:00:00.000Z\",\"command\":\"" command               \
	"\",\"cwd\":\"/\"}\n"
#define START(id, gpu, log)                                                                                            \
	"{\"event\":\"start\",\"id\":" #id ",\"attempt\":1,\"time\":\"2026-01-01T00:00:01.000Z\",\"gpus\":[" #gpu      \
	"],\"pid\":1,\"log\":\"" log "\"}\n"
#define END(id, status)                                                                                                \
	"{\"event\":\"end\",\"id\":" #id ",\"attempt\":1,\"time\":\"2026-01-01T00:00:05.000Z\",\"status\":\"" status   \
	"\",\"duration\":4.0,\"exit_code\":0}\n"

static int setup(void **state)
{
	struct queue *q = calloc(1, sizeof(*q));
	assert_non_null(q);
	assert_int_equal(scratch_enter(state), 0);
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	setenv("GPUQ_GPUS", "sim:2x1G", 1);
	setenv("GPUQ_JOBS_FILE", "./jobs.jsonl", 1);
	assert_int_equal(queue_choice_resolve(&q->choice, NULL), 0);
	append(q, ADD(1, "train a") ADD(2, "train \\u001b[31m b") START(1, 1, "x"));
	assert_int_equal(queue_view_open(&q->choice, &(struct queue_view_options){0}, &q->view, NULL), 0);
	q->model = queue_view_model(q->view);
	q->actions = queue_view_actions(q->view);
	*state = q;
	return 0;
}

static int teardown(void **state)
{
	struct queue *q = *state;
	queue_view_close(q->view);
	queue_choice_finish(&q->choice);
	free(q);
	return scratch_leave(state);
}

/* Updates until the model has the expected state; otherwise the test's time limit ends it. */
static void update(struct queue *q)
{
	struct pollfd p = {queue_view_fd(q->view), POLLIN, 0};
	assert_true(poll(&p, 1, 60000) > 0);
	assert_int_equal(queue_view_update(q->view, NULL), 0);
}

/* The same, for a queue that may be gone. */
static int try_update(struct queue *q, struct gd_error *err)
{
	struct pollfd p = {queue_view_fd(q->view), POLLIN, 0};
	assert_true(poll(&p, 1, 60000) > 0);
	return queue_view_update(q->view, err);
}

static void test_model_has_all_jobs_of_the_journal(void **state)
{
	struct queue *q = *state;
	const struct view_job *job = view_find_job(q->model, 1);
	assert_int_equal(view_num_jobs(q->model), 2);
	assert_int_equal(job->state, VIEW_JOB_RUNNING);
	assert_int_equal(view_job_last(job)->gpus[0], 1);
	assert_int_equal(view_job_last(job)->end_ms, -1);
	assert_string_equal(view_find_job(q->model, 2)->command, "train \\x1b[31m b");
	assert_int_equal(view_job_count(q->model, VIEW_JOB_PENDING), 1);
	assert_int_equal(view_work(q->model)->running, 1);
}

/* Jobs that had ended before the view opened do not count for the speed of the queue. */
static void test_jobs_that_ended_before_the_view_opened_do_not_count_for_the_rate(void **state)
{
	struct queue *q = *state;
	queue_view_close(q->view);
	append(q, END(1, "completed"));
	assert_int_equal(queue_view_open(&q->choice, &(struct queue_view_options){0}, &q->view, NULL), 0);
	q->model = queue_view_model(q->view);
	assert_int_equal(view_job_count(q->model, VIEW_JOB_COMPLETED), 1);
	uint64_t soon_ns = view_work(q->model)->time_ns + 1000000;
	assert_true(view_rate(q->model, soon_ns) == 0);
	assert_int_equal(view_eta_ns(q->model, soon_ns), -1);
}

static void test_end_of_a_job_changes_that_job_alone(void **state)
{
	struct queue *q = *state;
	uint64_t version = view_version(q->model);
	append(q, END(1, "completed"));
	while (view_find_job(q->model, 1)->state == VIEW_JOB_RUNNING)
		update(q);
	for (size_t i = 0; i < view_num_jobs(q->model); i++)
		assert_int_equal(view_job(q->model, i)->version > version, view_job(q->model, i)->id == 1);
	assert_int_equal(view_work(q->model)->done, 1);
}

static void test_gpus_show_what_runs_on_them_and_what_ended(void **state)
{
	struct queue *q = *state;
	struct view_sample samples[4];
	while (view_num_gpus(q->model) < 2)
		update(q);
	assert_int_equal(view_gpu(q->model, 0)->status, VIEW_GPU_IDLE);
	assert_int_equal(view_gpu(q->model, 1)->status, VIEW_GPU_PROCESSING);
	assert_string_equal(view_gpu(q->model, 1)->task, "train a");
	assert_int_equal(view_gpu(q->model, 1)->memory_total_bytes, 1 << 30);
	assert_true(view_history(q->model, 1, samples, 4) >= 1);
	append(q, END(1, "failed"));
	while (view_gpu(q->model, 1)->status != VIEW_GPU_IDLE)
		update(q);
	assert_int_equal(view_gpu(q->model, 1)->failed, 1);
	assert_int_equal(view_gpu(q->model, 1)->last_duration_ns, INT64_C(4000000000));
}

static void test_a_pruned_journal_is_read_anew(void **state)
{
	struct queue *q = *state;
	struct queue other = *q;
	other.choice.journal_path = (char[]){"new"};
	append(&other, ADD(2, "later"));
	assert_int_equal(rename("new", q->choice.journal_path), 0);
	while (view_num_jobs(q->model) != 1)
		update(q);
	assert_null(view_find_job(q->model, 1));
	assert_string_equal(view_find_job(q->model, 2)->command, "later");
	assert_int_equal(view_work(q->model)->running, 0);
}

static void test_action_is_appended_to_the_queue_or_refused_with_a_reason(void **state)
{
	struct queue *q = *state;
	struct gd_error err = {0};
	size_t done = 0;
	uint64_t ids[] = {2};
	assert_int_equal(q->actions->act(q->actions->context, VIEW_HOLD, ids, 1, &done, &err), 0);
	assert_int_equal(done, 1);
	while (view_find_job(q->model, 2)->state != VIEW_JOB_HELD)
		update(q);
	assert_true(view_action_applies(VIEW_RELEASE, view_find_job(q->model, 2)));
	/* Impossible actions are reported with the reason. */
	assert_true(q->actions->act(q->actions->context, VIEW_RETRY, ids, 1, &done, &err) < 0);
	check_contains(err.message, "2");
}

static void test_why_works_without_a_runner(void **state)
{
	struct queue *q = *state;
	struct text t = {0};
	assert_int_equal(q->actions->why(q->actions->context, 2, &t, NULL), 0);
	check_contains(text_string(&t), "no runner is active");
	text_finish(&t);
	assert_int_equal(q->actions->why(q->actions->context, 77, &t, NULL), -ENOENT);
}

/* ---- Logs -------------------------------------------------------------------------------- */

/* Adds a job with this log path; returns the result of opening it. */
static int open_log(struct queue *q, const char *path)
{
	static int id = 10;
	char lines[1024];
	int fd = -1;
	id++;
	snprintf(lines, sizeof(lines),
		"{\"event\":\"add\",\"id\":%d,\"command\":\"x\"}\n"
		"{\"event\":\"start\",\"id\":%d,\"attempt\":1,\"gpus\":[],\"log\":\"%s\"}\n",
		id, id, path);
	append(q, lines);
	while (!view_find_job(q->model, (uint64_t)id) || view_find_job(q->model, (uint64_t)id)->num_attempts == 0)
		update(q);
	int r = q->actions->open_log(q->actions->context, (uint64_t)id, 0, &fd, NULL);
	if (r == 0)
		close(fd);
	return r;
}

static void test_only_logs_are_shown(void **state)
{
	struct queue *q = *state;
	char path[200];
	mkdir("logs", 0700);
	mkdir("elsewhere", 0700);
	scratch_write_text("logs/any.log", "secret");
	scratch_write_text("elsewhere/id_rsa", "secret");
	snprintf(path, sizeof(path), "%s/logs/any.log", scratch_path());
	assert_int_equal(open_log(q, path), 0);
	snprintf(path, sizeof(path), "%s/elsewhere/id_rsa", scratch_path());
	assert_int_equal(open_log(q, path), -EPERM);
	snprintf(path, sizeof(path), "%s/logs/../elsewhere/id_rsa", scratch_path());
	assert_int_equal(open_log(q, path), -EPERM);
	assert_int_equal(open_log(q, "/dev/null"), -EPERM);
	assert_int_equal(open_log(q, "relative.log"), -EPERM);
	/* A link is not followed, and a pipe is not waited for. */
	assert_int_equal(symlink("../elsewhere/id_rsa", "logs/link.log"), 0);
	snprintf(path, sizeof(path), "%s/logs/link.log", scratch_path());
	assert_int_equal(open_log(q, path), -EPERM);
	assert_int_equal(mkfifo("logs/pipe.log", 0600), 0);
	snprintf(path, sizeof(path), "%s/logs/pipe.log", scratch_path());
	assert_int_equal(open_log(q, path), -EPERM);
	snprintf(path, sizeof(path), "%s/logs/none.log", scratch_path());
	assert_int_equal(open_log(q, path), -ENOENT);
}

static void test_a_log_elsewhere_is_shown_by_its_name_where_the_journal_is_ours(void **state)
{
	struct queue *q = *state;
	char path[200];
	mkdir("mine", 0700);
	/* For all ids that open_log() may use. */
	for (int id = 1; id < 60; id++) {
		snprintf(path, sizeof(path), "mine/job_20260101_000000_%d.log", id);
		scratch_write_text(path, "secret");
	}
	int fd = -1, r = -EPERM;
	append(q, ADD(5, "x"));
	snprintf(path, sizeof(path), "%s/mine/job_20260101_000000_5.log", scratch_path());
	char line[400];
	snprintf(line, sizeof(line), "{\"event\":\"start\",\"id\":5,\"attempt\":1,\"gpus\":[],\"log\":\"%s\"}\n", path);
	append(q, line);
	while (!view_find_job(q->model, 5) || view_find_job(q->model, 5)->num_attempts == 0)
		update(q);
	r = q->actions->open_log(q->actions->context, 5, 0, &fd, NULL);
	assert_int_equal(r, 0);
	close(fd);
	/* The log of another job is not this job's. */
	assert_int_equal(open_log(q, path), -EPERM);
	/* Other users could have written the journal: then a log must be in the log folder and have its standard name.
	 */
	assert_int_equal(chmod("jobs.jsonl", 0666), 0);
	assert_int_equal(q->actions->open_log(q->actions->context, 5, 0, &fd, NULL), -EPERM);
	assert_int_equal(rename("mine", "logs"), 0);
	assert_int_equal(symlink("logs", "mine"), 0);
	assert_int_equal(q->actions->open_log(q->actions->context, 5, 0, &fd, NULL), 0);
	close(fd);
	scratch_write_text("logs/any.log", "secret");
	snprintf(path, sizeof(path), "%s/logs/any.log", scratch_path());
	assert_int_equal(open_log(q, path), -EPERM);
}

/* ---- All queues -------------------------------------------------------------------------- */

static void make_queue(const char *directory, const char *lines)
{
	char path[4096];
	struct journal *j;
	assert_int_equal(mkdir(directory, 0700), 0);
	snprintf(path, sizeof(path), "%s/%s/jobs.jsonl", scratch_path(), directory);
	assert_int_equal(journal_open(path, true, &j, NULL), 0);
	assert_int_equal(journal_home_set(j), 0);
	assert_int_equal(journal_append_line(j, lines, strlen(lines), NULL), 0);
	journal_close(j);
	assert_int_equal(queue_registry_add(path), 0);
}

/* Two registered queues, one and two, in addition to ./jobs.jsonl, which is not registered. */
static int setup_all(void **state)
{
	int r = setup(state);
	struct queue *q = *state;
	char states[4096];
	snprintf(states, sizeof(states), "%s/state", scratch_path());
	setenv("XDG_STATE_HOME", states, 1);
	make_queue("one", ADD(1, "first") START(1, 1, "x"));
	make_queue("two", ADD(1, "second") ADD(2, "third"));
	queue_view_close(q->view);
	assert_int_equal(queue_view_open(&q->choice, &(struct queue_view_options){.all = true}, &q->view, NULL), 0);
	q->model = queue_view_model(q->view);
	q->actions = queue_view_actions(q->view);
	return r;
}

static const struct view_job *find_command(const struct queue *q, const char *command)
{
	for (size_t i = 0; i < view_num_jobs(q->model); i++)
		if (strcmp(view_job(q->model, i)->command, command) == 0)
			return view_job(q->model, i);
	return NULL;
}

static const struct view_job *get_command(const struct queue *q, const char *command)
{
	const struct view_job *job = find_command(q, command);
	assert_non_null(job);
	return job;
}

static void test_all_queues_are_in_one_model(void **state)
{
	struct queue *q = *state;
	char name[4096];
	assert_int_equal(view_num_jobs(q->model), 5);
	snprintf(name, sizeof(name), "%s/two", scratch_path());
	assert_string_equal(get_command(q, "second")->queue, name);
	assert_int_equal(view_id_number(get_command(q, "first")->id), 1);
	assert_int_equal(view_id_number(get_command(q, "second")->id), 1);
	while (view_work(q->model)->total != 5 || view_num_gpus(q->model) < 2)
		update(q);
	assert_int_equal(view_work(q->model)->running, 2);
	/* Jobs of both queues run on GPU 1. */
	assert_int_equal(view_gpu(q->model, 1)->num_tasks, 2);
	assert_non_null(view_find_job(q->model, view_gpu(q->model, 1)->task_id));
	struct view_facts facts;
	q->actions->facts(q->actions->context, &facts);
	assert_true(facts.all_queues);
	assert_int_equal(facts.num_queues, 3);
	assert_int_equal(facts.num_unreadable, 0);
}

static void test_actions_reach_the_queue_of_the_job(void **state)
{
	struct queue *q = *state;
	uint64_t ids[] = {get_command(q, "second")->id, get_command(q, "train \\x1b[31m b")->id};
	size_t done = 0;
	struct gd_error err = {0};
	assert_int_equal(q->actions->act(q->actions->context, VIEW_HOLD, ids, 2, &done, &err), 0);
	assert_int_equal(done, 2);
	while (view_job_count(q->model, VIEW_JOB_HELD) < 2)
		update(q);
	assert_int_equal(view_find_job(q->model, ids[0])->state, VIEW_JOB_HELD);
	assert_int_equal(view_find_job(q->model, ids[1])->state, VIEW_JOB_HELD);
	assert_int_equal(get_command(q, "first")->state, VIEW_JOB_RUNNING);
	assert_int_equal(get_command(q, "third")->state, VIEW_JOB_PENDING);
	/* A held job cannot be retried: the reason is reported. */
	assert_true(q->actions->act(q->actions->context, VIEW_RETRY, ids, 1, &done, &err) < 0);
	assert_true(*err.message);
	cleanup_(text_finish) struct text why = {0};
	assert_int_equal(q->actions->why(q->actions->context, ids[0], &why, &err), 0);
	assert_non_null(strstr(text_string(&why), "job 1:"));
	/* A number alone does not identify a job here. */
	assert_int_equal(q->actions->act(q->actions->context, VIEW_HOLD, (uint64_t[]){1}, 1, &done, &err), -ENOENT);
	assert_non_null(strstr(err.message, "queue is gone"));
}

/* With the next update, not only some seconds later. */
static void look_for_queues(struct queue *q)
{
	q->view->find_ns = 0;
}

static void test_queues_come_and_go(void **state)
{
	struct queue *q = *state;
	uint64_t gone = get_command(q, "second")->id;
	make_queue("new", ADD(1, "newcomer"));
	while (!find_command(q, "newcomer"))
		update(q);
	assert_int_equal(rename("two", "elsewhere"), 0);
	look_for_queues(q);
	while (view_find_job(q->model, gone))
		(void)try_update(q, NULL);
	assert_null(find_command(q, "third"));
	assert_int_equal(view_num_jobs(q->model), 4);
	/* When it is back, it has another number. */
	assert_int_equal(rename("elsewhere", "two"), 0);
	char path[4096];
	snprintf(path, sizeof(path), "%s/two/jobs.jsonl", scratch_path());
	assert_int_equal(queue_registry_add(path), 0);
	look_for_queues(q);
	while (!find_command(q, "second"))
		update(q);
	assert_int_not_equal(get_command(q, "second")->id, gone);
	assert_null(view_find_job(q->model, gone));
	/* The remaining queues are still followed, and actions go to their own journals. */
	uint64_t id = get_command(q, "newcomer")->id;
	size_t done = 0;
	assert_int_equal(q->actions->act(q->actions->context, VIEW_HOLD, &id, 1, &done, NULL), 0);
	while (view_find_job(q->model, id)->state != VIEW_JOB_HELD)
		update(q);
}

static void test_a_queue_that_cannot_be_read_is_reported_once(void **state)
{
	struct queue *q = *state;
	struct gd_error err = {0};
	struct view_facts facts;
	make_queue("bad", ADD(1, "unseen"));
	assert_int_equal(unlink("bad/jobs.jsonl"), 0);
	assert_int_equal(mkdir("bad/jobs.jsonl", 0700), 0);
	look_for_queues(q);
	while (try_update(q, &err) == 0)
		;
	assert_non_null(strstr(err.message, "bad/jobs.jsonl"));
	q->actions->facts(q->actions->context, &facts);
	assert_int_equal(facts.num_unreadable, 1);
	assert_int_equal(facts.num_queues, 3);
	look_for_queues(q);
	while (q->view->find_ns == 0)
		update(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_model_has_all_jobs_of_the_journal, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_jobs_that_ended_before_the_view_opened_do_not_count_for_the_rate, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_of_a_job_changes_that_job_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gpus_show_what_runs_on_them_and_what_ended, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_pruned_journal_is_read_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_action_is_appended_to_the_queue_or_refused_with_a_reason, setup, teardown),
		cmocka_unit_test_setup_teardown(test_why_works_without_a_runner, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_logs_are_shown, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_a_log_elsewhere_is_shown_by_its_name_where_the_journal_is_ours, setup, teardown),
		cmocka_unit_test_setup_teardown(test_all_queues_are_in_one_model, setup_all, teardown),
		cmocka_unit_test_setup_teardown(test_actions_reach_the_queue_of_the_job, setup_all, teardown),
		cmocka_unit_test_setup_teardown(test_queues_come_and_go, setup_all, teardown),
		cmocka_unit_test_setup_teardown(test_a_queue_that_cannot_be_read_is_reported_once, setup_all, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
