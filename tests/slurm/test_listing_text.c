/* SPDX-License-Identifier: MIT */
/* Answers of Slurm 22.05, as its commands print them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/listing_text.h"
#include "support/check.h"

static int add_jobs(struct listing_builder *b, const char *text)
{
	*b = (struct listing_builder){0};
	int r = listing_add_jobs(b, text, strlen(text), "gpuq-");
	if (r < 0)
		listing_builder_finish(b);
	return r;
}

static void test_jobs_of_the_queue_are_found_among_others(void **state)
{
	(void)state;
	struct listing_builder b;
	assert_int_equal(add_jobs(&b, "3|FAILED|0||BadConstraints|wrap|\n"
				      "2|PENDING|0||Priority|gpuq-ab-2|\n"
				      "4|PENDING|0||Resources|a|b|\n"
				      "1|RUNNING|2|node|None|gpuq-ab-1|\n"
				      "9|CANCELLED|0|node|None|gpuq-ab-9|\n"
				      "8|COMPLETING|0|node|None|gpuq-ab-8|\n"),
		0);
	assert_int_equal(b.num_jobs, 4);
	assert_int_equal(b.jobs[0].slurm_job, 2);
	assert_int_equal(b.jobs[0].state, LISTED_PENDING);
	assert_string_equal(b.jobs[0].reason, "Priority");
	assert_string_equal(b.jobs[1].name, "gpuq-ab-1");
	assert_string_equal(b.jobs[1].node, "node");
	assert_int_equal(b.jobs[1].restarts, 2);
	assert_int_equal(b.jobs[1].state, LISTED_RUNNING);
	assert_int_equal(b.jobs[2].state, LISTED_TERMINAL);
	assert_int_equal(b.jobs[3].state, LISTED_COMPLETING);
	listing_builder_finish(&b);
	assert_int_equal(add_jobs(&b, ""), 0);
	assert_int_equal(b.num_jobs, 0);
}

/* Slurm accepts newlines in names. */
static void test_newline_in_a_name_of_another_job_is_skipped(void **state)
{
	(void)state;
	struct listing_builder b;
	assert_int_equal(add_jobs(&b, "3|RUNNING|0|node|None|first line\nb|c|\n\n|\n"
				      "2|PENDING|0||Priority|gpuq-ab-2|\n"),
		0);
	assert_int_equal(b.num_jobs, 1);
	assert_int_equal(b.jobs[0].slurm_job, 2);
	listing_builder_finish(&b);
}

