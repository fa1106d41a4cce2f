/* SPDX-License-Identifier: MIT */
/* The scheduler over the nodes of a cluster: two nodes with two GPUs each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_put.h"
#include "base/units.h"
#include "queue/journal/record.h"
#include "queue/schedule/scheduler.h"
#include "queue/schedule/scheduler_inputs.h"
#include "support/gpu_pointers.h"

#define GPUS 4

struct cluster {
	struct gd_gpu gpus[GPUS];
	struct ledger_node nodes[2];
	struct jobs jobs;
	struct scheduler *scheduler;
	uint64_t last_id;
};

static const int gpu_nodes[GPUS] = {0, 0, 1, 1};

static void set_nodes(struct cluster *c)
{
	assert_int_equal(scheduler_set_nodes(c->scheduler, c->nodes, 2, gpu_nodes, GPUS), 0);
}

static void cluster_open(struct cluster *c)
{
	*c = (struct cluster){.nodes = {{.name = "n0", .usable = true, .cpus = 4, .host_bytes = 32 * UNITS_GB},
				      {.name = "n1", .usable = true, .cpus = 4, .host_bytes = 32 * UNITS_GB}}};
	for (int i = 0; i < GPUS; i++)
		c->gpus[i] = (struct gd_gpu){.size = sizeof(c->gpus[i]),
			.known = GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE,
			.vendor = GD_VENDOR_NVIDIA,
			.index = i % 2,
			.vendor_index = i % 2,
			.mig_index = -1,
			.memory_total_bytes = 24 * UNITS_GB,
			.memory_free_bytes = 24 * UNITS_GB};
	jobs_init(&c->jobs);
	assert_int_equal(scheduler_create(&c->jobs, &c->scheduler), 0);
	/* The login node's own CPUs do not matter. */
	scheduler_configure(c->scheduler,
		&(struct scheduler_settings){
			.rules = {.min_free_mem_mb = -1}, .cpus = 1, .host_bytes = UNITS_GB, .foreign_pids = true});
	set_nodes(c);
	assert_int_equal(scheduler_sample(c->scheduler, NS_PER_S, gpu_pointers(c->gpus, GPUS), GPUS), 0);
	scheduler_set_time(c->scheduler, 1000000);
}

static void cluster_close(struct cluster *c)
{
	scheduler_destroy(c->scheduler);
	jobs_finish(&c->jobs);
}

static const struct job_spec plain = {.command = "true",
	.command_size = 4,
	.num_gpus = 1,
	.mem_mb = -1,
	.min_free_mem_mb = -1,
	.timeout_ms = -1,
	.retries = -1};

static struct job *add(struct cluster *c, struct job_spec spec)
{
	struct text t = {0};
	char words[SCHEDULER_WORDS];
	record_write_add(&t, ++c->last_id, 1000, &spec);
	assert_int_equal(jobs_apply(&c->jobs, 1, t.data, t.length - 1), 0);
	text_finish(&t);
	struct job *job = jobs_find(&c->jobs, c->last_id);
	assert_int_equal(scheduler_add(c->scheduler, job, words), 0);
	return job;
}

static struct job *add_gpus(struct cluster *c, int num_gpus)
{
	struct job_spec spec = plain;
	spec.num_gpus = num_gpus;
	return add(c, spec);
}

/* The node of the next start; -1: nothing starts. */
static int next(struct cluster *c, struct scheduler_start *ret)
{
	int r = scheduler_decide(c->scheduler, 2 * NS_PER_S, ret);
	assert_true(r >= 0);
	for (size_t i = 0; r == 1 && i < ret->num_gpus; i++)
		assert_int_equal(gpu_nodes[ret->gpus[i]], ret->node);
	return r == 1 ? ret->node : -1;
}

static void assert_says(struct cluster *c, const struct job *job, const char *brief, const char *line)
{
	struct scheduler_verdict v;
	struct text t = {0};
	assert_int_equal(scheduler_verdict(c->scheduler, job, &v), 0);
	assert_int_equal(v.answer, SCHEDULER_WAITS);
	scheduler_verdict_brief(&t, c->scheduler, &v);
	assert_string_equal(text_string(&t), brief);
	text_clear(&t);
	scheduler_verdict_lines(&t, c->scheduler, &v, NULL, NULL);
	if (!strstr(text_string(&t), line))
		fail_msg("'%s' is not in '%s'", line, text_string(&t));
	text_finish(&t);
}

