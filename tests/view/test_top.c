/* SPDX-License-Identifier: MIT */
/* The content of gpuq top: the queue, its GPUs and its jobs, on a screen of any size. */
#include <stdio.h>

#include "top_rig.h"

static void test_screen_shows_queue_gpus_and_jobs(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_gpus(l, 2);
	top_rig_put_job(l, 1, VIEW_JOB_COMPLETED, "python done.py");
	top_rig_put_job(l, 2, VIEW_JOB_RUNNING, "python train.py");
	top_rig_put_job(l, 3, VIEW_JOB_PENDING, "python later.py");
	top_rig_put_job(l, 4, VIEW_JOB_FAILED, "python bad.py");
	top_rig_draw(l, 24, 80);
	assert_string_equal(
		top_rig_row(l, 0), " gpuq top  /home/alice/jobs.jsonl                         runner 1234  09:46:40");
	assert_string_equal(top_rig_row(l, 1), " 1 running  1 pending  1 failed  1 completed");
	assert_shows(top_rig_row(l, 3), "  0 mem ━━────── 10.0/40.0 GiB  util ━━━━────  50%  1 job 61°C A100");
	assert_shows(top_rig_row(l, 12), "  ID  STATE▴     GPU       TIME  PEAK GiB  REQ GiB  COMMAND");
	assert_shows(top_rig_row(l, 12), "all 1–4 of 4");
	assert_string_equal(top_rig_row(l, 13), "   2  running    2       1m 02s       2.0           python train.py");
	assert_string_equal(top_rig_row(l, 14), "   3  pending            1m 30s                     python later.py");
	assert_string_equal(top_rig_row(l, 15), "   4  failed     0          30s       2.0           python bad.py");
	assert_string_equal(top_rig_row(l, 16), "   1  completed  1          30s       2.0           python done.py");
	assert_string_equal(top_rig_row(l, 22), " 2 running  python train.py");
	assert_shows(top_rig_row(l, 23), "? Keys");
}

static void test_running_job_that_is_paused_or_has_an_idle_gpu_is_marked(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_job(l, 1, VIEW_JOB_RUNNING, "python train.py");
	struct view_job j = *view_find_job(l->model, 1);
	struct view_attempt a = j.attempts[0];
	const int gpu = 1;
	a.idle_gpus = 1;
	a.idle_ms = 600000;
	a.idle_at_ms = a.idle_since_ms = a.start_ms;
	a.gpus = &gpu;
	j.attempts = &a;
	j.command = "python train.py";
	assert_int_equal(view_put_job(l->model, &j), 0);
	assert_shows(top_rig_draw(l, 12, 140), "   1  GPU idle   1         1m 01s");
	assert_shows(top_rig_draw(l, 12, 140), "GPU idle for 1m 01s");
	assert_shows(top_rig_draw(l, 12, 80), " 1 GPU idle  python train.py");
	struct text details = {0};
	top_put_details(&details, view_find_job(l->model, 1), a.start_ms + 61000);
	assert_shows(text_string(&details), "GPU idle    1m 01s");
	text_finish(&details);
	j.paused = true;
	assert_int_equal(view_put_job(l->model, &j), 0);
	assert_shows(top_rig_draw(l, 12, 140), "   1  paused ");
	assert_shows_not(top_rig_draw(l, 12, 140), "idle");
	j.cancelling = true;
	assert_int_equal(view_put_job(l->model, &j), 0);
	assert_shows(top_rig_draw(l, 12, 140), "   1  ending ");
	l->top.facts.paused = true;
	top_rig_draw(l, 12, 80);
	assert_shows(top_rig_row(l, 0), "paused: gpuq resume");
}

