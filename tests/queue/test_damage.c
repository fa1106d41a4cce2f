/* SPDX-License-Identifier: MIT */
/*
 * Journals that were damaged at random: reading them never crashes, never lets a job with an intact end run again,
 * never changes the state of a job with intact lines, and always reports the damage.
 *
 *     test_queue_damage [SEED [COUNT]]
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "queue/input/submit.h"
#include "queue/journal/follow.h"
#include "queue/journal/journal.h"
#include "queue/journal/record.h"
#include "queue/journal/repair.h"
#include "queue/journal/seal.h"
#include "queue/journal/tally.h"
#include "support/scratch.h"

#define NUM_JOBS  24
#define MOST_LINE 200

#define COMMANDS_FILE "/commands.txt" /* which contains the commands of all jobs */

static uint64_t seed = 1;
static int num_damaged = 150;

/* xorshift64*: the same numbers everywhere. */
static uint64_t chance(uint64_t below)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (seed * UINT64_C(2685821657736338717) >> 16) % below;
}

/* ---- A journal --------------------------------------------------------------------------- */

struct file {
	char *bytes;
	size_t size;
};

/* Position and content of each line of the intact file. */
struct line {
	size_t at, size;
	uint64_t id;
	bool is_end;
};

static struct file intact, lock_file, counts_file;
static struct line lines[MOST_LINE];
static size_t num_lines;
static enum job_state states[NUM_JOBS + 1];

static struct file read_file(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	struct file f = {malloc((size_t)st.st_size + 1), (size_t)st.st_size};
	assert_non_null(f.bytes);
	assert_int_equal(file_read_full(fd, f.bytes, f.size), f.size);
	close(fd);
	return f;
}

static void write_file(const char *path, const char *bytes, size_t size)
{
	/* In place: the counters identify the file by its inode. */
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, bytes, size), 0);
	close(fd);
}

static void put(struct journal *j, const struct text *t)
{
	assert_int_equal(text_error(t), 0);
	assert_int_equal(journal_append_line(j, t->data, t->length, NULL), 0);
}

static void put_control(struct journal *j, enum event event, uint64_t id)
{
	struct text t = {0};
	record_write_control(&t, event, id, NULL);
	put(j, &t);
	text_finish(&t);
}

static void put_attempt(struct journal *j, uint64_t id, uint32_t attempt, enum job_state end)
{
	struct text t = {0};
	record_write_start(
		&t, &(struct attempt_start){
			    .id = id, .attempt = attempt, .pid = 7, .keeper = "k1", .log = "/log", .gpus = NULL});
	put(j, &t);
	text_clear(&t);
	record_write_end(&t, &(struct attempt_end){.id = id,
				     .attempt = attempt,
				     .state = end,
				     .exit_code = end == JOB_FAILED,
				     .duration_ms = 5,
				     .peak_mem_mb = -1,
				     .energy_j = -1});
	if (end != JOB_RUNNING)
		put(j, &t);
	text_finish(&t);
}

/* Jobs of all kinds: pending, held, running, ended at the first or the second attempt, cancelled, retried. */
static void put_job(struct journal *j, int kind)
{
	struct text t = {0};
	assert_int_equal(journal_lock(j, NULL), 0);
	uint64_t id = journal_take_ids(j, 1);
	char command[32];
	int size = snprintf(command, sizeof(command), "echo %d", (int)id);
	record_write_add(&t, id, 1000,
		&(struct job_spec){.command = command,
			.command_size = (size_t)size,
			.file = COMMANDS_FILE,
			.num_gpus = -1,
			.mem_mb = -1,
			.min_free_mem_mb = -1,
			.timeout_ms = -1,
			.retries = kind == 4});
	assert_int_equal(journal_append(j, t.data, t.length, NULL, NULL), 0);
	journal_unlock(j);
	text_finish(&t);
	if (kind == 1 || kind == 6)
		put_control(j, EVENT_HOLD, id);
	if (kind == 6)
		put_control(j, EVENT_RELEASE, id);
	if (kind == 2)
		put_attempt(j, id, 1, JOB_RUNNING);
	if (kind == 3 || kind == 7)
		put_attempt(j, id, 1, JOB_COMPLETED);
	if (kind == 4)
		put_attempt(j, id, 1, JOB_FAILED), put_attempt(j, id, 2, JOB_COMPLETED);
	if (kind == 5)
		put_control(j, EVENT_CANCEL, id);
	if (kind == 7)
		put_control(j, EVENT_RETRY, id);
}

