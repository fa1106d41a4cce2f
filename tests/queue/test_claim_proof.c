/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/schedule/claim_entries.h"
#include "queue/schedule/claim_proof_file.h"
#include "support/gpu_pointers.h"
#include "support/process.h"
#include "support/scratch.h"

#define OTHER 54322 /* an unused user id */

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

static bool counts_now(struct box *b, uint64_t now_ns)
{
	assert_int_equal(claim_proofs_update(&b->proofs, now_ns, &b->claimed, &b->list, false), 0);
	return claim_proofs_count(&b->proofs, now_ns, b->claims[0].owner, "GPU-0");
}

/* Like a runner that checks repeatedly. Returns the time at the end. */
static uint64_t look_for(struct box *b, uint64_t now_ns, uint64_t duration_ns)
{
	for (uint64_t end_ns = now_ns + duration_ns; now_ns < end_ns;) {
		uint64_t rest_ns = end_ns - now_ns;
		counts_now(b, now_ns);
		now_ns += rest_ns < CLAIM_PROOF_GAP_NS ? rest_ns : CLAIM_PROOF_GAP_NS;
	}
	return now_ns;
}

static void test_claims_without_a_process_on_the_gpu_count_for_a_while(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, OTHER);
	uint64_t now_ns = look_for(&b, 1000, CLAIM_PROOF_NS - 1);
	assert_true(counts_now(&b, now_ns));
	assert_false(counts_now(&b, now_ns + 1));
	/* A new claim of the same user does not extend the time. */
	b.claims[0].info.job = 2;
	assert_false(counts_now(&b, now_ns + 2));
	/* Another GPU has its own time. */
	b.claims[1] = b.claims[0];
	strcpy(b.claims[1].info.gpus[0], "GPU-1");
	b.claimed.count = 2;
	assert_false(counts_now(&b, now_ns + 3));
	assert_true(claim_proofs_count(&b.proofs, now_ns + 3, OTHER, "GPU-1"));
	claim_proofs_finish(&b.proofs);
}

static void test_claims_that_are_given_up_for_a_moment_get_no_new_time(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, OTHER);
	uint64_t now_ns = look_for(&b, 1000, CLAIM_PROOF_NS);
	assert_false(counts_now(&b, now_ns));
	b.claimed.count = 0;
	counts_now(&b, now_ns + 1);
	b.claimed.count = 1;
	assert_false(counts_now(&b, now_ns + CLAIM_PROOF_FORGET_NS - 1));
	/* After a day without a claim the user's time starts again. */
	assert_true(counts_now(&b, now_ns + 2 * CLAIM_PROOF_FORGET_NS));
	claim_proofs_finish(&b.proofs);
}

/* Jobs that are shorter than the time between two samples of the GPU are never seen on it. */
static void test_time_without_a_claim_is_not_counted(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, OTHER);
	for (uint64_t hour = 0; hour < 10; hour++)
		assert_true(counts_now(&b, 1000 + hour * 3600 * NS_PER_S));
	claim_proofs_finish(&b.proofs);
}

/* Thousands of subordinate ids, each for a moment. */
static void test_many_short_claims_do_not_stop_those_of_others_from_counting(void **state)
{
	(void)state;
	enum { ROUNDS = 16, PER_ROUND = 1024 };
	struct box b;
	box_init(&b, OTHER);
	struct claims_list others = {.claims = calloc(PER_ROUND, sizeof(*others.claims)), .count = PER_ROUND};
	assert_non_null(others.claims);
	for (uid_t round = 0; round < ROUNDS; round++) {
		for (uid_t i = 0; i < PER_ROUND; i++) {
			others.claims[i] = b.claims[0];
			others.claims[i].owner = 100000 + round * PER_ROUND + i;
		}
		assert_int_equal(claim_proofs_update(&b.proofs, 1000 + round, &others, &b.list, false), 0);
	}
	assert_true(counts_now(&b, 1000 + ROUNDS + CLAIM_PROOF_GAP_NS));
	free(others.claims);
	claim_proofs_finish(&b.proofs);
}

static void test_claims_of_this_user_and_of_root_always_count(void **state)
{
	(void)state;
	struct box b;
	for (int i = 0; i < 2; i++) {
		box_init(&b, i ? 0 : geteuid());
		assert_true(counts_now(&b, look_for(&b, 1000, 9 * CLAIM_PROOF_NS)));
		claim_proofs_finish(&b.proofs);
	}
}