static void test_job_on_a_node_is_shown_with_the_node(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_job(l, 1, VIEW_JOB_RUNNING, "python train.py");
	struct view_job j = *view_find_job(l->model, 1);
	struct view_attempt a = j.attempts[0];
	const int gpu = 1;
	a.gpus = &gpu;
	j.attempts = &a;
	j.command = "python train.py";
	j.node = "gpu12";
	l->top.facts.on_nodes = true;
	assert_int_equal(view_put_job(l->model, &j), 0);
	assert_shows(top_rig_draw(l, 12, 140), "  gpu12:1  ");
	assert_shows(top_rig_draw(l, 12, 80), "  gpu12:1  ");
	struct text details = {0};
	top_put_details(&details, view_find_job(l->model, 1), a.start_ms + 61000);
	assert_shows(text_string(&details), "GPU         gpu12:1\n");
	text_finish(&details);
}

static void put_of_queue(struct top_rig *l, unsigned queue, const char *name, const char *command)
{
	struct view_job j = {.id = view_job_id(queue, 1),
		.queue = name,
		.command = command,
		.state = VIEW_JOB_PENDING,
		.mem_mb = -1,
		.timeout_ms = -1};
	assert_int_equal(view_put_job(l->model, &j), 0);
}

static void test_all_queues_have_a_column_and_jobs_their_numbers(void **state)
{
	struct top_rig *l = *state;
	put_of_queue(l, 5, "/home/alice/projects/speech", "python a.py");
	put_of_queue(l, 6, "personal", "python b.py");
	assert_shows_not(top_rig_draw(l, 12, 80), "QUEUE");
	l->top.facts = (struct view_facts){
		.all_queues = true, .num_queues = 2, .num_unreadable = 1, .runner = 7, .num_runners = 2};
	assert_shows(top_rig_draw(l, 12, 80), " QUEUE            ID  STATE");
	assert_shows(top_rig_row(l, 0), "gpuq top  2 queues, 1 unreadable");
	assert_shows(top_rig_row(l, 0), "2 runners");
	l->top.facts.runner = 0;
	l->top.facts.num_runners = 0;
	top_rig_draw(l, 12, 80);
	assert_shows(top_rig_row(l, 0), "no runner");
	l->top.facts.runner_hidden = true;
	top_rig_draw(l, 12, 80);
	assert_shows(top_rig_row(l, 0), "runner not visible");
	assert_shows_not(top_rig_row(l, 0), "no runner");
	assert_shows(top_rig_draw(l, 12, 80), " …/speech          1  pending");
	assert_shows(top_rig_draw(l, 12, 80), " personal          1  pending");
	assert_shows(top_rig_draw(l, 12, 150), " …/alice/projects/speech     1  pending");
	top_rig_keys(l, "c");
	assert_shows(top_rig_draw(l, 12, 80), "Cancel job 1 of speech? y/n");
	top_rig_keys(l, "n/speech\n");
	assert_shows(top_rig_draw(l, 12, 80), "all 1–1 of 1");
	/* A selection in one queue does not affect the other. */
	top_rig_keys(l, "\x1b ");
	size_t count;
	const uint64_t *ids = top_chosen(&l->top, &count);
	assert_int_equal(count, 1);
	assert_int_equal(ids[0], view_job_id(5, 1));
	assert_false(top_is_tagged(&l->top, view_job_id(6, 1)));
}

static void test_every_screen_size_is_drawn(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_gpus(l, 64);
	for (uint64_t i = 1; i <= 300; i++)
		top_rig_put_job(l, i, (enum view_job_state)(i % VIEW_JOB_STATES),
			"python 日本語 größe e\u0301\x1b[31m\t\n🦜 --long --long");
	for (int rows = 1; rows < 70; rows++)
		for (int columns = 1; columns < 210; columns += columns < 20 ? 1 : 13)
			top_rig_draw(l, rows, columns);
	for (int mode = TOP_LIST; mode <= TOP_LOG; mode++) {
		l->top.mode = (enum top_mode)mode;
		log_tail_append(&l->top.log, "one\ntwo\n", 8);
		for (int rows = 1; rows < 30; rows += 3)
			for (int columns = 1; columns < 100; columns += 3)
				top_rig_draw(l, rows, columns);
	}
	l->top.mode = TOP_LIST;
	assert_shows(top_rig_draw(l, 10, 40), "running");
	assert_shows(top_rig_draw(l, 3, 40), "gpuq top");
}

