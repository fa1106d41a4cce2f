/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "slurm/end_line.h"
#include "support/check.h"

static void test_line_is_read_as_it_was_written(void **state)
{
	(void)state;
	for (unsigned outcome = OUTCOME_COMPLETED; outcome <= OUTCOME_INTERRUPTED; outcome++) {
		struct text t = {0};
		struct frame_end e = {{7, 3}, (enum attempt_outcome)outcome, -1, 9, 1794779540605, 1234, -1,
					 outcome == OUTCOME_FAILED ? 0 : 55, "it said \"no\"\n"},
				 copy;
		end_line_write(&t, &e);
		assert_int_equal(end_line_parse(t.data, t.length, &copy), 0);
		assert_true(copy.id.job == 7 && copy.id.attempt == 3 && copy.outcome == e.outcome);
		assert_true(copy.exit_code == -1 && copy.signal == 9 && copy.time_ms == e.time_ms);
		assert_true(copy.duration_ms == 1234 && copy.peak_mem_mb == -1 && copy.energy_j == e.energy_j);
		assert_string_equal(copy.reason, e.reason);
		text_finish(&t);
	}
}

static void test_line_with_a_missing_or_wrong_member_is_refused(void **state)
{
	(void)state;
	static const char *const wrong[] = {"", "{}", "[]",
		"{\"id\":7,\"attempt\":3,\"outcome\":\"completed\",\"exit_code\":0,\"signal\":0,\"time_ms\":0,\"duration_ms\":0}",
		"{\"id\":7,\"attempt\":3,\"outcome\":\"done\",\"exit_code\":0,\"signal\":0,\"time_ms\":0,\"duration_ms\":0,\"peak_mem_mb\":-1}",
		"{\"id\":0,\"attempt\":3,\"outcome\":\"completed\",\"exit_code\":0,\"signal\":0,\"time_ms\":0,\"duration_ms\":0,\"peak_mem_mb\":-1}",
		"{\"id\":7,\"attempt\":3,\"exit_code\":0,\"signal\":0,\"time_ms\":0,\"duration_ms\":0,\"peak_mem_mb\":-1}",
		"{\"id\":\"7\",\"attempt\":3,\"outcome\":\"completed\",\"exit_code\":0,\"signal\":0,\"time_ms\":0,\"duration_ms\":0,\"peak_mem_mb\":-1}"};
	struct frame_end e;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(end_line_parse(wrong[i], strlen(wrong[i]), &e), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line_is_read_as_it_was_written),
		cmocka_unit_test(test_line_with_a_missing_or_wrong_member_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
