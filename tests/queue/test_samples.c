/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/journal/samples.h"
#include "support/scratch.h"

static int dir_fd;

static int enter(void **state)
{
	int r = scratch_enter(state);
	dir_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r == 0 && dir_fd >= 0 ? 0 : -1;
}

static int leave(void **state)
{
	close(dir_fd);
	return scratch_leave(state);
}

static int append(int64_t time_ms, uint64_t job)
{
	uint64_t jobs[] = {job, job + 1};
	struct sample_gpu gpus[] = {
		{.gpu = 0, .mem_used_mb = 18044, .mem_total_mb = 24576, .util = 97, .jobs = jobs, .num_jobs = 2},
		{.gpu = 3, .mem_used_mb = -1, .mem_total_mb = -1, .util = -1},
		{.gpu = 4, .mem_used_mb = 0, .mem_total_mb = 1, .util = 0, .jobs = jobs + 1, .num_jobs = 1}};
	return samples_append(dir_fd, &(struct sample){.time_ms = time_ms, .gpus = gpus, .num_gpus = 3});
}

struct seen {
	size_t count;
	int64_t first, last, largest_gap, smallest_gap;
	uint64_t last_job;
};

static int look(void *context, const struct sample *s)
{
	struct seen *seen = context;
	assert_int_equal(s->num_gpus, 3);
	assert_int_equal(s->gpus[0].gpu, 0);
	assert_int_equal(s->gpus[0].mem_used_mb, 18044);
	assert_int_equal(s->gpus[0].mem_total_mb, 24576);
	assert_int_equal(s->gpus[0].util, 97);
	assert_int_equal(s->gpus[0].num_jobs, 2);
	assert_int_equal(s->gpus[0].jobs[1], s->gpus[0].jobs[0] + 1);
	assert_int_equal(s->gpus[1].gpu, 3);
	assert_int_equal(s->gpus[1].mem_used_mb, -1);
	assert_int_equal(s->gpus[1].mem_total_mb, -1);
	assert_int_equal(s->gpus[1].util, -1);
	assert_int_equal(s->gpus[1].num_jobs, 0);
	assert_int_equal(s->gpus[2].mem_used_mb, 0);
	assert_int_equal(s->gpus[2].util, 0);
	assert_int_equal(s->gpus[2].jobs[0], s->gpus[0].jobs[1]);
	if (seen->count++) {
		int64_t gap = s->time_ms - seen->last;
		seen->largest_gap = gap > seen->largest_gap ? gap : seen->largest_gap;
		seen->smallest_gap = gap < seen->smallest_gap || seen->count == 2 ? gap : seen->smallest_gap;
	} else {
		seen->first = s->time_ms;
	}
	seen->last = s->time_ms;
	seen->last_job = s->gpus[0].jobs[0];
	return 0;
}

static struct seen read_all(void)
{
	struct seen seen = {0};
	assert_int_equal(samples_read(dir_fd, look, &seen), 0);
	return seen;
}

static off_t file_size(void)
{
	struct stat st;
	assert_int_equal(stat("samples.jsonl", &st), 0);
	return st.st_size;
}

static void test_samples_are_read_as_they_were_written(void **state)
{
	(void)state;
	struct seen none = {0};
	assert_int_equal(samples_read(dir_fd, look, &none), -ENOENT);
	assert_int_equal(append(1000, 7), 0);
	assert_int_equal(append(6000, UINT64_C(1) << 62), 0);
	struct seen seen = read_all();
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.first, 1000);
	assert_int_equal(seen.last, 6000);
	assert_true(seen.last_job == UINT64_C(1) << 62);
}

static int look_at_peaks(void *context, const struct sample *s)
{
	*(struct sample_peak *)context = s->num_peaks ? s->peaks[s->num_peaks - 1] : (struct sample_peak){0, -1};
	return 7;
}

static void test_last_sample_is_read_once_and_has_the_peaks_of_jobs(void **state)
{
	(void)state;
	struct samples_stamp stamp = {0};
	struct sample_peak last = {0};
	const struct sample_peak peaks[] = {{3, 100}, {UINT64_C(1) << 40, 70000}};
	struct sample s = {.time_ms = 9000, .peaks = peaks, .num_peaks = 2};
	assert_int_equal(samples_read_last(dir_fd, &stamp, look_at_peaks, &last), -ENOENT);
	for (int i = 0; i < 1700; i++)
		assert_int_equal(append(1000 * i, 7), 0);
	assert_int_equal(samples_read_last(dir_fd, &stamp, look_at_peaks, &last), 7);
	assert_int_equal(last.mem_mb, -1);
	assert_int_equal(samples_read_last(dir_fd, &stamp, look_at_peaks, &last), 0);
	assert_int_equal(samples_append(dir_fd, &s), 0);
	assert_int_equal(samples_read_last(dir_fd, &stamp, look_at_peaks, &last), 7);
	assert_true(last.job == UINT64_C(1) << 40 && last.mem_mb == 70000);
	/* An unfinished line of a runner is not the last one. */
	int fd = openat(dir_fd, "samples.jsonl", O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, "{\"time\":1", 9), 9);
	close(fd);
	last.mem_mb = 0;
	assert_int_equal(samples_read_last(dir_fd, &stamp, look_at_peaks, &last), 7);
	assert_int_equal(last.mem_mb, 70000);
}

static int stop(void *context, const struct sample *s)
{
	(void)s;
	return ++*(int *)context == 2 ? 42 : 0;
}