static void find_lines(void)
{
	for (size_t at = 0; at < intact.size; num_lines++) {
		char *newline = memchr(intact.bytes + at, '\n', intact.size - at);
		assert_true(newline && num_lines < MOST_LINE);
		size_t size = (size_t)(newline - (intact.bytes + at)) + 1;
		lines[num_lines] = (struct line){.at = at,
			.size = size,
			.id = tally_line_id(intact.bytes + at, size),
			.is_end = memmem(intact.bytes + at, size, "\"end\"", 5) != NULL};
		at += size;
	}
}

static void read_states(const struct jobs *js, enum job_state *ret)
{
	for (uint64_t id = 1; id <= NUM_JOBS; id++) {
		const struct job *job = jobs_find(js, id);
		ret[id] = job ? (enum job_state)job->state : JOB_UNKNOWN;
	}
}

static int set_up(void **state)
{
	int r = scratch_enter(state);
	struct journal *j;
	struct follow f;
	assert_int_equal(r, 0);
	assert_int_equal(journal_open("jobs.jsonl", false, &j, NULL), 0);
	for (int i = 0; i < NUM_JOBS; i++)
		put_job(j, i % 8);
	journal_close(j);
	struct text t = {0};
	for (int id = 1; id <= NUM_JOBS; id++)
		text_appendf(&t, "echo %d\n", id);
	write_file("commands.txt", t.data, t.length);
	text_finish(&t);
	intact = read_file("jobs.jsonl");
	lock_file = read_file("jobs.jsonl.d/append.lock");
	counts_file = read_file("jobs.jsonl.d/counts");
	num_lines = 0;
	find_lines();
	assert_int_equal(follow_open("jobs.jsonl", false, &f, NULL), 0);
	assert_false(f.jobs.damaged || f.jobs.bad_lines);
	read_states(&f.jobs, states);
	follow_close(&f);
	return 0;
}

static int tear_down(void **state)
{
	free(intact.bytes);
	free(lock_file.bytes);
	free(counts_file.bytes);
	return scratch_leave(state);
}

/* ---- Its damage -------------------------------------------------------------------------- */

static void cut(struct file *f, size_t at, size_t size)
{
	memmove(f->bytes + at, f->bytes + at + size, f->size - at - size);
	f->size -= size;
}

static void insert(struct file *f, size_t at, const char *bytes, size_t size)
{
	f->bytes = realloc(f->bytes, f->size + size + 1);
	assert_non_null(f->bytes);
	memmove(f->bytes + at + size, f->bytes + at, f->size - at);
	memcpy(f->bytes + at, bytes, size);
	f->size += size;
}

static void swap_lines(struct file *f)
{
	size_t a = chance(num_lines), b = chance(num_lines);
	if (f->size != intact.size || a == b)
		return;
	const struct line *x = &lines[a < b ? a : b], *y = &lines[a < b ? b : a];
	cut(f, y->at, y->size);
	cut(f, x->at, x->size);
	insert(f, x->at, intact.bytes + y->at, y->size);
	insert(f, y->at + y->size - x->size, intact.bytes + x->at, x->size);
}

static void damage_once(struct file *f)
{
	size_t at = chance(f->size), size = 1 + chance(f->size - at < 600 ? f->size - at : 600);
	const struct line *l = &lines[chance(num_lines)];
	switch (chance(7)) {
	case 0:
	case 1:
		f->bytes[at] = (char)(f->bytes[at] ^ 1 << chance(8));
		break;
	case 2:
		memset(f->bytes + at, 0, size);
		break;
	case 3:
		cut(f, at, size < f->size ? size : f->size - 1);
		break;
	case 4:
		insert(f, f->size == intact.size ? lines[chance(num_lines)].at : at, intact.bytes + l->at, l->size);
		break;
	case 5:
		swap_lines(f);
		break;
	default:
		f->size = at ? at : 1;
		break;
	}
}

