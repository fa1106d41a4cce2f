/* SPDX-License-Identifier: MIT */
/* The counters of a journal: after restarts and power cuts, on a full disk, and read while they are written. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "queue/journal/draft.h"
#include "queue/journal/follow.h"
#include "queue/journal/journal_private.h"
#include "queue/journal/record.h"
#include "support/scratch.h"

#define PATH     "jobs.jsonl"
#define NUM_JOBS 8

/* ---- Replacements of C library functions ------------------------------------------------------ */

static int fail_writes_of = -1; /* this descriptor's disk is full */
/* Not static: glibc declares pread() and gethostname() inline, and clang refuses static variables in such functions. */
int torn_reads; /* how many times the counters are read while being written */
static bool fail_syncs;
static off_t synced_size; /* of the last synced file */
const char *host = "here";

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at);
ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at)
{
	if (fd == fail_writes_of) {
		errno = ENOSPC;
		return -1;
	}
	return syscall(SYS_pwrite64, fd, bytes, size, at);
}

ssize_t pread64(int fd, void *bytes, size_t size, off64_t at);
ssize_t pread64(int fd, void *bytes, size_t size, off64_t at)
{
	static const char begin[] = "gpuq-counters";
	ssize_t n = syscall(SYS_pread64, fd, bytes, size, at);
	if (torn_reads > 0 && n > (ssize_t)sizeof(begin) && memcmp(bytes, begin, sizeof(begin) - 1) == 0) {
		torn_reads--;
		((char *)bytes)[sizeof(begin) + 8] ^= 1;
	}
	return n;
}

ssize_t __pread64_chk(int fd, void *bytes, size_t size, off64_t at, size_t room);
ssize_t __pread64_chk(int fd, void *bytes, size_t size, off64_t at, size_t room)
{
	(void)room;
	return pread64(fd, bytes, size, at);
}

int fdatasync(int fd)
{
	struct stat st;
	if (fail_syncs || fstat(fd, &st) < 0) {
		errno = EIO;
		return -1;
	}
	synced_size = st.st_size;
	return 0;
}

int gethostname(char *name, size_t size)
{
	return snprintf(name, size, "%s", host) < (int)size ? 0 : -1;
}

/* ---- A journal -------------------------------------------------------------------------------- */

static void write_add(struct text *t, uint64_t id)
{
	record_write_add(t, id, 1,
		&(struct job_spec){.command = "true",
			.command_size = 4,
			.num_gpus = -1,
			.mem_mb = -1,
			.min_free_mem_mb = -1,
			.timeout_ms = -1});
	assert_int_equal(text_error(t), 0);
}

static struct journal *opened(void)
{
	struct journal *j;
	assert_int_equal(journal_open(PATH, false, &j, NULL), 0);
	return j;
}

/* The header has number 1, job N number N + 1. */
static int set_up(void **state)
{
	int r = scratch_enter(state);
	struct text t = {0};
	struct journal *j = opened();
	assert_int_equal(journal_lock(j, NULL), 0);
	uint64_t first = journal_take_ids(j, NUM_JOBS);
	for (uint64_t i = 0; i < NUM_JOBS; i++)
		write_add(&t, first + i);
	assert_int_equal(journal_append(j, t.data, t.length, NULL, NULL), 0);
	journal_unlock(j);
	journal_close(j);
	text_finish(&t);
	return r;
}

static int set_up_on_two_words(void **state)
{
	host = "two words";
	return set_up(state);
}

static void restart_machine(uint64_t synced_n)
{
	struct journal_counters c;
	int fd = open(PATH ".d/append.lock", O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0 && journal_counters_read(fd, &c));
	strcpy(c.boot, "another");
	if (synced_n)
		c.synced_n = synced_n;
	assert_int_equal(journal_counters_store(fd, &c), 0);
	close(fd);
}

/* Removes `count` lines from line `first` on, counted from 0, and returns the size of the rest. */
static off_t take_lines(size_t first, size_t count)
{
	char bytes[16384];
	int fd = open(PATH, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t n = read(fd, bytes, sizeof(bytes) - 1);
	assert_in_range(n, 1, sizeof(bytes) - 2);
	bytes[n] = '\0';
	char *from = bytes;
	for (; first > 0; first--)
		from = strchr(from, '\n') + 1;
	char *to = from;
	for (; count > 0; count--)
		to = strchr(to, '\n') + 1;
	memmove(from, to, strlen(to) + 1);
	n = (ssize_t)strlen(bytes);
	assert_true(pwrite(fd, bytes, (size_t)n, 0) == n && ftruncate(fd, n) == 0);
	close(fd);
	return n;
}

static bool is_damaged(void)
{
	struct follow f;
	assert_int_equal(follow_open(PATH, false, &f, NULL), 0);
	bool damaged = f.jobs.damaged;
	follow_close(&f);
	return damaged;
}

/* ---- Tests ------------------------------------------------------------------------------------ */

static void test_permitted_loss_survives_another_power_cut(void **state)
{
	(void)state;
	restart_machine(2);
	synced_size = take_lines(5, 1);
	struct journal *j = opened();
	assert_int_equal(journal_lock(j, NULL), 0);
	journal_unlock(j);
	journal_close(j);
	assert_false(is_damaged());
	/* Unsynced data is lost. */
	assert_int_equal(truncate(PATH, synced_size), 0);
	restart_machine(0);
	assert_false(is_damaged());
}

static void test_permitted_loss_that_cannot_be_synced_is_still_permitted(void **state)
{
	fail_syncs = true;
	test_permitted_loss_survives_another_power_cut(state);
	fail_syncs = false;
}

static void test_host_name_that_is_not_one_word_is_the_same_host(void **state)
{
	(void)state;
	restart_machine(3);
	take_lines(5, 1);
	assert_false(is_damaged());
	host = "here";
}

static void test_counters_that_are_being_written_are_read_again(void **state)
{
	(void)state;
	take_lines(NUM_JOBS, 1);
	for (int torn = 0; torn <= 3; torn++) {
		torn_reads = torn;
		assert_true(is_damaged());
		assert_int_equal(torn_reads, 0);
	}
}

static void test_counts_that_a_full_disk_has_truncated_are_rebuilt(void **state)
{
	(void)state;
	struct journal *j = opened();
	struct draft d;
	struct text t = {0};
	struct stat st;
	write_add(&t, 1);
	assert_int_equal(journal_lock(j, NULL), 0);
	assert_int_equal(draft_open(&d, j, NULL), 0);
	assert_int_equal(draft_add(&d, t.data, t.length), 0);
	assert_int_equal(draft_sync(&d), 0);
	fail_writes_of = j->counts_fd;
	assert_int_equal(draft_commit(&d, NULL), -ENOSPC);
	fail_writes_of = -1;
	draft_close(&d);
	journal_unlock(j);
	assert_int_equal(journal_lock(j, NULL), 0);
	journal_unlock(j);
	assert_int_equal(fstat(j->counts_fd, &st), 0);
	assert_int_equal(st.st_size, 2);
	journal_close(j);
	text_finish(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_permitted_loss_survives_another_power_cut, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(
			test_permitted_loss_that_cannot_be_synced_is_still_permitted, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(
			test_host_name_that_is_not_one_word_is_the_same_host, set_up_on_two_words, scratch_leave),
		cmocka_unit_test_setup_teardown(
			test_counters_that_are_being_written_are_read_again, set_up, scratch_leave),
		cmocka_unit_test_setup_teardown(
			test_counts_that_a_full_disk_has_truncated_are_rebuilt, set_up, scratch_leave),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