static void test_claims_count_where_the_driver_names_no_process_while_memory_is_in_use(void **state)
{
	(void)state;
	struct box b;
	box_init(&b, OTHER);
	b.gpus[0].known = GD_GPU_KNOWN_UUID | GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_USED;
	b.gpus[0].memory_total_bytes = 160;
	b.gpus[0].memory_used_bytes = 9;
	uint64_t now_ns = look_for(&b, 1000, CLAIM_PROOF_NS);
	assert_false(counts_now(&b, now_ns));
	b.gpus[0].memory_used_bytes = 10;
	assert_true(counts_now(&b, now_ns + 1));
	/* That does not prove that this user uses it: the user's time remains used up. */
	b.gpus[0].memory_used_bytes = 9;
	assert_false(counts_now(&b, now_ns + 2));
	/* In a container the driver's PIDs are not ours. */
	b.gpus[0].known |= GD_GPU_KNOWN_PROCESSES;
	b.gpus[0].memory_used_bytes = 10;
	assert_false(counts_now(&b, now_ns + 3));
	assert_int_equal(claim_proofs_update(&b.proofs, now_ns + 4, &b.claimed, &b.list, true), 0);
	assert_true(claim_proofs_count(&b.proofs, now_ns + 4, OTHER, "GPU-0"));
	claim_proofs_finish(&b.proofs);
}

/* The directory of claims, and the state directory if `with_state`. */
static struct claims *open_claims(bool with_state)
{
	struct claims *c = NULL;
	struct claims_list none;
	unsetenv("HOME");
	setenv("XDG_STATE_HOME", with_state ? scratch_path() : "", 1);
	assert_int_equal(claims_open("claims", &c, NULL), 0);
	assert_int_equal(claims_list(c, "", &none), 0);
	claims_list_finish(&none);
	return c;
}

static void sync_proofs(struct claim_proofs *p, uint64_t now_ns, struct claims *c)
{
	assert_int_equal(claim_proofs_sync(p, now_ns, "a/host", c), 0);
}

/* One runner sees half of the time, the next one the rest; a third one and gpuq why know that it is used up. */
static void share_time(bool with_state)
{
	struct box first, second;
	const uint64_t begin_ns = 50 * CLAIM_PROOF_FORGET_NS;
	struct claims *c = open_claims(with_state);
	box_init(&first, OTHER);
	box_init(&second, OTHER);
	uint64_t now_ns = look_for(&first, begin_ns, CLAIM_PROOF_NS / 2);
	assert_true(counts_now(&first, now_ns));
	sync_proofs(&first.proofs, now_ns, c);
	sync_proofs(&second.proofs, now_ns, c);
	now_ns = look_for(&second, now_ns, CLAIM_PROOF_NS / 2);
	assert_false(counts_now(&second, now_ns));
	sync_proofs(&second.proofs, now_ns, c);
	claim_proofs_finish(&first.proofs);
	assert_int_equal(claim_proofs_load(&first.proofs, now_ns, "a/host", c), 0);
	assert_false(counts_now(&first, now_ns));
	/* A clock that is set back changes nothing. The record of another machine with the same home is not used. */
	claim_proofs_finish(&first.proofs);
	assert_int_equal(claim_proofs_load(&first.proofs, begin_ns / 2, "a/host", c), 0);
	assert_false(counts_now(&first, begin_ns / 2));
	claim_proofs_finish(&first.proofs);
	assert_int_equal(claim_proofs_load(&first.proofs, now_ns, "b", c), 0);
	assert_int_equal(first.proofs.count, with_state ? 0 : 1);
	claim_proofs_finish(&first.proofs);
	claim_proofs_finish(&second.proofs);
	claims_close(c);
}

static void test_runners_of_a_user_share_the_time(void **state)
{
	(void)state;
	share_time(true);
	assert_true(scratch_has("gpuq/claims-a_host"));
}

static void test_time_is_shared_without_a_state_directory(void **state)
{
	(void)state;
	share_time(false);
	assert_false(scratch_has("gpuq"));
}