static void test_answer_that_cannot_be_parsed_is_refused(void **state)
{
	(void)state;
	struct listing_builder b;
	static const char *const wrong[] = {"slurm_load_jobs error: Unable to contact slurm controller\n",
		"1|RUNNING|0|node|None|gpuq-ab-1|", "1|RUNNING|0|node|None|gpuq-ab-1\n",
		"1|RUNNING|0|node|gpuq-ab-1|\n", "x|RUNNING|0|node|None|gpuq-ab-1|\n",
		"0|RUNNING|0|node|None|gpuq-ab-1|\n", "1|RUNNING||node|None|gpuq-ab-1|\n",
		"1|RUNNING|0|node|None|gpuq-ab-1|\n\n", "1|RUNNING|0|node|None|gpuq-ab-1|\n2|RUNN"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(add_jobs(&b, wrong[i]), -EBADMSG);
}

static const char node_line[] =
	"NodeName=node Arch=x86_64 CoresPerSocket=8  CPUAlloc=1 CPUEfctv=8 CPUTot=8 CPULoad=12.14 AvailableFeatures=(null) "
	"ActiveFeatures=(null) Gres=gpu:fake:2 NodeAddr=127.0.0.1 NodeHostName=vm Port=39855 Version=22.05.8 OS=Linux 6.1.0 #1 "
	"SMP PREEMPT_DYNAMIC @0  RealMemory=8000 AllocMem=0 FreeMem=20546 Sockets=1 Boards=1 State=%s ThreadsPerCore=1 TmpDisk=0 "
	"Weight=1 Owner=N/A MCS_label=N/A Partitions=gpu,urgent  BootTime=%s SlurmdStartTime=2026-11-17T10:13:02 "
	"LastBusyTime=2026-11-17T10:13:03 CfgTRES=cpu=8,mem=8000M,billing=8 AllocTRES=cpu=1 Reason= State=IDLE BootTime=None\n";

static int add_node(struct listing_builder *b, const char *state, const char *boot)
{
	char text[2048];
	*b = (struct listing_builder){0};
	snprintf(text, sizeof(text), node_line, state, boot);
	int r = listing_add_nodes(b, text, strlen(text));
	if (r < 0)
		listing_builder_finish(b);
	return r;
}

static void test_nodes_with_their_boot_times(void **state)
{
	(void)state;
	struct listing_builder b;
	assert_int_equal(add_node(&b, "MIXED", "2026-11-17T09:16:58"), 0);
	assert_int_equal(b.num_nodes, 1);
	assert_string_equal(b.nodes[0].name, "node");
	assert_true(b.nodes[0].responding);
	assert_true(b.nodes[0].boot_ms == INT64_C(1794907018000));
	assert_true(b.nodes[0].slurmd_start_ms == INT64_C(1794910382000));
	listing_builder_finish(&b);
	assert_int_equal(add_node(&b, "IDLE", "None"), 0);
	assert_int_equal(b.nodes[0].boot_ms, 0);
	listing_builder_finish(&b);
	assert_int_equal(add_node(&b, "IDLE", "yesterday"), -EBADMSG);
	static const char *const away[] = {
		"IDLE*", "DOWN", "DOWN+NOT_RESPONDING", "IDLE+NOT_RESPONDING", "UNKNOWN", "IDLE+CLOUD+POWERED_DOWN"};
	for (size_t i = 0; i < sizeof(away) / sizeof(away[0]); i++) {
		assert_int_equal(add_node(&b, away[i], "None"), 0);
		assert_false(b.nodes[0].responding);
		listing_builder_finish(&b);
	}
}

static void test_boot_time_of_the_controller(void **state)
{
	(void)state;
	struct listing_builder b = {0};
	static const char text[] = "Configuration data as of 2026-11-17T10:14:00\n"
				   "AccountingStorageHost   = localhost\n"
				   "BOOT_TIME               = 2026-11-17T10:13:01\n"
				   "ProctrackType           = proctrack/cgroup\n";
	assert_int_equal(listing_set_config(&b, text, sizeof(text) - 1), 0);
	assert_true(b.cgroup && b.boot_ms == INT64_C(1794910381000));
	assert_int_equal(listing_set_config(&b, text, 80), -EBADMSG);
	static const char other[] = "BOOT_TIME = 2026-11-17T10:13:01\nProctrackType = proctrack/linuxproc\n";
	assert_int_equal(listing_set_config(&b, other, sizeof(other) - 1), 0);
	assert_false(b.cgroup);
}

static void test_answer_of_sbatch(void **state)
{
	(void)state;
	uint64_t id = 0;
	assert_int_equal(listing_parse_submitted("123\n", 4, &id), 0);
	assert_int_equal(id, 123);
	assert_int_equal(listing_parse_submitted("124;cluster\n", 12, &id), 0);
	assert_int_equal(id, 124);
	static const char *const wrong[] = {"", "123", "Submitted batch job 123\n", "-1\n", "0\n", "12\n13\n", "\n"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(listing_parse_submitted(wrong[i], strlen(wrong[i]), &id), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jobs_of_the_queue_are_found_among_others),
		cmocka_unit_test(test_newline_in_a_name_of_another_job_is_skipped),
		cmocka_unit_test(test_answer_that_cannot_be_parsed_is_refused),
		cmocka_unit_test(test_nodes_with_their_boot_times),
		cmocka_unit_test(test_boot_time_of_the_controller),
		cmocka_unit_test(test_answer_of_sbatch),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