static void test_a_job_on_two_gpus_does_not_span_nodes(void **state)
{
	(void)state;
	struct cluster c;
	struct scheduler_start start;
	cluster_open(&c);
	c.gpus[0].memory_free_bytes = c.gpus[2].memory_free_bytes = UNITS_GB; /* used by others */
	assert_int_equal(scheduler_sample(c.scheduler, 2 * NS_PER_S, gpu_pointers(c.gpus, GPUS), GPUS), 0);
	const struct job *job = add_gpus(&c, 2);
	assert_int_equal(next(&c, &start), -1);
	assert_says(&c, job, "no node has 2 GPUs free",
		"n1 GPU 1: has room, 24.0 GiB free; the job needs 2 GPUs of one node");
	c.gpus[2].memory_free_bytes = 24 * UNITS_GB;
	assert_int_equal(scheduler_sample(c.scheduler, 3 * NS_PER_S, gpu_pointers(c.gpus, GPUS), GPUS), 0);
	assert_int_equal(next(&c, &start), 1);
	assert_int_equal(start.num_gpus, 2);
	cluster_close(&c);
}

static void test_gpus_are_kept_on_one_node(void **state)
{
	(void)state;
	struct cluster c;
	struct scheduler_start start;
	cluster_open(&c);
	add_gpus(&c, 1);
	add_gpus(&c, 1);
	add_gpus(&c, 1);
	uint64_t first = 0;
	int node = next(&c, &start);
	first = start.job->id;
	int second = next(&c, &start), third = next(&c, &start);
	assert_true(node >= 0 && second >= 0 && third >= 0);
	const struct job *wide = add_gpus(&c, 2);
	assert_int_equal(next(&c, &start), -1);
	const struct placement_reservation *r = scheduler_reservation(c.scheduler);
	assert_true(r->active);
	assert_int_equal(r->job, wide->id);
	assert_int_equal(gpu_nodes[r->gpus[0]], gpu_nodes[r->gpus[1]]);
	/* The node with one free GPU will be ready first; nothing else is placed there. */
	add_gpus(&c, 1);
	assert_int_equal(next(&c, &start), -1);
	scheduler_end(c.scheduler, first);
	scheduler_end(c.scheduler, first + 1);
	scheduler_end(c.scheduler, first + 2);
	assert_true(next(&c, &start) >= 0);
	assert_int_equal(start.job->id, wide->id);
	cluster_close(&c);
}

static void test_a_job_starts_where_its_time_fits(void **state)
{
	(void)state;
	struct cluster c;
	struct scheduler_start start;
	struct job_spec hour = plain;
	hour.timeout_ms = 3600000;
	cluster_open(&c);
	c.nodes[0].end_ms = 1000000 + 3500000;
	c.nodes[1].end_ms = 1000000 + 3700000;
	set_nodes(&c);
	add(&c, hour);
	add(&c, hour);
	const struct job *third = add(&c, hour);
	assert_int_equal(next(&c, &start), 1);
	assert_int_equal(next(&c, &start), 1);
	assert_int_equal(next(&c, &start), -1);
	assert_says(&c, third, "GPUs busy", "n0 GPU 0: the remaining time of its node is too short for the job");
	/* A pilot with more time. */
	c.nodes[0].end_ms = 0;
	set_nodes(&c);
	assert_int_equal(next(&c, &start), 0);
	cluster_close(&c);
}

static void test_cpus_and_main_memory_are_counted_per_node(void **state)
{
	(void)state;
	struct cluster c;
	struct scheduler_start start;
	struct job_spec spec = plain;
	spec.num_gpus = 0;
	spec.cpus = 3;
	cluster_open(&c);
	add(&c, spec);
	add(&c, spec);
	const struct job *third = add(&c, spec);
	int first = next(&c, &start);
	assert_int_equal(next(&c, &start), 1 - first);
	assert_int_equal(next(&c, &start), -1);
	const char *words = "no node has the main memory, the CPUs or the time for it now";
	assert_says(&c, third, words, words);
	spec.num_gpus = 1;
	spec.cpus = 2;
	scheduler_remove(c.scheduler, jobs_find(&c.jobs, 3));
	const struct job *on_gpu = add(&c, spec);
	assert_int_equal(next(&c, &start), -1);
	assert_says(&c, on_gpu, "no usable GPU now", "n0 GPU 0: needs 2 CPUs, 1 of 4 left on its node");
	scheduler_end(c.scheduler, 1);
	assert_int_equal(next(&c, &start), first);
	cluster_close(&c);
}

static void test_a_node_that_is_away_gets_nothing(void **state)
{
	(void)state;
	struct cluster c;
	struct scheduler_start start;
	cluster_open(&c);
	c.nodes[0].usable = c.nodes[1].usable = false;
	set_nodes(&c);
	const struct job *job = add_gpus(&c, 1);
	assert_int_equal(next(&c, &start), -1);
	assert_says(&c, job, "no node accepts jobs now", "no node accepts jobs now");
	c.nodes[1].usable = true;
	set_nodes(&c);
	assert_int_equal(next(&c, &start), 1);
	cluster_close(&c);
}

