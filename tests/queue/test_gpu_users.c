/* SPDX-License-Identifier: MIT */
/* Which job a process on a GPU belongs to, with real processes, and how often /proc is read for it. */
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "queue/schedule/gpu_users.h"
#include "support/scratch.h"

#define NUM_GPUS  8
#define NUM_USERS 256

static size_t reads;

int __real_process_info(pid_t pid, struct process_info *ret);
int __wrap_process_info(pid_t pid, struct process_info *ret);

int __wrap_process_info(pid_t pid, struct process_info *ret)
{
	reads++;
	return __real_process_info(pid, ret);
}

/* A child and its child, which wait until the pipe is closed. */
struct family {
	pid_t child, grandchild;
	int end;
};

static void wait_for_end(int fd)
{
	struct pollfd p = {.fd = fd};
	(void)poll(&p, 1, -1);
	_exit(0);
}

static struct family start_family(void)
{
	struct family f;
	int end[2], told[2];
	assert_int_equal(pipe(end), 0);
	assert_int_equal(pipe(told), 0);
	f.child = fork();
	assert_true(f.child >= 0);
	if (f.child == 0) {
		close(end[1]);
		pid_t grandchild = fork();
		if (grandchild == 0)
			wait_for_end(end[0]);
		if (write(told[1], &grandchild, sizeof(grandchild)) != sizeof(grandchild))
			_exit(1);
		wait_for_end(end[0]);
	}
	assert_int_equal(read(told[0], &f.grandchild, sizeof(f.grandchild)), sizeof(f.grandchild));
	close(told[0]);
	close(told[1]);
	close(end[0]);
	f.end = end[1];
	return f;
}

static void end_family(const struct family *f)
{
	close(f->end);
	assert_int_equal(waitpid(f->child, NULL, 0), f->child);
}

/* The driver reports the process on every GPU. */
static void find(pid_t pid, struct gpu_user *const *users, size_t count)
{
	const struct gd_gpu_process process = {.size = sizeof(process), .pid = pid}, *processes[] = {&process};
	const struct gd_gpu gpu = {.size = sizeof(gpu), .processes = processes, .num_processes = 1}, *gpus[NUM_GPUS];
	for (size_t i = 0; i < NUM_GPUS; i++)
		gpus[i] = &gpu;
	struct gd_gpu_list list = {.size = sizeof(list), .gpus = gpus, .count = NUM_GPUS};
	reads = 0;
	gpu_users_find(&list, users, count);
}

static void test_process_belongs_to_its_nearest_ancestor(void **state)
{
	(void)state;
	struct family f = start_family();
	struct gpu_user outer = {.root = getpid()}, inner = {.root = f.child}, unknown = {.root = 0};
	find(f.grandchild, (struct gpu_user *[]){&outer, &unknown, &inner}, 3);
	assert_int_equal(inner.num_pids, 1);
	assert_int_equal(inner.pids[0], f.grandchild);
	assert_int_equal(outer.num_pids, 0);
	assert_int_equal(unknown.num_pids, 0);
	end_family(&f);
}

static void test_users_with_the_same_root_get_the_same_processes(void **state)
{
	(void)state;
	struct family f = start_family();
	struct gpu_user users[3] = {{.root = f.child}, {.root = getpid()}, {.root = f.child}};
	find(f.grandchild, (struct gpu_user *[]){&users[0], &users[1], &users[2]}, 3);
	assert_int_equal(users[0].num_pids, 1);
	assert_int_equal(users[1].num_pids, 0);
	assert_int_equal(users[2].num_pids, 1);
	assert_int_equal(users[2].pids[0], f.grandchild);
	end_family(&f);
}

static void test_each_process_is_read_once_for_all_users_and_gpus(void **state)
{
	(void)state;
	static struct gpu_user users[NUM_USERS];
	struct gpu_user *pointers[NUM_USERS];
	struct family f = start_family();
	for (size_t i = 0; i < NUM_USERS; i++)
		pointers[i] = &users[i];
	find(f.grandchild, pointers, NUM_USERS);
	size_t once = reads;
	/* At least the two processes and this one; at most all ancestors. */
	assert_true(once >= 3 && once <= 64);
	find(f.grandchild, pointers, 1);
	assert_int_equal(reads, once);
	end_family(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_process_belongs_to_its_nearest_ancestor),
		cmocka_unit_test(test_users_with_the_same_root_get_the_same_processes),
		cmocka_unit_test(test_each_process_is_read_once_for_all_users_and_gpus),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
