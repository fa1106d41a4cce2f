/* SPDX-License-Identifier: MIT */
/* Reading guesses that a line is like the one before; wrong guesses must not change the result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/date.h"
#include "queue/journal/jobs.h"
#include "queue/journal/record.h"

static int parse(const char *line, struct record *r)
{
	return record_parse(line, strlen(line), r);
}

static void test_times_are_as_the_calendar_says_in_any_order(void **state)
{
	(void)state;
	static const char *const times[] = {"2026-11-15T22:12:54.350Z", "2026-11-15T22:12:55.001Z",
		"2026-11-15T22:12:60.000Z", "2026-11-15T22:13:00.999Z", "2026-11-15T22:13:00.999+",
		"1969-12-31T23:59:59.001Z", "1969-12-31T23:59:00.500Z", "2026-11-15T22:13:61.000Z",
		"2026-11-15T22:13:0x.000Z", "2026-11-15T22:13:07.00xZ", "2026-11-15T22:13:07.123Z",
		"2026-11-15T22:13:07.12Z", "2026-11-15T22:13:07.1234Z", "2026-11-15T22:13:07.123+01:00"};
	const size_t count = sizeof(times) / sizeof(times[0]);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < count; k++) {
			const char *const pair[] = {times[i], times[k]};
			for (size_t n = 0; n < 2; n++) {
				char line[128];
				struct record r;
				int64_t expected;
				snprintf(line, sizeof(line), "{\"event\":\"hold\",\"id\":1,\"time\":\"%s\"}", pair[n]);
				int want = date_parse(pair[n], strlen(pair[n]), &expected) < 0 ? -EBADMSG : 0;
				assert_int_equal(parse(line, &r), want);
				if (want == 0)
					assert_int_equal(r.time_ms, expected);
			}
		}
}

static void test_parser_keeps_nothing_of_the_previous_line(void **state)
{
	(void)state;
	struct record r;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(
			parse("{\"event\":\"add\",\"id\":7,\"command\":\"a\",\"name\":\"n\",\"after\":[1],"
			      "\"mem_mb\":5,\"min_free_mem_mb\":6,\"held\":true,\"gpu\":\"0,1\","
			      "\"exclusive\":true,\"host_mem_mb\":7,\"cpus\":8,"
			      "\"cwd_dev\":9,\"cwd_ino\":10,\"group\":11,\"array_index\":0,\"future\":[{}],"
			      "\"signal\":10,\"signal_before\":60.000,\"requeue_on\":85,\"script\":\"s\",\"tree\":\"t\",\"commit\":\"c\",\"tags\":[\"a\"],\"after_any\":[2,3],\"begin\":\"2026-11-15T22:12:54.350Z\"}",
				&r),
			0);
		assert_true(r.name.size == 1 && r.after.type && r.mem_mb == 5 && r.min_free_mem_mb == 6 && r.held);
		assert_true(r.gpu.size == 3 && r.exclusive && r.host_mem_mb == 7 && r.cpus == 8);
		assert_true(r.cwd_dev == 9 && r.cwd_ino == 10);
		assert_true(r.group == 11 && r.array_index == 0 && r.unknown_member);
		assert_true(r.signal == 10 && r.signal_before_ms == 60000 && r.requeue_on == 85);
		assert_true(r.tree.size == 1 && r.commit.size == 1 && r.script.size == 1 && r.tags.type &&
			    r.after_any.type && r.begin_ms > 0);
		assert_int_equal(
			parse("{\"event\":\"add\",\"id\":8,\"command\":\"b\",\"name\":null,\"after\":null}", &r), 0);
		assert_true(r.id == 8 && !r.name.type && !r.after.type && r.mem_mb == -1 && r.min_free_mem_mb == -1);
		assert_false(r.held);
		assert_true(r.group == 0 && r.array_index == -1 && !r.unknown_member);
		assert_true(r.signal == 0 && r.signal_before_ms == 0 && r.requeue_on == 0);
		assert_true(!r.tree.type && !r.commit.type && !r.script.type && !r.tags.type && !r.after_any.type &&
			    r.begin_ms == 0);
		assert_true(!r.gpu.type && !r.exclusive && r.host_mem_mb == 0 && r.cpus == 0 && r.cwd_ino == 0);
		assert_int_equal(parse("{\"event\":\"add\",\"id\":9,\"command\":7}", &r), -EBADMSG);
		assert_int_equal(parse("{\"event\":\"add\",\"id\":9,\"command\":\"c\",\"name\":[]}", &r), -EBADMSG);
		assert_int_equal(
			parse("{\"event\":\"add\",\"id\":9,\"command\":\"c\",\"mem_mb\":8796093022208}", &r), -EBADMSG);
		assert_int_equal(parse("{ \"event\" : \"add\" , \"id\":9,\"command\" :\"c\"}", &r), 0);
		assert_true(r.command.size == 1 && *r.command.data == 'c' && !r.name.type);
	}
}

/* The value of a correctly guessed key is read by shorter code, unless white space precedes it. */
static void test_a_value_means_the_same_after_a_guessed_key(void **state)
{
	(void)state;
	static const char *const keys[] = {
		"id", "attempt", "exit_code", "duration", "time", "keeper", "event", "version", "gpus"};
	static const char *const values[] = {"0", "1", "-1", "00", "01", "7x", "7 ", "7", "1.5", "1.50", "1.012",
		"0.012", "00.012", ".012", "1.", "1.0123", "12345678901.012", "1234567890123.012", "1e3", "1.012e3",
		"2147483647", "2147483648", "999999999999999999", "9223372036854775807", "9223372036854775808",
		"99999999999999999999", "null", "true", "[1]", "[1", "[1]x", "[x]", "[]", "[12]", "[1,2]", "[ 3]", "{}",
		"\"\"", "\"a\"", "\"end\"", "\"e\\u006ed\"", "\"a\\\"b\"", "\"\xc3\xa4\"", "\"\xff\"", "\"a\tb\"",
		"\"open", "\"2026-11-15T22:12:54.350Z\"", "\"2026-11-15T22:12:54.35\\\"\"",
		"\"2026-11-15T22:12:5\".350Z\"", "\"2026-11-15T22:12:54.350Zx"};
	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
		for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
			static const char format[] = "{\"event\":\"stuck\",\"pid\":5,\"%s\":%s%s,\"id\":3}";
			const char *usual = strcmp(keys[k], "time") == 0     ? "\"2026-11-15T22:12:54.350Z\""
					    : strcmp(keys[k], "keeper") == 0 ? "\"k\""
					    : strcmp(keys[k], "event") == 0  ? "\"stuck\""
					    : strcmp(keys[k], "gpus") == 0   ? "[2]"
									     : "1";
			char teach[256], guessed[256], spaced[256];
			struct record r, other;
			snprintf(teach, sizeof(teach), format, keys[k], "", usual);
			snprintf(guessed, sizeof(guessed), format, keys[k], "", values[v]);
			snprintf(spaced, sizeof(spaced), format, keys[k], " ", values[v]);
			for (int i = 0; i < 2; i++)
				assert_int_equal(parse(teach, &r), 0);
			int result = parse(guessed, &r);
			assert_int_equal(result, parse(spaced, &other));
			if (result < 0)
				continue;
			assert_true(r.id == other.id && r.attempt == other.attempt && r.time_ms == other.time_ms &&
				    r.exit_code == other.exit_code && r.duration_ms == other.duration_ms);
			assert_true(r.event == other.event && r.version == other.version && r.pid == other.pid);
			assert_true(r.keeper.type == other.keeper.type && r.keeper.size == other.keeper.size &&
				    r.keeper.escaped == other.keeper.escaped);
			if (r.keeper.type)
				assert_memory_equal(r.keeper.data, other.keeper.data, r.keeper.size);
			assert_true(r.gpus.type == other.gpus.type && r.gpus.size == other.gpus.size);
			if (r.gpus.type)
				assert_memory_equal(r.gpus.data, other.gpus.data, r.gpus.size);
		}
}