static void test_reading_ends_when_the_callback_asks(void **state)
{
	(void)state;
	int count = 0;
	for (int i = 0; i < 5; i++)
		assert_int_equal(append(1000 * i, 1), 0);
	assert_int_equal(samples_read(dir_fd, stop, &count), 42);
	assert_int_equal(count, 2);
}

/* Many days of samples. */
static void test_a_full_file_is_thinned_evenly_over_its_whole_time(void **state)
{
	(void)state;
	const int64_t start = 1794779540605, count = 60000;
	for (int64_t i = 0; i < count; i++) {
		assert_int_equal(append(start + i * SAMPLES_INTERVAL_MS, (uint64_t)i), 0);
		if (i % 1000 == 0)
			assert_true(file_size() <= (off_t)SAMPLES_MAX_BYTES);
	}
	assert_true(file_size() > (off_t)SAMPLES_MAX_BYTES / 4);
	struct seen seen = read_all();
	assert_int_equal(seen.first, start);
	assert_int_equal(seen.last, start + (count - 1) * SAMPLES_INTERVAL_MS);
	/* 16 times the original distance, twice that where two thinnings meet; the newest are unchanged. */
	assert_int_equal(seen.smallest_gap, SAMPLES_INTERVAL_MS);
	assert_true(seen.largest_gap <= SAMPLES_INTERVAL_MS * 32);
	assert_int_equal(access("samples.jsonl.new", F_OK), -1);
}

/* A clock that is set repeatedly. */
static void test_file_stays_small_if_the_clock_jumps(void **state)
{
	(void)state;
	for (int64_t i = 0; i < 20000; i++)
		assert_int_equal(append(i % 2 ? 5 : INT64_C(1) << 60, 1), 0);
	assert_true(file_size() <= (off_t)SAMPLES_MAX_BYTES);
	assert_true(read_all().count > 0);
}

static void test_bad_and_torn_lines_are_ignored(void **state)
{
	(void)state;
	static const char bad[] =
		"\n[]\n{}\n{\"time\":1}\n{\"time\":1,\"gpus\":{}}\n{\"time\":1,\"gpus\":[7]}\n"
		"{\"time\":1,\"gpus\":[{\"gpu\":-1}]}\n{\"time\":1,\"gpus\":[{\"gpu\":0,\"jobs\":[-3]}]}\n"
		"{\"time\":1,\"gpus\":[{\"gpu\":0,\"mem_used_mb\":9223372036854775807,\"jobs\":[]}]}\n"
		"{\"time\":1,\"gpus\":[{\"gpu\":0,\"jobs\":7}]}\n\0\n{\"time\":1,\"gpus\":[]}x\n{\"time\":12,";
	scratch_write("samples.jsonl", bad, sizeof(bad) - 1);
	assert_int_equal(append(5000, 3), 0);
	struct seen seen = read_all();
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.last_job, 3);
}

static void test_unknown_members_of_a_newer_version_are_ignored(void **state)
{
	(void)state;
	scratch_write_text("samples.jsonl",
		"{\"new\":[1],\"time\":1,\"gpus\":[{\"gpu\":0,\"mem_used_mb\":18044,\"mem_total_mb\":24576,\"util\":97,\"jobs\":[1,2],\"w\":3},"
		"{\"gpu\":3,\"jobs\":[]},{\"gpu\":4,\"mem_used_mb\":0,\"util\":0,\"jobs\":[2]}]}\n");
	assert_int_equal(read_all().count, 1);
}

/* A file too large for the limit of the process, instead of a full disk: write() takes a part, then nothing. */
static void test_sample_that_cannot_be_written_whole_leaves_the_file_unchanged(void **state)
{
	(void)state;
	struct rlimit old, tight;
	assert_int_equal(append(1000, 1), 0);
	off_t size = file_size();
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tight = old;
	tight.rlim_cur = (rlim_t)size + 20;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	int r = append(6000, 2);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(r, -EFBIG);
	assert_int_equal(file_size(), size);
	assert_int_equal(append(11000, 3), 0);
	assert_int_equal(read_all().count, 2);
}

/* A file that cannot be thinned stays as it is, and does not grow. */
static void test_a_file_that_is_not_ours_is_begun_anew(void **state)
{
	(void)state;
	int fd = open("samples.jsonl", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
	close(fd);
	assert_int_equal(append(1000, 1), 0);
	assert_true(file_size() < 1000);
	assert_int_equal(read_all().count, 1);
	assert_int_equal(unlink("samples.jsonl"), 0);
	assert_int_equal(symlink("elsewhere", "samples.jsonl"), 0);
	assert_true(append(1000, 1) < 0);
	assert_int_equal(access("elsewhere", F_OK), -1);
}

#define SAMPLES(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SAMPLES(test_samples_are_read_as_they_were_written),
		SAMPLES(test_last_sample_is_read_once_and_has_the_peaks_of_jobs),
		SAMPLES(test_reading_ends_when_the_callback_asks),
		SAMPLES(test_a_full_file_is_thinned_evenly_over_its_whole_time),
		SAMPLES(test_file_stays_small_if_the_clock_jumps),
		SAMPLES(test_bad_and_torn_lines_are_ignored),
		SAMPLES(test_unknown_members_of_a_newer_version_are_ignored),
		SAMPLES(test_sample_that_cannot_be_written_whole_leaves_the_file_unchanged),
		SAMPLES(test_a_file_that_is_not_ours_is_begun_anew),
	};
	return cmocka_run_group_tests_name("samples", tests, NULL, NULL);
}