/* A runner that looks every second, and ends before it would write the file again. Returns whether the claim counts. */
static bool run_shortly(struct claims *c, const struct machine *here, uint64_t now_ns)
{
	struct box b;
	bool counts = true;
	box_init(&b, OTHER);
	for (uint64_t end_ns = now_ns + CLAIM_PROOF_SYNC_NS; now_ns < end_ns; now_ns += NS_PER_S) {
		assert_int_equal(claim_proofs_update_shared(&b.proofs, now_ns, c, &b.claimed, &b.list, here), 0);
		counts = claim_proofs_count(&b.proofs, now_ns, OTHER, "GPU-0");
	}
	claim_proofs_finish(&b.proofs);
	return counts;
}

static void test_time_of_runners_that_end_soon_counts(void **state)
{
	(void)state;
	struct machine here;
	const uint64_t begin_ns = 50 * CLAIM_PROOF_FORGET_NS;
	uint64_t now_ns = begin_ns;
	struct claims *c = open_claims(true);
	assert_int_equal(machine_get(&here), 0);
	while (run_shortly(c, &here, now_ns) && now_ns < begin_ns + 4 * CLAIM_PROOF_NS)
		now_ns += CLAIM_PROOF_SYNC_NS;
	assert_true(now_ns > begin_ns + CLAIM_PROOF_NS - 2 * CLAIM_PROOF_SYNC_NS);
	assert_true(now_ns < begin_ns + CLAIM_PROOF_NS + 2 * CLAIM_PROOF_SYNC_NS);
	claims_close(c);
}