/* ---- Checks ------------------------------------------------------------------------------ */

/* Whether it is still in the file, as a whole line. */
static bool has_line(const struct file *f, const struct line *l)
{
	for (const char *p = f->bytes, *end = p + f->size;
		(p = memmem(p, (size_t)(end - p), intact.bytes + l->at, l->size)); p++)
		if (p == f->bytes || p[-1] == '\n')
			return true;
	return false;
}

static bool has_any_line(const struct file *f)
{
	for (size_t i = 0; i < num_lines; i++)
		if (has_line(f, &lines[i]))
			return true;
	return false;
}

static bool is_untouched(const struct file *f, uint64_t id)
{
	for (size_t i = 0; i < num_lines; i++)
		if (lines[i].id == id && !has_line(f, &lines[i]))
			return false;
	return true;
}

/* The end that finished the job; ends followed by a retry do not count. */
static bool has_last_end(const struct file *f, uint64_t id)
{
	for (size_t i = num_lines; i-- > 0;)
		if (lines[i].id == id)
			return lines[i].is_end && has_line(f, &lines[i]);
	return false;
}

static bool may_start(enum job_state state)
{
	return state == JOB_PENDING;
}

static void check_jobs(const struct file *f, const struct jobs *js)
{
	bool lost = false;
	size_t sum = 0;
	for (uint64_t id = 1; id <= NUM_JOBS; id++) {
		const struct job *job = jobs_find(js, id);
		if (!job) {
			lost = true;
			continue;
		}
		if (has_last_end(f, id) && job->state != states[id])
			fail_msg("job %d whose end is intact is %s", (int)id,
				job_state_name((enum job_state)job->state));
		if (may_start((enum job_state)job->state) && !may_start(states[id]))
			fail_msg("job %d, %s, would be started", (int)id, job_state_name(states[id]));
		if (is_untouched(f, id) && job->state != states[id])
			fail_msg("job %d, not touched, is %s and not %s", (int)id,
				job_state_name((enum job_state)job->state), job_state_name(states[id]));
		lost = lost || job->state != states[id];
	}
	for (int i = 0; i < JOB_STATES; i++)
		sum += js->counts[i];
	assert_int_equal(sum, js->count);
	if (lost)
		assert_true(js->damaged);
}

static void check_reported(const struct file *f, const struct follow *follow)
{
	if (f->size == intact.size && memcmp(f->bytes, intact.bytes, f->size) == 0)
		assert_false(repair_is_needed(&follow->jobs, &follow->reader));
	else if (!repair_is_needed(&follow->jobs, &follow->reader))
		/* At most an empty line was inserted, or the last newline is missing. */
		for (size_t i = 0; i < num_lines; i++)
			assert_true(memmem(f->bytes, f->size, intact.bytes + lines[i].at, lines[i].size - 1) != NULL);
}

static void check_file(const struct file *f)
{
	struct follow follow;
	struct gd_error err = {0};
	int r = follow_open("jobs.jsonl", false, &follow, &err);
	if (r < 0)
		fail_msg("reading: %s", err.message);
	check_jobs(f, &follow.jobs);
	check_reported(f, &follow);
	follow_close(&follow);
}

/* Running the commands file again must start none of its lines a second time. */
static void check_commands_again(struct journal *j)
{
	struct commands *c;
	struct follow follow;
	struct gd_error err = {0};
	struct id_list ids = {0};
	struct job_spec base = {.file = COMMANDS_FILE,
		.num_gpus = -1,
		.mem_mb = -1,
		.min_free_mem_mb = -1,
		.timeout_ms = -1,
		.retries = -1};
	assert_int_equal(commands_read("commands.txt", TRUST_NAMED, &c, NULL), 0);
	if (submit_file(j, c, &base, NULL, &ids, &err) < 0)
		fail_msg("adding lines: %s", err.message);
	commands_close(c);
	assert_int_equal(follow_open_journal(j, &follow, NULL), 0);
	for (size_t i = 0; i < ids.count; i++) {
		const struct job *job = jobs_find(&follow.jobs, ids.ids[i]);
		assert_non_null(job);
		if (may_start((enum job_state)job->state))
			fail_msg("'%.*s' would be started again", (int)job->command_size, job->command);
	}
	follow_close(&follow);
	id_list_finish(&ids);
}