static void put_runs(struct top_rig *l, size_t count)
{
	static const struct view_run_gpu gpus[] = {
		{.id = 0, .done = 30, .failed = 1, .rtf = 0.25, .task = "talk.wav"}, {.id = 1, .done = 10, .rtf = -1}};
	struct view_run runs[8];
	assert_true(count <= 8);
	for (size_t i = 0; i < count; i++)
		runs[i] = (struct view_run){.pid = (int64_t)i + 1,
			.kind = i % 2 ? "map" : "launch",
			.name = "/data/a/very/long/path/that/does/not/fit/audio",
			.total = i % 2 ? -1 : 80,
			.done = 40,
			.failed = 1,
			.running = 1,
			.fraction = 0.5,
			.rate = i % 2 ? 0.25 : 12.34,
			.rtf = i % 2 ? -1 : 0.0123,
			.eta_ms = i % 2 ? -1 : 65000,
			.gpus = gpus,
			.num_gpus = 2};
	assert_int_equal(view_put_runs(l->model, runs, count), 0);
}

static void test_launches_and_maps_have_lines_of_their_own(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_gpus(l, 2);
	top_rig_put_job(l, 1, VIEW_JOB_RUNNING, "x");
	put_runs(l, 2);
	top_rig_draw(l, 24, 100);
	assert_string_equal(top_rig_row(l, 12),
		" launch …/not/fit/audio   ━━━━━━──────  50%  41/80  1 failed  12.3/s  RTF 0.0123  about 1 min to go");
	assert_string_equal(top_rig_row(l, 13), "        GPU 0  31, 1 failed, RTF 0.25  talk.wav       GPU 1  10");
	assert_shows(top_rig_row(l, 14), " map    /data");
	assert_shows(top_rig_row(l, 14), " 50%  41  1 failed  15.0/min");
	assert_shows(top_rig_row(l, 17), "STATE");
	assert_shows(top_rig_draw(l, 24, 40), "launch  50%  41/80  1 failed");
	put_runs(l, 8);
	assert_shows(top_rig_draw(l, 24, 100), " and 3 more");
	for (int rows = 1; rows < 40; rows++)
		for (int columns = 1; columns < 210; columns += columns < 20 ? 1 : 13)
			top_rig_draw(l, rows, columns);
	put_runs(l, 0);
	assert_shows_not(top_rig_draw(l, 24, 100), "launch");
}

static void test_gpus_that_do_not_fit_can_be_scrolled(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_gpus(l, 64);
	top_rig_put_job(l, 1, VIEW_JOB_RUNNING, "x");
	const char *all = top_rig_draw(l, 60, 200);
	for (int i = 0; i < 64; i++) {
		char label[32];
		snprintf(label, sizeof(label), " %d ", i);
		assert_shows(all, label);
	}
	assert_shows_not(all, "{ }");
	assert_shows(top_rig_draw(l, 24, 80), "lines 1–8 of 16, { }");
	assert_shows(top_rig_row(l, 3), "  0 ");
	top_rig_keys(l, "}}");
	top_rig_draw(l, 24, 80);
	assert_shows(top_rig_row(l, 3), "  2 ");
	top_rig_keys(l, "}}}}}}}}}}}}}}}");
	assert_shows(top_rig_draw(l, 24, 80), "lines 9–16 of 16");
	top_rig_keys(l, "{");
	assert_shows(top_rig_draw(l, 24, 80), "lines 8–15 of 16");
}

