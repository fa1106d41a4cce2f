/* SPDX-License-Identifier: MIT */
/* Workers that are not bound to a GPU, and the seeds of all workers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder.h"
#include "support/wait.h"

/* The report of a worker of each slot about itself. */
static char said[8][128];

static int tell(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	(void)task;
	char text[128];
	const char *cuda = getenv("CUDA_VISIBLE_DEVICES"), *order = getenv("CUDA_DEVICE_ORDER");
	int n = snprintf(text, sizeof(text), "gpu %d device %d seed %lld GPUQ_GPU %s cuda %s order %s",
		gd_worker_gpu(w), gd_worker_device(w), (long long)gd_worker_seed(w), getenv("GPUQ_GPU"),
		cuda ? cuda : "-", order ? order : "-");
	return gd_worker_result(w, text, (size_t)n + 1);
}

static const struct gd_worker_ops teller = {.size = sizeof(struct gd_worker_ops), .process = tell};

static int keep(struct recorder *rec, const struct run_note *note, const struct gd_event *event)
{
	(void)rec;
	if (note->kind == CALLBACK_SUCCESS)
		snprintf(said[event->slot], sizeof(said[0]), "%s", (const char *)event->result.data);
	return 0;
}

/* Opens the pool, and submits tasks until each slot has answered one. Returns the number of slots. */
static int ask_all(struct recorder *rec)
{
	memset(said, 0, sizeof(said));
	rec->on_note = keep;
	struct gd_pool *p = recorder_open(rec, rec->options.worker_argv ? NULL : &teller);
	int slots = gd_pool_wait_ready(p, WAIT_MS);
	uint64_t deadline_ns = wait_deadline_ns();
	for (int slot = 0; slot < slots; slot++)
		while (!said[slot][0]) {
			wait_check(deadline_ns, "an answer of each worker");
			for (int i = 0; i < slots; i++)
				assert_int_equal(gd_pool_submit(p, "x", 1, NULL, NULL, NULL), 0);
			recorder_drain(p);
		}
	assert_int_equal(gd_pool_close(p, NULL, 0, NULL), 0);
	return slots;
}

/* A probe that leaves a mark when it is started. */
static void set_probe(char path[256], char mark[256])
{
	snprintf(path, 256, "%s/probe", recorder_dir());
	snprintf(mark, 256, "%s/probed", recorder_dir());
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "#!/bin/sh\n: > '%s'\nexit 1\n", mark);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0700), 0);
	setenv("GPUQ_PROBE", path, 1);
}

static void test_unbound_gpus_need_not_exist_and_nothing_else_changes(void **state)
{
	struct recorder *rec = *state;
	const int ids[] = {5, 9};
	char path[256], mark[256];
	set_probe(path, mark);
	setenv("CUDA_VISIBLE_DEVICES", "7", 1);
	rec->options.gpus = NULL;
	rec->options.gpu_ids = ids;
	rec->options.num_gpu_ids = 2;
	rec->options.bind = GD_BIND_NONE;
	assert_int_equal(ask_all(rec), 2);
	assert_string_equal(said[0], "gpu 5 device 5 seed 47 GPUQ_GPU 5 cuda 7 order -");
	assert_string_equal(said[1], "gpu 9 device 9 seed 51 GPUQ_GPU 9 cuda 7 order -");
	assert_true(access(mark, F_OK) < 0);
	unsetenv("GPUQ_PROBE");
}

static void test_unbound_gpus_can_be_given_as_text(void **state)
{
	struct recorder *rec = *state;
	char path[256], mark[256];
	set_probe(path, mark);
	rec->options.gpus = "4,6-7";
	rec->options.bind = GD_BIND_NONE;
	assert_int_equal(ask_all(rec), 3);
	assert_string_equal(said[0], "gpu 4 device 4 seed 46 GPUQ_GPU 4 cuda - order -");
	assert_string_equal(said[2], "gpu 7 device 7 seed 49 GPUQ_GPU 7 cuda - order -");
	rec->options.gpus = NULL;
	setenv("GPUQ_GPUS", "3", 1);
	assert_int_equal(ask_all(rec), 1);
	assert_string_equal(said[0], "gpu 3 device 3 seed 45 GPUQ_GPU 3 cuda - order -");
	assert_true(access(mark, F_OK) < 0);
	unsetenv("GPUQ_PROBE");
}

static void test_unbound_gpus_of_the_machine_are_listed_and_not_narrowed(void **state)
{
	struct recorder *rec = *state;
	rec->options.bind = GD_BIND_NONE;
	assert_int_equal(ask_all(rec), 2);
	assert_string_equal(said[1], "gpu 1 device 1 seed 43 GPUQ_GPU 1 cuda - order -");
}

static void test_bound_worker_opens_its_gpu_as_0(void **state)
{
	struct recorder *rec = *state;
	assert_int_equal(ask_all(rec), 2);
	assert_string_equal(said[1], "gpu 1 device 0 seed 43 GPUQ_GPU 1 cuda 1 order PCI_BUS_ID");
}

static void test_negative_and_too_many_unbound_gpus_are_refused(void **state)
{
	struct recorder *rec = *state;
	struct gd_pool *p = NULL;
	const int ids[] = {0, -1};
	rec->options.worker = &teller;
	rec->options.bind = GD_BIND_NONE;
	rec->options.gpus = "0-5000";
	assert_int_equal(gd_pool_open(&rec->options, &rec->calls, &p, &rec->err), -EINVAL);
	rec->options.gpus = NULL;
	rec->options.gpu_ids = ids;
	rec->options.num_gpu_ids = 2;
	assert_int_equal(gd_pool_open(&rec->options, &rec->calls, &p, &rec->err), -EINVAL);
	check_contains(rec->err.message, "GPU -1");
	assert_null(p);
}

static void assert_seeds(int slots, const long long *seeds)
{
	for (int i = 0; i < slots; i++) {
		char expected[32];
		snprintf(expected, sizeof(expected), " seed %lld ", seeds[i]);
		check_contains(said[i], expected);
	}
}

static void test_every_worker_has_a_seed_of_its_own(void **state)
{
	struct recorder *rec = *state;
	const int ids[] = {0, 3, 0};
	rec->options.gpus = NULL;
	rec->options.gpu_ids = ids;
	rec->options.num_gpu_ids = 3;
	rec->options.bind = GD_BIND_NONE;
	rec->options.workers_per_gpu = 2;
	rec->options.base_seed = 100;
	assert_int_equal(ask_all(rec), 6);
	assert_seeds(6, (const long long[]){100, 104, 103, 107, 108, 112});
	rec->options.base_seed = 0;
	rec->options.has_base_seed = 1;
	assert_int_equal(ask_all(rec), 6);
	assert_seeds(6, (const long long[]){0, 4, 3, 7, 8, 12});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		recorder_test(test_unbound_gpus_need_not_exist_and_nothing_else_changes),
		recorder_test(test_unbound_gpus_can_be_given_as_text),
		recorder_test(test_unbound_gpus_of_the_machine_are_listed_and_not_narrowed),
		recorder_test(test_bound_worker_opens_its_gpu_as_0),
		recorder_test(test_negative_and_too_many_unbound_gpus_are_refused),
		recorder_test(test_every_worker_has_a_seed_of_its_own),
	};
	return cmocka_run_group_tests_name("pool_bind", tests, NULL, NULL);
}
