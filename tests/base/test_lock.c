/* SPDX-License-Identifier: MIT */
/* Locks, and read locks of processes that can only read the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "support/process.h"
#include "support/scratch.h"

#define NAME "file.lock"

static int open_lock(void)
{
	int fd = open(NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	return fd;
}

/* Write locks: of an open file description, and of a process that ended before another one with the same descriptors.
 */
enum { DESCRIPTION = 100, TABLE };

static bool take(int fd, short type)
{
	struct flock lock = {
		.l_type = type < DESCRIPTION ? type : F_WRLCK, .l_whence = SEEK_SET, .l_start = 7, .l_len = 1};
	if (type != TABLE)
		return fcntl(fd, type == DESCRIPTION ? F_OFD_SETLK : F_SETLK, &lock) == 0;
	long child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (child == 0)
		_exit(fcntl(fd, F_SETLK, &lock) < 0);
	return child > 0 && process_exit_code((pid_t)child) == 0;
}

/* A process that holds a lock of this type until it is killed. */
static pid_t start_holder(short type)
{
	int ready[2];
	char byte;
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int fd = open(NAME, type == F_RDLCK ? O_RDONLY : O_RDWR);
		if (fd < 0 || !take(fd, type) || write(ready[1], "x", 1) != 1)
			_exit(1);
		process_hang();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void test_read_lock_does_not_show_that_a_process_is_alive(void **state)
{
	(void)state;
	pid_t holder = -1;
	int fd = open_lock();
	pid_t reader = start_holder(F_RDLCK);
	assert_int_equal(lock_try(fd), -EAGAIN);
	assert_int_equal(lock_holder(fd, &holder), 0);
	assert_int_equal(holder, 0);
	process_kill_child(reader);
	pid_t writer = start_holder(F_WRLCK);
	assert_int_equal(lock_holder(fd, &holder), 0);
	assert_int_equal(holder, writer);
	process_kill_child(writer);
	assert_int_equal(lock_try(fd), 0);
	close(fd);
}

static struct {
	void (*on_pause)(void);
	pid_t holder;
	uint64_t begin_ns, total_ns, limit_ns, longest_ns;
	unsigned count;
} impatient;

/* These functions replace those of the C library. With on_pause, pauses take no time, and the clock shows only them. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (syscall(SYS_clock_gettime, clock, ret) < 0)
		return -1;
	if (!impatient.on_pause)
		return 0;
	uint64_t ns = impatient.begin_ns + impatient.total_ns;
	*ret = (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
	return 0;
}

int nanosleep(const struct timespec *t, struct timespec *rest)
{
	uint64_t ns = (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_nsec;
	if (!impatient.on_pause)
		return clock_nanosleep(CLOCK_MONOTONIC, 0, t, rest) == 0 ? 0 : -1;
	impatient.total_ns += ns;
	impatient.count++;
	impatient.longest_ns = ns > impatient.longest_ns ? ns : impatient.longest_ns;
	impatient.on_pause();
	return 0;
}

static void replace_holder(short type)
{
	if (impatient.holder)
		process_kill_child(impatient.holder);
	impatient.holder = type == F_UNLCK ? 0 : start_holder(type);
}

/* Takes a lock that another process has. */
static int wait_impatiently(void (*on_pause)(void), short type)
{
	int fd = open_lock();
	impatient.total_ns = impatient.longest_ns = impatient.count = 0;
	replace_holder(type);
	impatient.begin_ns = clock_now_ns();
	impatient.on_pause = on_pause;
	int r = lock_take(fd);
	impatient.on_pause = NULL;
	replace_holder(F_UNLCK);
	close(fd);
	return r;
}

static void release_in_time(void)
{
	if (impatient.total_ns >= impatient.limit_ns)
		replace_holder(F_UNLCK);
}

static void wait_behind_writer(uint64_t limit_ns)
{
	impatient.limit_ns = limit_ns;
	assert_int_equal(wait_impatiently(release_in_time, F_WRLCK), 0);
}

/* Each retry is a request to the server of a network file system. */
static void test_long_wait_retries_less_often(void **state)
{
	(void)state;
	wait_behind_writer(NS_PER_MS);
	assert_true(impatient.longest_ns <= NS_PER_MS);
	wait_behind_writer(100 * NS_PER_MS);
	assert_true(impatient.longest_ns <= 10 * NS_PER_MS);
	wait_behind_writer(10 * NS_PER_S);
	assert_true(impatient.longest_ns <= 100 * NS_PER_MS);
	assert_true(impatient.count < 200);
}

static void test_read_lock_blocks_no_process_forever(void **state)
{
	(void)state;
	char words[LOCK_WORDS_ROOM], expected[32];
	int fd = open_lock();
	pid_t reader = start_holder(F_RDLCK);
	assert_int_equal(lock_take(fd), LOCK_BLOCKED);
	assert_int_equal(lock_take_free(fd), LOCK_BLOCKED);
	snprintf(expected, sizeof(expected), "process %d of ", (int)reader);
	lock_describe_reader(fd, words);
	assert_memory_equal(words, expected, strlen(expected));
	process_kill_child(reader);
	assert_int_equal(lock_take(fd), 0);
	close(fd);
}

static void nothing(void)
{
}

/* Such a lock may be that of another host, so its process counts as alive. */
static void test_lock_without_a_process_is_not_waited_for_forever(void **state)
{
	(void)state;
	static const short types[] = {DESCRIPTION, TABLE};
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		pid_t found = 0;
		int fd = open_lock();
		assert_int_equal(wait_impatiently(nothing, types[i]), LOCK_BLOCKED);
		assert_in_range(impatient.total_ns, LOCK_UNKNOWN_MS * NS_PER_MS, 2 * LOCK_UNKNOWN_MS * NS_PER_MS);
		pid_t holder = start_holder(types[i]);
		assert_int_equal(lock_holder(fd, &found), 0);
		assert_int_not_equal(found, 0);
		assert_int_equal(lock_take_free(fd), -EAGAIN);
		process_kill_child(holder);
		close(fd);
	}
}

