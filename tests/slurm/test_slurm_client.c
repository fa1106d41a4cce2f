/* SPDX-License-Identifier: MIT */
/* Uses fake Slurm commands: scripts that print what a test needs. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/loop.h"
#include "base/text.h"
#include "slurm/slurm_client.h"
#include "support/scratch.h"
#include "support/wait.h"

struct seen {
	struct loop *loop;
	struct slurm_client *client;
	int answers;
	int result;
	uint64_t slurm_job;
	char name[64], words[256];
	struct slurm_listing listing;
	struct listed_job job;
	struct listed_node node;
};

static void on_submitted(void *context, const char *name, int result, uint64_t slurm_job, const char *words)
{
	struct seen *s = context;
	s->answers++;
	s->result = result;
	s->slurm_job = slurm_job;
	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->words, sizeof(s->words), "%s", words);
}

static void on_listed(void *context, uint64_t begun_ns, const struct slurm_listing *l, const char *words)
{
	struct seen *s = context;
	assert_true(begun_ns > 0);
	s->answers++;
	s->listing = *l;
	if (l->num_jobs)
		s->job = l->jobs[0];
	if (l->num_nodes)
		s->node = l->nodes[0];
	snprintf(s->words, sizeof(s->words), "%s", words);
}

static void put_command(const char *name, const char *script)
{
	char path[64], text[2048];
	snprintf(path, sizeof(path), "bin/%s", name);
	snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", script);
	scratch_write_text(path, text);
	assert_int_equal(chmod(path, 0700), 0);
}

static void open_client(struct seen *s, int64_t timeout_ms)
{
	static const struct slurm_client_ops ops = {.submitted = on_submitted, .listed = on_listed};
	static char *path;
	if (!path)
		path = strdup(getenv("PATH"));
	char text[4096], prefix[] = "gpuq-";
	snprintf(text, sizeof(text), "%s/bin:%s", scratch_path(), path);
	setenv("PATH", text, 1);
	assert_int_equal(mkdir("bin", 0700), 0);
	*s = (struct seen){0};
	assert_int_equal(loop_create(&s->loop), 0);
	assert_int_equal(
		slurm_client_create(
			&(struct slurm_client_options){
				.loop = s->loop, .prefix = prefix, .timeout_ms = timeout_ms, .ops = &ops, .context = s},
			&s->client),
		0);
	memset(prefix, 'x', sizeof(prefix) - 1); /* the client must have its own copy */
	put_command("scontrol",
		"if [ \"$2\" = config ]; then echo 'BOOT_TIME               = 2026-11-17T10:13:01'; echo 'ProctrackType           = proctrack/cgroup'; "
		"else echo 'NodeName=node State=IDLE BootTime=2026-11-17T09:16:58'; fi");
	put_command("squeue", "echo \"$@\" > asked; echo '1|RUNNING|0|node|None|gpuq-a-1|'");
}

static void close_client(struct seen *s)
{
	slurm_client_destroy(s->client);
	/* The loop reaps killed commands. */
	uint64_t deadline = wait_deadline_ns();
	while (waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) == 0) {
		wait_check(deadline, "the end of the command");
		assert_true(loop_round(s->loop, 10) >= 0);
	}
	loop_destroy(s->loop);
}

static void await_answers(struct seen *s, int count)
{
	uint64_t deadline = wait_deadline_ns();
	while (s->answers < count) {
		wait_check(deadline, "the answer");
		assert_true(loop_round(s->loop, 1000) >= 0);
	}
}

static void test_submission_has_the_options_of_the_user_followed_by_ours(void **state)
{
	(void)state;
	struct seen s;
	open_client(&s, 0);
	put_command("sbatch", "for word; do echo \"[$word]\"; done > words; echo '123;cluster'");
	assert_int_equal(slurm_client_submit(s.client, "gpuq-a-1", "--partition=gpu --comment='two words' --requeue",
				 "/tmp/out %j", "exec gpuq pilot"),
		0);
	await_answers(&s, 1);
	assert_int_equal(s.result, 0);
	assert_int_equal(s.slurm_job, 123);
	assert_string_equal(s.name, "gpuq-a-1");
	assert_string_equal(scratch_read("words"),
		"[--partition=gpu]\n[--comment=two words]\n[--requeue]\n[--parsable]\n[--no-requeue]\n[--nodes=1]\n[--ntasks=1]\n"
		"[--job-name=gpuq-a-1]\n[--output=/tmp/out %j]\n[--open-mode=append]\n[--wrap=exec gpuq pilot]\n");
	assert_int_equal(slurm_client_submit(s.client, "gpuq-a-2", "--comment='open", "/dev/null", "true"), -EINVAL);
	close_client(&s);
}