static void test_reserved_memory_is_told_apart_from_used(void **state)
{
	struct top_rig *l = *state;
	struct view_gpu g = view_gpu_unknown(0, 0);
	g.status = VIEW_GPU_PROCESSING;
	g.num_tasks = 1;
	g.memory_total_bytes = INT64_C(80) << 30;
	g.memory_used_bytes = INT64_C(10) << 30;
	g.memory_reserved_bytes = INT64_C(40) << 30;
	g.memory_foreign_bytes = INT64_C(6) << 30;
	assert_int_equal(view_put_gpu(l->model, &g), 0);
	top_rig_draw(l, 24, 120);
	assert_string_equal(top_rig_row(l, 3),
		"  0 mem ━━╍╍╍╍╍╍──────── 10.0/80.0 GiB  util                     –  others 6.0 GiB 40.0 GiB reserved 1 job");
}

static void test_commands_that_begin_alike_are_told_apart(void **state)
{
	struct top_rig *l = *state;
	top_rig_put_job(l, 1, VIEW_JOB_PENDING, "python train.py --config configs/base.yaml --seed 1");
	top_rig_put_job(l, 2, VIEW_JOB_PENDING, "python train.py --config configs/base.yaml --seed 2");
	top_rig_draw(l, 24, 80);
	assert_shows(top_rig_draw(l, 24, 80), "python t…--seed 1\n");
	assert_shows(top_rig_draw(l, 24, 80), "python t…--seed 2\n");
	/* These also differ early, but only the end distinguishes each job from all others. */
	top_rig_put_job(
		l, 3, VIEW_JOB_PENDING, "python train.py --model resnet18 --data /data/images --lr 1e-4 --seed 3");
	top_rig_put_job(
		l, 4, VIEW_JOB_PENDING, "python train.py --model resnet50 --data /data/images --lr 1e-3 --seed 4");
	assert_shows(top_rig_draw(l, 24, 80), "python t…--lr 1e-3 --seed 4\n");
	/* Equal ends do not distinguish them. */
	top_rig_put_job(
		l, 5, VIEW_JOB_PENDING, "python eval.py --model resnet18 --data /data/images --split validation");
	top_rig_put_job(
		l, 6, VIEW_JOB_PENDING, "python eval.py --model resnet50 --data /data/images --split validation");
	assert_shows(top_rig_draw(l, 24, 80), "python e…--model resnet50 -…\n");
}

static void test_unknown_values_are_not_drawn(void **state)
{
	struct top_rig *l = *state;
	struct view_gpu g = {.id = 0,
		.memory_total_bytes = -1,
		.memory_used_bytes = -1,
		.utilization_percent = -1,
		.temperature_celsius = -1,
		.power_milliwatts = -1};
	struct view_gpu sick = {.id = 1, .status = VIEW_GPU_ERROR, .error = "fell off the bus"};
	assert_int_equal(view_put_gpu(l->model, &g), 0);
	assert_int_equal(view_put_gpu(l->model, &sick), 0);
	top_rig_draw(l, 24, 80);
	assert_string_equal(top_rig_row(l, 3), "  0 mem                      –  util             –");
	assert_shows(top_rig_draw(l, 24, 80), "  1 fell off the bus");
	assert_shows(top_rig_draw(l, 24, 80), "no jobs yet");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		top_rig_test(test_screen_shows_queue_gpus_and_jobs),
		top_rig_test(test_running_job_that_is_paused_or_has_an_idle_gpu_is_marked),
		top_rig_test(test_job_on_a_node_is_shown_with_the_node),
		top_rig_test(test_all_queues_have_a_column_and_jobs_their_numbers),
		top_rig_test(test_every_screen_size_is_drawn),
		top_rig_test(test_launches_and_maps_have_lines_of_their_own),
		top_rig_test(test_gpus_that_do_not_fit_can_be_scrolled),
		top_rig_test(test_reserved_memory_is_told_apart_from_used),
		top_rig_test(test_commands_that_begin_alike_are_told_apart),
		top_rig_test(test_unknown_values_are_not_drawn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