/* The same checks after an append, and after a repair. */
static void check_appended_and_repaired(const struct file *f)
{
	struct journal *j;
	struct gd_error err = {0};
	struct repair_result result;
	struct text t = {0};
	/* Accepted, because the file is not the one of the counters: with a damaged header, it would be refused. */
	int r = journal_open("jobs.jsonl", true, &j, &err);
	if (r < 0)
		fail_msg("opening: %s", err.message);
	/* A file without any intact line is not recognized as a journal, and not changed. */
	r = journal_lock(j, &err);
	if (r == -EINVAL && !has_any_line(f)) {
		journal_close(j);
		return;
	}
	if (r < 0)
		fail_msg("locking: %s", err.message);
	journal_unlock(j);
	record_write_keeper(&t, "k2", 1, &(struct machine){.host = "h"}, "");
	put(j, &t);
	text_finish(&t);
	check_file(f);
	if (repair(j, &result, &err) < 0)
		fail_msg("repairing: %s", err.message);
	struct follow follow;
	assert_int_equal(follow_open("jobs.jsonl", false, &follow, NULL), 0);
	assert_false(repair_is_needed(&follow.jobs, &follow.reader));
	follow.jobs.damaged = true; /* jobs may be permanently missing */
	check_jobs(f, &follow.jobs);
	follow_close(&follow);
	check_commands_again(j);
	journal_close(j);
	unlink(result.kept);
}

static void restore(const struct file *f)
{
	write_file("jobs.jsonl", f->bytes, f->size);
	write_file("jobs.jsonl.d/append.lock", lock_file.bytes, lock_file.size);
	write_file("jobs.jsonl.d/counts", counts_file.bytes, counts_file.size);
}

static void test_damaged_journals_run_nothing_twice_and_are_reported(void **state)
{
	(void)state;
	for (int i = 0; i < num_damaged; i++) {
		struct file f = {malloc(intact.size + 1), intact.size};
		assert_non_null(f.bytes);
		memcpy(f.bytes, intact.bytes, intact.size);
		for (uint64_t times = 1 + chance(3); times > 0; times--)
			damage_once(&f);
		restore(&f);
		check_file(&f);
		if (i % 4 == 0)
			check_appended_and_repaired(&f);
		free(f.bytes);
	}
}

static void test_journal_truncated_at_any_byte_is_reported(void **state)
{
	(void)state;
	size_t step = num_damaged < 2000 ? 37 : 1;
	for (size_t size = 1; size < intact.size; size += step) {
		struct file f = {intact.bytes, size};
		restore(&f);
		check_file(&f);
	}
	/* Cut at the end of each line, where nothing looks torn. */
	for (size_t i = 1; i < num_lines; i++) {
		struct file f = {intact.bytes, lines[i].at};
		struct follow follow;
		restore(&f);
		check_file(&f);
		assert_int_equal(follow_open("jobs.jsonl", false, &follow, NULL), 0);
		assert_true(follow.jobs.damaged);
		follow_close(&follow);
	}
}

static void test_ids_end_at_their_limit(void **state)
{
	(void)state;
	struct journal *j;
	restore(&intact);
	assert_int_equal(journal_open("jobs.jsonl", false, &j, NULL), 0);
	assert_int_equal(journal_lock(j, NULL), 0);
	j->next_id = JOB_MAX_ID - 1;
	assert_int_equal(journal_take_ids(j, 1), JOB_MAX_ID - 1);
	assert_int_equal(journal_take_ids(j, 1), 0);
	assert_int_equal(journal_take_ids(j, UINT64_MAX), 0);
	j->dirty = false;
	journal_unlock(j);
	journal_close(j);
}

/* ---- Numbers and seals ------------------------------------------------------------------- */

