/* SPDX-License-Identifier: MIT */
/* Any bytes as the file of a run: accepted data survives writing and reading unchanged. Only bytes that are not UTF-8
 * are replaced, the first time that they are written. */
#include <stdint.h>
#include <string.h>

#include "cli/run_file.h"
#include "fuzz.h"

static void check_strings(const struct view_run *a, const struct view_run *b)
{
	FUZZ_CHECK(!strcmp(a->kind, b->kind) && !strcmp(a->name, b->name));
	FUZZ_CHECK(a->worker ? b->worker && !strcmp(a->worker, b->worker) : !b->worker);
}

static void check_run(const struct view_run *a, const struct view_run *b)
{
	FUZZ_CHECK(!a->worker == !b->worker);
	FUZZ_CHECK(a->start_ms == b->start_ms && a->total == b->total && a->eta_ms == b->eta_ms);
	FUZZ_CHECK(a->done == b->done && a->failed == b->failed && a->skipped == b->skipped);
	FUZZ_CHECK(a->running == b->running && a->watching == b->watching && a->ending == b->ending);
	/* Decimals are rounded, but known values stay known. */
	FUZZ_CHECK((a->fraction < 0) == (b->fraction < 0) && (a->rtf < 0) == (b->rtf < 0) && b->rate >= 0);
	FUZZ_CHECK(a->num_gpus == b->num_gpus && a->num_gpus <= RUN_FILE_GPUS);
}

static void check_gpu(const struct view_run_gpu *a, const struct view_run_gpu *b)
{
	FUZZ_CHECK(a->id >= 0 && a->id == b->id && a->done == b->done && a->failed == b->failed);
	FUZZ_CHECK((a->rtf < 0) == (b->rtf < 0) && !a->task == !b->task);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run_text run, again, third;
	struct text t = {0};
	if (run_file_parse((const char *)data, size, &run) < 0)
		return 0;
	run_file_format(&t, &run.run);
	FUZZ_CHECK(text_error(&t) == 0);
	FUZZ_CHECK(run_file_parse(t.data, t.length, &again) == 0);
	check_run(&run.run, &again.run);
	for (size_t i = 0; i < run.run.num_gpus; i++)
		check_gpu(&run.gpus[i], &again.gpus[i]);
	text_clear(&t);
	run_file_format(&t, &again.run);
	FUZZ_CHECK(run_file_parse(t.data, t.length, &third) == 0);
	check_strings(&again.run, &third.run);
	run_text_finish(&third);
	run_text_finish(&again);
	run_text_finish(&run);
	text_finish(&t);
	return 0;
}