static void test_event_is_read_by_its_whole_name(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		enum event event;
	} names[] = {{"end", EVENT_END}, {"endless", EVENT_UNKNOWN}, {"en", EVENT_UNKNOWN}, {"add", EVENT_ADD},
		{"adding ", EVENT_UNKNOWN}, {"edit", EVENT_EDIT}, {"release", EVENT_RELEASE}, {"rel", EVENT_UNKNOWN}};
	const size_t count = sizeof(names) / sizeof(names[0]);
	for (size_t i = 0; i < count * count * 2; i++) {
		size_t at = i % 2 ? i / 2 % count : i / 2 / count;
		char line[128];
		struct record r;
		snprintf(line, sizeof(line), "{\"event\":\"%s\",\"id\":1,\"command\":\"\"}", names[at].name);
		assert_int_equal(parse(line, &r), 0);
		assert_int_equal(r.event, names[at].event);
	}
}

static void apply_line(struct jobs *js, const char *line)
{
	assert_int_equal(jobs_apply(js, 0, line, strlen(line)), 0);
}

static void test_each_attempt_has_the_gpus_of_its_line(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int count, gpus[3];
	} lists[] = {{"[3]", 1, {3}}, {"[]", 0, {0}}, {"[0]", 1, {0}}, {"[3]", 1, {3}}, {"[12]", 1, {12}},
		{"[3,0,9]", 3, {3, 0, 9}}, {"[9]", 1, {9}}, {"null", 0, {0}}};
	const size_t count = sizeof(lists) / sizeof(lists[0]);
	struct jobs js;
	char line[128];
	jobs_init(&js);
	for (size_t i = 0; i < count; i++) {
		snprintf(line, sizeof(line), "{\"event\":\"add\",\"id\":%zu,\"command\":\"a\"}", i + 1);
		apply_line(&js, line);
		snprintf(line, sizeof(line), "{\"event\":\"start\",\"id\":%zu,\"attempt\":1,\"gpus\":%s}", i + 1,
			lists[i].text);
		apply_line(&js, line);
	}
	for (size_t i = 0; i < count; i++) {
		const struct job_attempt *a = jobs_find(&js, i + 1)->attempts;
		assert_int_equal(a->num_gpus, lists[i].count);
		assert_memory_equal(a->gpus, lists[i].gpus, (size_t)lists[i].count * sizeof(int));
	}
	apply_line(&js, "{\"event\":\"add\",\"id\":50,\"command\":\"a\"}");
	apply_line(&js, "{\"event\":\"start\",\"id\":50,\"attempt\":1,\"gpus\":[x]}");
	assert_int_equal(js.bad_lines, 1);
	jobs_finish(&js);
}