static void test_sets_of_numbers(void **state)
{
	(void)state;
	struct number_set s = {0};
	bool model[64] = {0};
	for (int i = 0; i < 3000; i++) {
		uint64_t first = 1 + chance(55), last = first + chance(8);
		bool add = chance(2);
		assert_int_equal(add ? number_set_add(&s, first, last) : number_set_remove(&s, first, last), 0);
		for (uint64_t n = first; n <= last; n++)
			model[n] = add;
		uint64_t size = 0;
		for (uint64_t n = 1; n < 64; n++) {
			assert_int_equal(number_set_has(&s, n), model[n]);
			size += model[n];
		}
		assert_int_equal(number_set_size(&s), size);
		for (size_t k = 1; k < s.count; k++)
			assert_true(s.ranges[k - 1].last + 1 < s.ranges[k].first);
	}
	number_set_finish(&s);
}

static void test_number_of_any_length_is_read_from_a_seal(void **state)
{
	(void)state;
	struct text t = {0};
	size_t body;
	for (uint64_t unit = 1; unit <= UINT64_C(1000000000000000000); unit *= 10)
		for (uint64_t k = 1; k <= 9; k++) {
			const uint64_t numbers[] = {k * unit - 1, k * unit, k * unit + k, unit / 9 * k + 8};
			for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
				uint64_t n = 0, expected = numbers[i];
				text_clear(&t);
				seal_append(&t, "{}", 2, expected);
				int e = seal_check(t.data, t.length - 1, &n, &body);
				assert_int_equal(e, expected ? 0 : -EBADMSG);
				assert_true(n == expected && (e < 0 || body == 1));
			}
		}
	text_finish(&t);
}

/* Only the number is invalid: the checksum is right. */
static void test_seal_without_a_number_is_refused(void **state)
{
	(void)state;
	static const char *const ends[] = {
		"", "x", "-5", "1x", "x1", "12345678x", "0", "00000000", "12345678901234567890", "1/2", "1:2", "\2001"};
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		char line[128];
		uint64_t n;
		size_t body;
		int size = snprintf(line, sizeof(line), "{\"event\":\"hold\",\"id\":3,\"n\":%s", ends[i]);
		size += snprintf(line + size, sizeof(line) - (size_t)size, ",\"c\":\"%08x\"}",
			(unsigned)crc32c(0, line, (size_t)size));
		assert_int_equal(seal_check(line, (size_t)size, &n, &body), -EBADMSG);
	}
}

static void test_every_flipped_bit_breaks_a_seal(void **state)
{
	(void)state;
	struct text t = {0};
	uint64_t n;
	size_t body;
	seal_append(&t, "{\"event\":\"hold\",\"id\":3}\n", 24, 1234);
	assert_non_null(strstr(text_string(&t), "{\"event\":\"hold\",\"id\":3,\"n\":1234,\"c\":\""));
	assert_int_equal(seal_check(t.data, t.length - 1, &n, &body), 0);
	assert_int_equal(n, 1234);
	assert_int_equal(body, 22);
	for (size_t bit = 0; bit < (t.length - 1) * 8; bit++) {
		t.data[bit / 8] = (char)(t.data[bit / 8] ^ 1 << bit % 8);
		assert_int_equal(seal_check(t.data, t.length - 1, &n, &body), -EBADMSG);
		t.data[bit / 8] = (char)(t.data[bit / 8] ^ 1 << bit % 8);
	}
	for (size_t size = 0; size < t.length - 1; size++)
		assert_int_equal(seal_check(t.data, size, &n, &body), -EBADMSG);
	text_finish(&t);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 10) * 2 + 1;
	if (argc > 2)
		num_damaged = atoi(argv[2]);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sets_of_numbers),
		cmocka_unit_test(test_number_of_any_length_is_read_from_a_seal),
		cmocka_unit_test(test_seal_without_a_number_is_refused),
		cmocka_unit_test(test_every_flipped_bit_breaks_a_seal),
		cmocka_unit_test_setup_teardown(
			test_damaged_journals_run_nothing_twice_and_are_reported, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_journal_truncated_at_any_byte_is_reported, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ids_end_at_their_limit, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