static void test_published_inputs_have_the_nodes(void **state)
{
	(void)state;
	struct cluster c;
	struct scheduler_start start;
	struct job_spec spec = plain;
	spec.num_gpus = 0;
	spec.cpus = 3;
	cluster_open(&c);
	c.nodes[0].usable = false;
	set_nodes(&c);
	add(&c, spec);
	assert_int_equal(next(&c, &start), 1);
	struct text t = {0}, again = {0};
	json_open(&t, NULL, '{');
	scheduler_inputs_write(c.scheduler, "inputs", &t);
	json_close(&t, '}');
	struct json_cursor cursor;
	struct json_value key, value;
	assert_int_equal(json_begin(&cursor, t.data, t.length), 0);
	assert_int_equal(json_next_member(&cursor, &key, &value), 1);
	struct jobs none;
	struct scheduler *reader;
	jobs_init(&none);
	assert_int_equal(scheduler_create(&none, &reader), 0);
	assert_int_equal(scheduler_inputs_read(reader, &value), 0);
	json_open(&again, NULL, '{');
	scheduler_inputs_write(reader, "inputs", &again);
	json_close(&again, '}');
	assert_string_equal(text_string(&t), text_string(&again));
	assert_non_null(strstr(t.data, "\"n1\""));
	text_finish(&t);
	text_finish(&again);
	scheduler_destroy(reader);
	jobs_finish(&none);
	cluster_close(&c);
}

static struct job *add_timed(struct cluster *c, const char *command, int64_t timeout_ms)
{
	struct job_spec spec = plain;
	spec.command = command;
	spec.command_size = strlen(command);
	spec.timeout_ms = timeout_ms;
	return add(c, spec);
}

static void test_a_job_that_takes_too_long_does_not_block_shorter_ones(void **state)
{
	(void)state;
	struct cluster c;
	struct scheduler_start start;
	cluster_open(&c);
	c.nodes[0].end_ms = c.nodes[1].end_ms = 1000000 + 60000;
	set_nodes(&c);
	add_timed(&c, "long", 3600000);
	const struct job *shorter = add_timed(&c, "short", 30000);
	assert_int_not_equal(next(&c, &start), -1);
	assert_ptr_equal(start.job, shorter);
	assert_true(start.need.over_ms == 1000000 + 30000);
	assert_int_equal(next(&c, &start), -1);
	cluster_close(&c);
}

static void record_run(struct cluster *c, struct job *job, int64_t duration_ms)
{
	struct text t = {0};
	int gpu = 0;
	record_write_start(
		&t, &(struct attempt_start){.id = job->id, .attempt = 1, .keeper = "k", .gpus = &gpu, .num_gpus = 1});
	assert_int_equal(jobs_apply(&c->jobs, 1, t.data, t.length - 1), 0);
	text_clear(&t);
	record_write_end(&t, &(struct attempt_end){.id = job->id,
				     .attempt = 1,
				     .state = JOB_COMPLETED,
				     .duration_ms = duration_ms,
				     .peak_mem_mb = -1,
				     .energy_j = -1});
	assert_int_equal(jobs_apply(&c->jobs, 1, t.data, t.length - 1), 0);
	text_finish(&t);
	scheduler_end(c->scheduler, job->id);
}

/* Only after the long job was added, a similar one shows how long it will take. */
static void test_a_job_that_is_expected_to_take_too_long_does_not_block_others(void **state)
{
	(void)state;
	struct cluster c;
	struct scheduler_start start;
	char words[SCHEDULER_WORDS];
	cluster_open(&c);
	struct job *first = add_timed(&c, "long 1", -1);
	assert_int_not_equal(next(&c, &start), -1);
	add_timed(&c, "long 2", -1);
	const struct job *other = add_timed(&c, "other", -1);
	c.nodes[0].end_ms = c.nodes[1].end_ms = 1000000 + 60000;
	set_nodes(&c);
	record_run(&c, first, 3600000);
	struct job *again = scheduler_set_time(c.scheduler, 1000001);
	assert_non_null(again);
	assert_int_equal(again->id, 2);
	assert_int_equal(scheduler_add(c.scheduler, again, words), 0);
	assert_int_not_equal(next(&c, &start), -1);
	assert_ptr_equal(start.job, other);
	assert_int_equal(next(&c, &start), -1);
	cluster_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_job_on_two_gpus_does_not_span_nodes),
		cmocka_unit_test(test_gpus_are_kept_on_one_node),
		cmocka_unit_test(test_a_job_starts_where_its_time_fits),
		cmocka_unit_test(test_cpus_and_main_memory_are_counted_per_node),
		cmocka_unit_test(test_a_node_that_is_away_gets_nothing),
		cmocka_unit_test(test_published_inputs_have_the_nodes),
		cmocka_unit_test(test_a_job_that_takes_too_long_does_not_block_shorter_ones),
		cmocka_unit_test(test_a_job_that_is_expected_to_take_too_long_does_not_block_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
