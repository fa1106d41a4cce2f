/* SPDX-License-Identifier: MIT */
/* The data for the page: jobs in the usual order, page by page, and always valid JSON. */
#include <string.h>

#include "base/json_read.h"
#include "model_rig.h"
#include "view/web/web_json.h"

static void put(uint64_t id, enum view_job_state state, const char *command)
{
	int gpu = 0;
	struct view_attempt a = {.start_ms = (int64_t)id * 1000,
		.end_ms = state == VIEW_JOB_RUNNING ? -1 : (int64_t)id * 1000 + 500,
		.duration_ms = 500,
		.exit_code = -1,
		.peak_mem_mb = -1,
		.energy_j = -1,
		.state = state,
		.gpus = &gpu,
		.num_gpus = 1};
	bool waits = state == VIEW_JOB_PENDING || state == VIEW_JOB_HELD;
	struct view_job job = {.id = id,
		.command = command,
		.state = state,
		.mem_mb = -1,
		.timeout_ms = -1,
		.attempts = &a,
		.num_attempts = waits ? 0 : 1};
	assert_int_equal(view_put_job(model, &job), 0);
}

static void fill(void)
{
	put(1, VIEW_JOB_COMPLETED, "old");
	put(2, VIEW_JOB_FAILED, "broken");
	put(3, VIEW_JOB_COMPLETED, "new");
	put(4, VIEW_JOB_RUNNING, "first");
	put(5, VIEW_JOB_RUNNING, "second");
	put(6, VIEW_JOB_PENDING, "next");
	put(7, VIEW_JOB_HELD, "later");
}

static void check_page(const struct web_query *q, int64_t total, const uint64_t *ids)
{
	const struct view_job *jobs[WEB_MAX_ROWS];
	size_t count = 0;
	assert_int_equal(web_select(model, q, jobs, &count), total);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(jobs[i]->id, ids[i]);
	assert_int_equal(ids[count], 0);
}

static void test_default_order_shows_running_and_failed_jobs_first(void **state)
{
	(void)state;
	fill();
	struct web_query q = {.usual = true, .limit = 100};
	check_page(&q, 7, (uint64_t[]){5, 4, 6, 7, 3, 2, 1, 0});
	q.selection.states = 1u << VIEW_JOB_FAILED | 1u << VIEW_JOB_PENDING;
	check_page(&q, 2, (uint64_t[]){6, 2, 0});
	q.selection.states = 0;
	q.selection.text = "NE";
	check_page(&q, 2, (uint64_t[]){6, 3, 0});
}

static void test_pages_do_not_overlap(void **state)
{
	(void)state;
	fill();
	struct web_query q = {.usual = true, .limit = 3};
	check_page(&q, 7, (uint64_t[]){5, 4, 6, 0});
	q.offset = 3;
	check_page(&q, 7, (uint64_t[]){7, 3, 2, 0});
	q.offset = 6;
	check_page(&q, 7, (uint64_t[]){1, 0});
	q.offset = 600;
	check_page(&q, 7, (uint64_t[]){0});
	q = (struct web_query){.selection.order = VIEW_BY_ID, .selection.reverse = true, .offset = 5, .limit = 100};
	check_page(&q, 7, (uint64_t[]){2, 1, 0});
}

static void test_words_of_a_query_are_read_strictly(void **state)
{
	struct web_query q = {0};
	(void)state;
	assert_int_equal(web_parse_states(NULL), 0);
	assert_int_equal(web_parse_states(""), 0);
	assert_int_equal(web_parse_states("running,held"), 1 << VIEW_JOB_RUNNING | 1 << VIEW_JOB_HELD);
	assert_int_equal(web_parse_states("running,nonsense"), -1);
	assert_int_equal(web_parse_order("duration", &q), 0);
	assert_int_equal(q.selection.order, VIEW_BY_DURATION);
	assert_false(q.usual);
	assert_int_equal(web_parse_order("usual", &q), 0);
	assert_true(q.usual);
	assert_int_equal(web_parse_order("nonsense", &q), -1);
}

static void assert_json(const struct text *t)
{
	struct json_cursor c;
	struct json_value key, value;
	int r;
	assert_int_equal(text_error(t), 0);
	assert_int_equal(json_begin(&c, text_string(t), t->length), 0);
	while ((r = json_next_member(&c, &key, &value)) > 0)
		;
	assert_int_equal(r, 0);
	assert_int_equal(json_end(&c), 0);
}

static void test_any_command_is_valid_json_and_rows_are_short(void **state)
{
	struct text t = {0};
	char longest[5000];
	(void)state;
	/* Two bytes each: the cut must not split one. */
	for (size_t i = 0; i + 2 < sizeof(longest); i += 2)
		memcpy(longest + i, "ä", 3);
	longest[0] = 'x';
	longest[1] = '"';
	put(1, VIEW_JOB_RUNNING, longest);
	put(2, VIEW_JOB_FAILED, "<img src=x onerror=alert(1)> \"\\ \t\n </script>");
	for (uint64_t id = 1; id <= 2; id++) {
		const struct view_job *job = view_find_job(model, id);
		web_put_row(&t, job);
		assert_json(&t);
		assert_true(t.length < 1200);
		assert_null(strstr(text_string(&t), "\xEF\xBF\xBD"));
		text_clear(&t);
		text_append_char(&t, '{');
		web_put_job(&t, job);
		text_append_char(&t, '}');
		assert_json(&t);
		text_clear(&t);
	}
	text_finish(&t);
}

static void test_unknown_is_null_and_never_zero(void **state)
{
	struct text t = {0};
	struct web_clock clock = {.now_ms = 1000, .now_ns = 1000};
	struct view_facts facts = {.journal = "/q/jobs.jsonl"};
	struct view_gpu gpu = view_gpu_unknown(0, 0);
	(void)state;
	assert_int_equal(view_put_gpu(model, &gpu), 0);
	web_put_state(&t, model, &facts, true, &clock, 0);
	assert_json(&t);
	assert_non_null(strstr(text_string(&t), "\"memory_used\":null"));
	assert_non_null(strstr(text_string(&t), "\"utilization\":null"));
	assert_non_null(strstr(text_string(&t), "\"temperature\":null"));
	text_finish(&t);
}

static void test_state_has_only_samples_newer_than_the_last(void **state)
{
	struct text t = {0};
	struct web_clock clock = {0};
	struct view_facts facts = {0};
	struct view_gpu gpu = {.id = 3};
	(void)state;
	assert_int_equal(view_put_gpu(model, &gpu), 0);
	for (int64_t ms = 1; ms <= 3; ms++)
		view_put_sample(model, 3, &(struct view_sample){ms, ms * 10, (int)ms});
	web_put_state(&t, model, &facts, false, &clock, 2);
	assert_non_null(strstr(text_string(&t), "\"history\":[[3,30,3]]"));
	text_finish(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		model_rig_test(test_default_order_shows_running_and_failed_jobs_first),
		model_rig_test(test_pages_do_not_overlap),
		model_rig_test(test_words_of_a_query_are_read_strictly),
		model_rig_test(test_any_command_is_valid_json_and_rows_are_short),
		model_rig_test(test_unknown_is_null_and_never_zero),
		model_rig_test(test_state_has_only_samples_newer_than_the_last),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