static void test_refusal_is_distinguished_from_an_uncertain_answer(void **state)
{
	(void)state;
	static const struct {
		const char *script;
		int result;
	} cases[] = {
		{"echo 'sbatch: error: Batch job submission failed: Requested node configuration is not available' >&2; exit 1",
			-EINVAL},
		{"echo 'sbatch: error: invalid partition specified: nope' >&2; exit 1", -ENOTSUP},
		{"echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1", -EAGAIN},
		{"echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1",
			-ECHILD},
		{"echo 'sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)' >&2; exit 1",
			-ECHILD},
		{"exit 1", -ECHILD},
		{"kill -9 $$", -ECHILD},
		{"echo Submitted batch job 12", -EBADMSG},
		{"true", -EBADMSG},
		{"sleep 1000", -ETIMEDOUT},
	};
	struct seen s;
	open_client(&s, 1000);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* A slow machine may be late for any of them. */
		do {
			int before = s.answers;
			put_command("sbatch", cases[i].script);
			assert_int_equal(slurm_client_submit(s.client, "gpuq-a-1", "", "/dev/null", "true"), 0);
			await_answers(&s, before + 1);
		} while (s.result == -ETIMEDOUT && cases[i].result != -ETIMEDOUT);
		assert_int_equal(s.result, cases[i].result);
	}
	close_client(&s);
}

static void test_listing_of_jobs_and_nodes(void **state)
{
	(void)state;
	struct seen s;
	open_client(&s, 0);
	assert_int_equal(slurm_client_list(s.client), 0);
	assert_int_equal(slurm_client_list(s.client), 0); /* the same one */
	await_answers(&s, 1);
	assert_true(s.listing.ok && s.listing.cgroup);
	assert_true(s.listing.boot_before_ms > 0 && s.listing.boot_before_ms == s.listing.boot_after_ms);
	assert_int_equal(s.listing.num_jobs, 1);
	assert_int_equal(s.job.state, LISTED_RUNNING);
	assert_string_equal(s.job.name, "gpuq-a-1");
	assert_int_equal(s.listing.num_nodes, 1);
	assert_true(s.node.responding && s.node.boot_ms > 0);
	check_contains(scratch_read("asked"), "-t all");
	assert_int_equal(s.answers, 1);
	close_client(&s);
}

/* Each of these proves nothing: the listing has failed, and is not an empty one. */
static void test_answer_that_is_missing_late_or_wrong_is_not_a_listing(void **state)
{
	(void)state;
	static const char *const scripts[] = {"exit 1", "echo '1|RUNN'", "echo 'slurm_load_jobs error' ; exit 1",
		"echo 'Unable to contact slurm controller'", "sleep 1000", "kill -9 $$"};
	struct seen s;
	open_client(&s, 1000);
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		int before = s.answers;
		put_command("squeue", scripts[i]);
		assert_int_equal(slurm_client_list(s.client), 0);
		await_answers(&s, before + 1);
		assert_false(s.listing.ok);
		assert_int_equal(s.listing.num_jobs, 0);
		assert_string_not_equal(s.words, "");
	}
	close_client(&s);
}

static void test_controller_that_was_restarted_meanwhile_is_seen(void **state)
{
	(void)state;
	struct seen s;
	open_client(&s, 0);
	put_command("scontrol",
		"if [ \"$2\" = config ]; then if [ -e again ]; then echo 'BOOT_TIME = 2026-11-17T10:14:00'; else echo 'BOOT_TIME = "
		"2026-11-17T10:13:01'; touch again; fi; else echo 'NodeName=node State=IDLE'; fi");
	assert_int_equal(slurm_client_list(s.client), 0);
	await_answers(&s, 1);
	assert_true(s.listing.ok && s.listing.boot_after_ms - s.listing.boot_before_ms == 59000);
	close_client(&s);
}

static void test_requests_wait_for_their_turn(void **state)
{
	(void)state;
	struct seen s;
	open_client(&s, 0);
	put_command("scancel", "echo cancel $1 >> order");
	put_command("sbatch", "echo submit >> order; echo 12");
	put_command("squeue", "echo list >> order; echo '1|RUNNING|0|node|None|gpuq-a-1|'");
	assert_int_equal(slurm_client_cancel(s.client, 42), 0);
	assert_int_equal(slurm_client_submit(s.client, "gpuq-a-1", "", "/dev/null", "true"), 0);
	assert_int_equal(slurm_client_list(s.client), 0);
	await_answers(&s, 2);
	assert_string_equal(scratch_read("order"), "cancel 42\nsubmit\nlist\n");
	/* Destroyed in the middle of a command. */
	assert_int_equal(slurm_client_list(s.client), 0);
	close_client(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_submission_has_the_options_of_the_user_followed_by_ours),
		scratch_test(test_refusal_is_distinguished_from_an_uncertain_answer),
		scratch_test(test_listing_of_jobs_and_nodes),
		scratch_test(test_answer_that_is_missing_late_or_wrong_is_not_a_listing),
		scratch_test(test_controller_that_was_restarted_meanwhile_is_seen),
		scratch_test(test_requests_wait_for_their_turn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