/* Holds a lock on the file until it is killed. */
static pid_t start_holder(const char *path, short type)
{
	int ready[2];
	char byte;
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int fd = open(path, type == F_RDLCK ? O_RDONLY : O_RDWR);
		if (fd < 0 || fcntl(fd, F_SETLK, &lock) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		process_hang();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* The claimant could open the file for reading. */
static void test_read_lock_gives_claims_no_new_time(void **state)
{
	(void)state;
	struct stat st;
	scratch_write_text("text", "gpuq-proofs 2\n54322 GPU-0 900000000000 1000 0 .\n");
	struct claims *c = open_claims(true);
	assert_int_equal(mkdir("gpuq", 0700), 0);
	assert_int_equal(rename("text", "gpuq/claims-a_host"), 0);
	assert_int_equal(chmod("gpuq/claims-a_host", 0644), 0);
	pid_t reader = start_holder("gpuq/claims-a_host", F_RDLCK);
	struct box b;
	box_init(&b, OTHER);
	sync_proofs(&b.proofs, 1000, c);
	assert_false(counts_now(&b, 1000));
	/* What this runner knows is written, too. */
	const struct claim_proof more = {.user = OTHER, .gpu = "GPU-1", .spent_ns = 5, .seen_ns = 1000};
	assert_int_equal(claim_proofs_merge(&b.proofs, &more), 0);
	sync_proofs(&b.proofs, 1000 + CLAIM_PROOF_SYNC_NS, c);
	assert_non_null(strstr(scratch_read("gpuq/claims-a_host"), "54322 GPU-1 5 "));
	assert_int_equal(stat("gpuq/claims-a_host", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	claim_proofs_finish(&b.proofs);
	process_kill_child(reader);
	claims_close(c);
}

static void test_file_that_another_runner_writes_is_only_read(void **state)
{
	(void)state;
	static const char text[] = "gpuq-proofs 2\n54322 GPU-0 900000000000 1000 0 .\n";
	struct claims *c = open_claims(true);
	assert_int_equal(mkdir("gpuq", 0700), 0);
	scratch_write_text("gpuq/claims-a_host", text);
	pid_t writer = start_holder("gpuq/claims-a_host", F_WRLCK);
	struct box b;
	box_init(&b, OTHER);
	const struct claim_proof more = {.user = OTHER, .gpu = "GPU-1", .spent_ns = 5, .seen_ns = 1000};
	assert_int_equal(claim_proofs_merge(&b.proofs, &more), 0);
	sync_proofs(&b.proofs, 1000, c);
	assert_false(counts_now(&b, 1000));
	assert_string_equal(scratch_read("gpuq/claims-a_host"), text);
	claim_proofs_finish(&b.proofs);
	process_kill_child(writer);
	claims_close(c);
}

/* Another user could have written the directory: the folder of claims is used. */
static void test_time_is_not_kept_where_others_can_write(void **state)
{
	(void)state;
	assert_int_equal(mkdir("gpuq", 0700), 0);
	assert_int_equal(chmod("gpuq", 0777), 0);
	struct claims *c = open_claims(true);
	struct claim_proofs p = {0};
	sync_proofs(&p, 1000, c);
	assert_false(scratch_has("gpuq/claims-a_host"));
	claims_close(c);
}

static void test_proof_that_one_runner_saw_counts_for_the_others(void **state)
{
	(void)state;
	struct claim_proofs p = {0};
	const struct claim_proof unproven = {.user = OTHER, .gpu = "GPU-0", .spent_ns = CLAIM_PROOF_NS, .seen_ns = 5};
	const struct claim_proof proven = {.user = OTHER, .gpu = "GPU-0", .spent_ns = 1, .seen_ns = 4, .proved_ns = 3};
	assert_int_equal(claim_proofs_merge(&p, &unproven), 0);
	assert_false(claim_proofs_count(&p, 5, OTHER, "GPU-0"));
	assert_int_equal(claim_proofs_merge(&p, &proven), 0);
	assert_true(claim_proofs_count(&p, 5, OTHER, "GPU-0"));
	assert_int_equal(claim_proofs_merge(&p, &unproven), 0);
	assert_true(claim_proofs_count(&p, 5, OTHER, "GPU-0"));
	assert_int_equal(p.count, 1);
	claim_proofs_finish(&p);
}

static void test_damaged_file_of_proofs_is_ignored_and_written_anew(void **state)
{
	(void)state;
	static const char *const texts[] = {"", "x", "gpuq-proofs 2", "gpuq-proofs 2\n1 2 3 4 5",
		"gpuq-proofs 2\n54322 GPU-0 900000000000 1 0", "gpuq-proofs 1 boot\n54322 GPU-0 900000000000 1 0 .\n",
		"gpuq-proofs 2\n-1 GPU-0\n\n\n"};
	struct claims *c = open_claims(true);
	assert_int_equal(mkdir("gpuq", 0700), 0);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct box b;
		box_init(&b, OTHER);
		scratch_write_text("gpuq/claims-a_host", texts[i]);
		sync_proofs(&b.proofs, 1000, c);
		assert_string_equal(scratch_read("gpuq/claims-a_host"), "gpuq-proofs 2\n");
		assert_true(counts_now(&b, 1000));
		claim_proofs_finish(&b.proofs);
	}
	claims_close(c);
}

/* Starts a process of another user, which waits to be killed. */
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
	uint64_t now_ns = look_for(&b, 1000, 9 * CLAIM_PROOF_NS);
	assert_true(counts_now(&b, now_ns));
	b.gpus[0].num_processes = 0;
	now_ns = look_for(&b, now_ns, CLAIM_PROOF_NS - 1);
	assert_true(counts_now(&b, now_ns));
	assert_false(counts_now(&b, now_ns + 1));
	process_kill_child(pid);
	claim_proofs_finish(&b.proofs);
}

/* Otherwise the memory of our own job would count as the claim's, and the job's promise would be counted twice. */
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
		cmocka_unit_test(test_claims_that_are_given_up_for_a_moment_get_no_new_time),
		cmocka_unit_test(test_time_without_a_claim_is_not_counted),
		cmocka_unit_test(test_many_short_claims_do_not_stop_those_of_others_from_counting),
		cmocka_unit_test(test_claims_of_this_user_and_of_root_always_count),
		cmocka_unit_test(test_claims_count_where_the_driver_names_no_process_while_memory_is_in_use),
		scratch_test(test_runners_of_a_user_share_the_time),
		scratch_test(test_time_is_shared_without_a_state_directory),
		scratch_test(test_time_of_runners_that_end_soon_counts),
		scratch_test(test_read_lock_gives_claims_no_new_time),
		scratch_test(test_file_that_another_runner_writes_is_only_read),
		scratch_test(test_time_is_not_kept_where_others_can_write),
		cmocka_unit_test(test_proof_that_one_runner_saw_counts_for_the_others),
		scratch_test(test_damaged_file_of_proofs_is_ignored_and_written_anew),
		cmocka_unit_test(test_claims_count_while_a_process_of_their_user_is_on_the_gpu),
		cmocka_unit_test(test_claim_that_names_a_process_of_another_user_is_not_given_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
