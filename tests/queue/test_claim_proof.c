/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "queue/schedule/claim_entries.h"
#include "support/gpu_pointers.h"
#include "support/process.h"

#define OTHER 54322 /* a user that nobody is */

struct box {
	struct gd_gpu gpus[2];
	struct gd_gpu_list list;
	struct claim_other claims[2];
	struct claims_list claimed;
	struct claim_proofs proofs;
};

static void box_init(struct box *b, uid_t user)
{
	*b = (struct box){0};
	for (int i = 0; i < 2; i++) {
		b->gpus[i] = (struct gd_gpu){.known = GD_GPU_KNOWN_UUID | GD_GPU_KNOWN_PROCESSES,
			.vendor = GD_VENDOR_NVIDIA,
			.index = i,
			.mig_index = -1};
		snprintf(b->gpus[i].uuid, sizeof(b->gpus[i].uuid), "GPU-%d", i);
	}
	b->list = (struct gd_gpu_list){.gpus = gpu_pointers(b->gpus, 2), .count = 2};
	b->claims[0] = (struct claim_other){.owner = user, .info = {.queue = "q", .job = 1, .num_gpus = 1}};
	strcpy(b->claims[0].info.gpus[0], "GPU-0");
	b->claimed = (struct claims_list){.claims = b->claims, .count = 1};
}

static bool counts_after(struct box *b, uint64_t now_ns)
{
	assert_int_equal(claim_proofs_update(&b->proofs, now_ns, &b->claimed, &b->list, false), 0);
	return claim_proofs_count(&b->proofs, now_ns, b->claims[0].owner, 0);
}

static void test_claims_without_a_process_on_the_gpu_count_for_a_while(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, OTHER);
	assert_true(counts_after(&b, 1000));
	assert_true(counts_after(&b, 1000 + CLAIM_PROOF_NS - 1));
	assert_false(counts_after(&b, 1000 + CLAIM_PROOF_NS));
	/* A new claim of the same user does not extend the time. */
	b.claims[0].info.job = 2;
	assert_false(counts_after(&b, 1001 + CLAIM_PROOF_NS));
	/* Another GPU has its own time. */
	b.claims[1] = b.claims[0];
	strcpy(b.claims[1].info.gpus[0], "GPU-1");
	b.claimed.count = 2;
	assert_false(counts_after(&b, 1001 + CLAIM_PROOF_NS));
	assert_true(claim_proofs_count(&b.proofs, 1001 + CLAIM_PROOF_NS, OTHER, 1));
	/* Whoever gives up his claims begins anew. */
	b.claimed.count = 0;
	counts_after(&b, 1002 + CLAIM_PROOF_NS);
	b.claimed.count = 1;
	assert_true(counts_after(&b, 1003 + CLAIM_PROOF_NS));
	claim_proofs_finish(&b.proofs);
}

static void test_claims_of_this_user_and_of_root_always_count(void **state)
{
	(void)state;
	struct box b;
	for (int i = 0; i < 2; i++) {
		box_init(&b, i ? 0 : geteuid());
		assert_true(counts_after(&b, 1000));
		assert_true(counts_after(&b, 1000 + 9 * CLAIM_PROOF_NS));
		claim_proofs_finish(&b.proofs);
	}
}

static void test_claims_count_where_the_driver_does_not_tell_the_processes(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, OTHER);
	b.gpus[0].known = GD_GPU_KNOWN_UUID;
	assert_true(counts_after(&b, 1000));
	assert_true(counts_after(&b, 1000 + 9 * CLAIM_PROOF_NS));
	b.gpus[0].known |= GD_GPU_KNOWN_PROCESSES;
	assert_int_equal(claim_proofs_update(&b.proofs, 1000 + 20 * CLAIM_PROOF_NS, &b.claimed, &b.list, true), 0);
	assert_true(claim_proofs_count(&b.proofs, 1000 + 20 * CLAIM_PROOF_NS, OTHER, 0));
	claim_proofs_finish(&b.proofs);
}

/* A process of another user, which waits to be killed. */
static pid_t start_as(uid_t user)
{
	int ready[2];
	char byte;
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setresuid(user, user, user) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		process_hang();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void test_claims_count_while_a_process_of_their_user_is_on_the_gpu(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct box b;
	box_init(&b, OTHER);
	pid_t pid = start_as(OTHER);
	const struct gd_gpu_process process = {.pid = pid};
	b.gpus[0].processes = process_pointers(&process, 1);
	b.gpus[0].num_processes = 1;
	assert_true(counts_after(&b, 1000));
	assert_true(counts_after(&b, 1000 + 9 * CLAIM_PROOF_NS));
	b.gpus[0].num_processes = 0;
	assert_false(counts_after(&b, 1000 + 10 * CLAIM_PROOF_NS));
	process_kill_child(pid);
	claim_proofs_finish(&b.proofs);
}

/* Otherwise the memory of our own job would count as the claim's, and the job's promise once more. */
static void test_claim_that_names_a_process_of_another_user_is_not_given_it(void **state)
{
	(void)state;
	struct box b;
	struct claim_entry entries[1];
	struct ledger_job jobs[1];
	const struct gd_gpu_process process = {.pid = getpid()};
	box_init(&b, OTHER);
	b.gpus[0].processes = process_pointers(&process, 1);
	b.gpus[0].num_processes = 1;
	b.claims[0].info.pid = getpid();
	assert_int_equal(claim_entries(&b.claimed, &b.list, &b.proofs, entries, jobs), 1);
	assert_int_equal(jobs[0].num_pids, 0);
	b.claims[0].owner = geteuid();
	assert_int_equal(claim_entries(&b.claimed, &b.list, &b.proofs, entries, jobs), 1);
	assert_int_equal(jobs[0].num_pids, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_claims_without_a_process_on_the_gpu_count_for_a_while),
		cmocka_unit_test(test_claims_of_this_user_and_of_root_always_count),
		cmocka_unit_test(test_claims_count_where_the_driver_does_not_tell_the_processes),
		cmocka_unit_test(test_claims_count_while_a_process_of_their_user_is_on_the_gpu),
		cmocka_unit_test(test_claim_that_names_a_process_of_another_user_is_not_given_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
