/* SPDX-License-Identifier: MIT */
/* Any bytes as a journal: read safely, and understood events are shown as valid JSON. */
#include <errno.h>
#include <string.h>

#include "base/json_read.h"
#include "fuzz.h"
#include "queue/journal/job_json.h"
#include "queue/journal/job_line.h"
#include "queue/journal/jobs.h"
#include "queue/journal/record.h"

static void check_counts(const struct jobs *js)
{
	size_t sum = 0;
	for (int i = 0; i < JOB_STATES; i++)
		sum += js->counts[i];
	FUZZ_CHECK(sum == js->count);
	for (size_t i = 1; i < js->count; i++)
		FUZZ_CHECK(js->by_id[i - 1]->id < js->by_id[i]->id);
}

static void check_shown(const struct job *job)
{
	struct text t = {0};
	struct json_cursor c;
	struct json_value key, value;
	int r;
	job_json_write(&t, job);
	FUZZ_CHECK(text_error(&t) == 0 && json_begin(&c, t.data, t.length) == 0);
	while ((r = json_next_member(&c, &key, &value)) > 0)
		;
	FUZZ_CHECK(r == 0 && json_end(&c) == 0);
	text_clear(&t);
	job_line_write(
		&t, job, &(struct job_line_options){.id_width = 3, .command_width = 20, .name_width = 10, .width = 60});
	FUZZ_CHECK(memchr(text_string(&t), '\n', t.length) == NULL);
	text_finish(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jobs js;
	jobs_init(&js);
	const char *p = (const char *)data, *end = p + size, *newline;
	int r = 0;
	for (uint64_t n = 1; r == 0 && p < end && (newline = memchr(p, '\n', (size_t)(end - p))); n++, p = newline + 1)
		r = jobs_apply(&js, n, p, (size_t)(newline - p));
	FUZZ_CHECK(r == 0 || r == -ENOTSUP);
	check_counts(&js);
	for (size_t i = 0; i < js.count && i < 64; i++)
		check_shown(js.by_id[i]);
	jobs_finish(&js);
	return 0;
}