/* A reader at the beginning and one after limit_ns, each for one pause. In between, a writer. */
static void let_readers_come_and_go(void)
{
	if (impatient.count == 1) {
		replace_holder(F_WRLCK);
	} else if (!impatient.limit_ns) {
		replace_holder(F_UNLCK);
	} else if (impatient.total_ns >= impatient.limit_ns) {
		replace_holder(F_RDLCK);
		impatient.limit_ns = 0;
	}
}

/* A writer has the lock for half of the time. */
static void alternate(void)
{
	replace_holder(impatient.count % 2 ? F_WRLCK : F_RDLCK);
}

static void test_only_readers_that_come_again_and_again_end_a_long_wait(void **state)
{
	(void)state;
	impatient.limit_ns = 3600 * NS_PER_S;
	assert_int_equal(wait_impatiently(let_readers_come_and_go, F_RDLCK), 0);
	assert_int_equal(wait_impatiently(alternate, F_RDLCK), LOCK_BLOCKED);
	assert_in_range(impatient.total_ns, LOCK_READER_MS * NS_PER_MS, 2 * LOCK_READER_MS * NS_PER_MS);
}

static void test_lock_is_not_waited_for_if_it_should_be_free(void **state)
{
	(void)state;
	int fd = open_lock();
	pid_t writer = start_holder(F_WRLCK);
	assert_int_equal(lock_take_free(fd), -EAGAIN);
	process_kill_child(writer);
	assert_int_equal(lock_take_free(fd), 0);
	close(fd);
}

/* Each process adds to a number that only the lock protects. */
static void test_one_process_at_a_time_has_the_lock(void **state)
{
	(void)state;
	enum { PROCESSES = 8, ROUNDS = 200 };
	pid_t pids[PROCESSES];
	int number = 0, fd = open_lock();
	assert_int_equal(pwrite(fd, &number, sizeof(number), 0), sizeof(number));
	for (int i = 0; i < PROCESSES; i++)
		if ((pids[i] = fork()) == 0) {
			bool ok = true;
			for (int n = 0; n < ROUNDS && ok; n++) {
				ok = lock_take(fd) == 0 && pread(fd, &number, sizeof(number), 0) == sizeof(number);
				number++;
				ok = ok && pwrite(fd, &number, sizeof(number), 0) == sizeof(number) &&
				     lock_release(fd) == 0;
			}
			_exit(!ok);
		}
	for (int i = 0; i < PROCESSES; i++)
		assert_int_equal(process_exit_code(pids[i]), 0);
	assert_int_equal(pread(fd, &number, sizeof(number), 0), sizeof(number));
	assert_int_equal(number, PROCESSES * ROUNDS);
	close(fd);
}

static void test_protection_removes_the_permissions_of_others(void **state)
{
	(void)state;
	struct stat st;
	int fd = open_lock();
	assert_int_equal(fchmod(fd, 0644), 0);
	lock_protect(fd);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_read_lock_does_not_show_that_a_process_is_alive),
		scratch_test(test_long_wait_retries_less_often),
		scratch_test(test_read_lock_blocks_no_process_forever),
		scratch_test(test_lock_without_a_process_is_not_waited_for_forever),
		scratch_test(test_only_readers_that_come_again_and_again_end_a_long_wait),
		scratch_test(test_lock_is_not_waited_for_if_it_should_be_free),
		scratch_test(test_one_process_at_a_time_has_the_lock),
		scratch_test(test_protection_removes_the_permissions_of_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
