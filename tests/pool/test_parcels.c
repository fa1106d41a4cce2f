/* SPDX-License-Identifier: MIT */
/*
 * Executed workers that send other descriptors than the one of their result. Slot 0
 * does, in every task; slot 1 does not.
 */
#include "outbox.h"
#include "pool_rig.h"

#include <dirent.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/worker.h"
#include "support/process.h"

#define MOST_FDS 253 /* the kernel takes no more with one message */
#define SIZE     ((size_t)5 << 20)

/* ---- The worker --------------------------------------------------------- */

static int send_fds(int socket, int fd, size_t count)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(MOST_FDS * sizeof(int))];
	} control = {0};
	char byte = 'p';
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(count * sizeof(int)),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(count * sizeof(int));
	for (size_t i = 0; i < count; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
	return sendmsg(socket, &message, 0) == 1 ? 0 : -1;
}

/* Sends this many descriptors, announces a large result, wakes the pool, and does not end by itself. */
static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	(void)state;
	struct rig_job job = pool_rig_job(task);
	if (gd_worker_slot(w) != 0)
		return pool_rig_reply(w, &job);
	if (send_fds(WORKER_FIRST_FD + 2, STDERR_FILENO, job.argument) < 0)
		_exit(93);
	outbox_publish(outbox_find(),
		(struct ring_desc){
			.kind = RING_DONE, .id = gd_worker_task_id(w, 0), .flags = RING_EXTERNAL, .size = SIZE});
	uint64_t one = 1;
	if (write(WORKER_FIRST_FD + 3, &one, sizeof(one)) < 0)
		_exit(94);
	process_hang();
}

/* ---- The pool ----------------------------------------------------------- */

static size_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	size_t n = 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void open_hostile(struct pool_rig *rig, const char *gpus)
{
	static const char *const argv[] = {"/proc/self/exe", "--worker", NULL};
	rig->options.worker_argv = argv;
	rig->options.output = GD_OUTPUT_SILENT;
	rig->options.gpus = gpus;
	pool_rig_open(rig, NULL);
}

static void test_worker_that_sends_too_many_descriptors_is_ended_and_leaks_none(void **state)
{
	static const uint32_t counts[] = {2, 4, 5, MOST_FDS};
	struct pool_rig *rig = *state;
	open_hostile(rig, "sim:1");
	pid_t hostile = pool_rig_pid(rig, 0, 0);
	size_t before = count_fds();
	for (size_t i = 0; i < 20; i++) {
		pool_rig_submit(rig, 0, counts[i % 4]);
		pool_rig_drain(rig);
		assert_int_equal(rig->errors, i + 1);
		assert_int_equal(rig->failure.event.failure, GD_FAILURE_CRASHED);
		check_contains(rig->failure.message,
			"the worker was killed because it broke the protocol: it sent a result that is not a sealed");
		hostile = pool_rig_pid(rig, 0, hostile);
		assert_int_equal(count_fds(), before);
	}
	assert_int_equal(pool_rig_close(rig), 0);
	assert_int_equal(rig->close_stats.restarts, 20);
}

static void test_worker_that_sends_too_many_descriptors_fails_only_its_own_tasks(void **state)
{
	struct pool_rig *rig = *state;
	rig->distrusted = 0;
	open_hostile(rig, "sim:2");
	pool_rig_pid(rig, 0, 0);
	pool_rig_pid(rig, 1, 0);
	while (rig->errors == 0 || rig->successes == 0) {
		pool_rig_submit(rig, 0, 2);
		gd_pool_poll(rig->pool, 0, 0);
	}
	pool_rig_drain(rig);
	assert_int_equal(rig->failed_elsewhere, 0);
	assert_int_equal(rig->successes + rig->errors, rig->submitted);
	assert_int_equal(pool_rig_close(rig), 0);
}

int main(int argc, char **argv)
{
	static const struct gd_worker_ops ops = {.size = sizeof(struct gd_worker_ops), .process = process};
	if (argc > 1 && strcmp(argv[1], "--worker") == 0)
		return gd_worker_main(&ops);
	const struct CMUnitTest tests[] = {
		pool_rig_test(test_worker_that_sends_too_many_descriptors_is_ended_and_leaks_none),
		pool_rig_test(test_worker_that_sends_too_many_descriptors_fails_only_its_own_tasks),
	};
	return cmocka_run_group_tests_name("pool parcels", tests, NULL, NULL);
}