static void test_hook_of_an_idle_gpu_and_that_of_the_end_are_distinguished(void **state)
{
	(void)state;
	struct jobs js;
	jobs_init(&js);
	apply_line(&js, "{\"event\":\"add\",\"id\":1,\"command\":\"x\",\"on_finish\":\"h\",\"idle_warn\":60}");
	apply_line(&js, "{\"event\":\"start\",\"id\":1,\"attempt\":1,\"gpus\":[3,4]}");
	apply_line(&js, "{\"event\":\"idle\",\"id\":1,\"attempt\":1,\"time\":\"2026-11-15T22:00:10.000Z\","
			"\"gpus\":[4],\"since\":\"2026-11-15T22:00:00.000Z\",\"idle\":10.000,\"hook\":true}");
	const struct job *job = jobs_find(&js, 1);
	assert_int_equal(job->wish->idle_warn_ms, 60000);
	assert_true(job_attempt_is_idle(job->attempts));
	apply_line(&js, "{\"event\":\"end\",\"id\":1,\"attempt\":1,\"time\":\"2026-11-15T22:01:00.000Z\","
			"\"status\":\"completed\",\"exit_code\":0,\"energy_j\":77,\"hook\":true}");
	assert_false(job_attempt_is_idle(job->attempts));
	assert_int_equal(job_attempt_idle_ms(job->attempts, 0), 60000);
	assert_int_equal(job->attempts->energy_j, 77);
	assert_int_equal(job->hooks_due, 2);
	apply_line(&js, "{\"event\":\"hook\",\"id\":1,\"attempt\":1,\"try\":1,\"status\":\"completed\"}");
	assert_true(job->hooks_due == 1 && js.hooks->idle && js.hooks->state == JOB_RUNNING);
	apply_line(&js, "{\"event\":\"idle\",\"id\":1,\"attempt\":1,\"try\":2}");
	assert_int_equal(js.hooks->tries, 2);
	apply_line(&js, "{\"event\":\"idle\",\"id\":1,\"attempt\":1,\"try\":2,\"status\":\"completed\"}");
	assert_null(js.hooks);
	/* After the end it has no effect, and a rewritten journal gives the same result. */
	apply_line(&js, "{\"event\":\"idle\",\"id\":1,\"attempt\":1,\"gpus\":[],\"idle\":99,\"hook\":true}");
	assert_null(js.hooks);
	struct text lines = {0};
	record_write_job(&lines, job);
	struct jobs copy;
	jobs_init(&copy);
	for (char *line = strtok(lines.data, "\n"); line; line = strtok(NULL, "\n"))
		apply_line(&copy, line);
	const struct job_attempt *a = jobs_find(&copy, 1)->attempts;
	assert_true(job_attempt_idle_ms(a, 0) == 60000 && a->energy_j == 77);
	assert_int_equal(jobs_find(&copy, 1)->wish->idle_warn_ms, 60000);
	text_finish(&lines);
	jobs_finish(&copy);
	jobs_finish(&js);
}

/* ---- Coordinators and pilots ---- */

static void apply_text(struct jobs *js, struct text *t)
{
	uint64_t no = 0;
	assert_int_equal(text_error(t), 0);
	for (char *line = t->data, *end; line < t->data + t->length; line = end + 1) {
		end = memchr(line, '\n', (size_t)(t->data + t->length - line));
		assert_int_equal(jobs_apply(js, ++no, line, (size_t)(end - line)), 0);
	}
	assert_int_equal(js->bad_lines, 0);
	text_clear(t);
}

static void write_pilot_start(struct text *t, uint32_t attempt, uint64_t epoch)
{
	record_write_start(t, &(struct attempt_start){.id = 1,
				      .attempt = attempt,
				      .keeper = "",
				      .pilot = "p1",
				      .epoch = epoch,
				      .log = "/logs/a",
				      .gpus = (int[]){3},
				      .num_gpus = 1});
}

static const struct machine login = {.host = "login"};

static void begin_cluster(struct jobs *js, struct text *t)
{
	jobs_init(js);
	record_write_add(t, 1, 5000,
		&(struct job_spec){.command = "a",
			.command_size = 1,
			.num_gpus = -1,
			.mem_mb = -1,
			.min_free_mem_mb = -1,
			.timeout_ms = -1,
			.retries = -1});
	record_write_coordinator(t, 1, &login, 5, 600000);
	record_write_pilot(t, &(struct pilot_record){.name = "p1",
				      .epoch = 1,
				      .node = "node7",
				      .slurm_job = 12,
				      .started_ms = 4000,
				      .lease_ms = 900000,
				      .until_ms = 90000});
	apply_text(js, t);
}

/* Even for a directory that others can write. */
static void test_directory_is_read_as_it_was_written(void **state)
{
	(void)state;
	struct jobs js;
	struct text t = {0};
	jobs_init(&js);
	record_write_add(&t, 1, 5000,
		&(struct job_spec){
			.command = "a", .command_size = 1, .cwd = "/a", .cwd_id = {9, (uint64_t)INT64_MAX + 2}});
	record_write_add(
		&t, 2, 5000, &(struct job_spec){.command = "a", .command_size = 1, .cwd = "/a", .cwd_own = true});
	apply_text(&js, &t);
	const struct job_wish *open = jobs_find(&js, 1)->wish, *own = jobs_find(&js, 2)->wish;
	assert_true(!open->cwd_own && open->cwd_id.dev == 9 && open->cwd_id.ino == (uint64_t)INT64_MAX + 2);
	assert_true(own->cwd_own && own->cwd_id.ino == 0);
	jobs_finish(&js);
	text_finish(&t);
}

static void test_pilots_are_read_as_they_were_written(void **state)
{
	(void)state;
	struct jobs js;
	struct text t = {0};
	begin_cluster(&js, &t);
	assert_int_equal(js.epoch, 1);
	assert_string_equal(js.epoch_host, "login");
	assert_int_equal(js.max_lease_ms, 900000);
	struct queue_pilot *p = jobs_pilot(&js, "p1", 2);
	assert_non_null(p);
	assert_string_equal(p->keeper.machine.host, "node7");
	assert_true(
		p->keeper.is_pilot && p->slurm_job == 12 && p->started_ms == 4000 && p->until_ms == 90000 && !p->gone);
	/* A lower lease does not shorten the wait for a pilot that may have the longer one. */
	record_write_pilot(&t,
		&(struct pilot_record){.name = "p1", .epoch = 1, .node = "node7", .slurm_job = 12, .lease_ms = 1000});
	write_pilot_start(&t, 1, 1);
	apply_text(&js, &t);
	assert_int_equal(p->lease_ms, 900000);
	const struct job *job = jobs_find(&js, 1);
	assert_true(job->state == JOB_RUNNING && job->keeper == &p->keeper && job->attempts->gpus[0] == 3);
	assert_string_equal(job->attempts->log, "/logs/a");
	record_write_void(&t, 1, 1, 1);
	record_write_pilot(&t, &(struct pilot_record){.name = "p1", .epoch = 1, .gone = true});
	apply_text(&js, &t);
	assert_true(job->state == JOB_PENDING && p->gone && job_next_attempt(job) == 2 && !js.pilots->next);
	text_finish(&t);
	jobs_finish(&js);
}

static void test_replaced_coordinator_writes_nothing_but_ends(void **state)
{
	(void)state;
	struct jobs js;
	struct text t = {0};
	begin_cluster(&js, &t);
	const struct job *job = jobs_find(&js, 1);
	const struct queue_pilot *p = jobs_pilot(&js, "p1", 2);
	record_write_coordinator(&t, 2, &login, 6, 0);
	write_pilot_start(&t, 1, 1);
	record_write_pilot(&t, &(struct pilot_record){.name = "p1", .epoch = 1, .gone = true});
	record_write_coordinator(&t, 1, &login, 5, 0);
	apply_text(&js, &t);
	assert_true(job->state == JOB_PENDING && !job->attempts && !p->gone && js.epoch == 2);
	write_pilot_start(&t, 1, 2);
	record_write_void(&t, 1, 1, 1);
	apply_text(&js, &t);
	assert_true(job->state == JOB_RUNNING);
	record_write_end(&t, &(struct attempt_end){.id = 1,
				     .attempt = 1,
				     .state = JOB_COMPLETED,
				     .exit_code = 0,
				     .duration_ms = -1,
				     .peak_mem_mb = -1});
	apply_text(&js, &t);
	assert_true(job->state == JOB_COMPLETED);
	/* Each line is a record of its job, even without effect. */
	assert_int_equal(job->records, 5);
	text_finish(&t);
	jobs_finish(&js);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times_are_as_the_calendar_says_in_any_order),
		cmocka_unit_test(test_parser_keeps_nothing_of_the_previous_line),
		cmocka_unit_test(test_a_value_means_the_same_after_a_guessed_key),
		cmocka_unit_test(test_event_is_read_by_its_whole_name),
		cmocka_unit_test(test_each_attempt_has_the_gpus_of_its_line),
		cmocka_unit_test(test_hook_of_an_idle_gpu_and_that_of_the_end_are_distinguished),
		cmocka_unit_test(test_directory_is_read_as_it_was_written),
		cmocka_unit_test(test_pilots_are_read_as_they_were_written),
		cmocka_unit_test(test_replaced_coordinator_writes_nothing_but_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
