/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "slurm/sbatch_refusal.h"

#define FAILED "sbatch: error: Batch job submission failed: "

/* What sbatch 22.05 prints, as a whole. */
static const struct {
	const char *err;
	enum sbatch_refusal expected;
	const char *words, *advice;
} cases[] = {
	{"sbatch: error: invalid partition specified: nope\n" FAILED "Invalid partition name specified\n",
		SBATCH_REFUSES_FINALLY, "invalid partition specified: nope; Invalid partition name specified",
		"--partition"},
	{FAILED "Invalid account or account/partition combination specified\n", SBATCH_REFUSES_FINALLY,
		"Invalid account or account/partition combination specified", "--account"},
	{FAILED "Invalid qos specification\n", SBATCH_REFUSES_FINALLY, "Invalid qos specification", "--qos"},
	{FAILED "Invalid generic resource (gres) specification\n", SBATCH_REFUSES_FINALLY,
		"Invalid generic resource (gres) specification", "--gres"},
	{FAILED "Requested time limit is invalid (missing or exceeds some limit)\n", SBATCH_REFUSES_FINALLY,
		"Requested time limit is invalid (missing or exceeds some limit)", "--time"},
	{"sbatch: error: QOSMaxWallDurationPerJobLimit\n" FAILED
	 "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
		SBATCH_REFUSES_FINALLY,
		"QOSMaxWallDurationPerJobLimit; Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
		"--time"},
	{"sbatch: error: QOSMaxSubmitJobPerUserLimit\n" FAILED
	 "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
		SBATCH_REFUSES_NOW,
		"QOSMaxSubmitJobPerUserLimit; Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
		"MaxSubmitJobs"},
	{"sbatch: error: AssocGrpSubmitJobsLimit\n" FAILED "Job violates accounting/QOS policy\n", SBATCH_REFUSES_NOW,
		"AssocGrpSubmitJobsLimit; Job violates accounting/QOS policy", "MaxSubmitJobs"},
	{FAILED "Required partition not available (inactive or drain)\n", SBATCH_REFUSES_NOW,
		"Required partition not available (inactive or drain)", "--partition"},
	{FAILED "Requested node configuration is not available\n", SBATCH_REFUSES,
		"Requested node configuration is not available", "sinfo"},
	{"sbatch: unrecognized option '--foo'\nTry \"sbatch --help\" for more information\n", SBATCH_REFUSES_FINALLY,
		"unrecognized option '--foo'", "sbatch --help"},
	{"sbatch: option '--gre=gpu:2' is ambiguous; possibilities: '--gres' '--gres-flags'\nTry \"sbatch --help\" for more information\n",
		SBATCH_REFUSES_FINALLY, "option '--gre=gpu:2' is ambiguous; possibilities: '--gres' '--gres-flags'",
		"sbatch --help"},
	{"sbatch: error: Unable to open file train.sh\n", SBATCH_REFUSES_FINALLY, "Unable to open file train.sh",
		"no script"},
	{"sbatch: error: Invalid --time specification\n", SBATCH_REFUSES_FINALLY, "Invalid --time specification",
		"--slurm"},
	{FAILED "Socket timed out on send/recv operation\n", SBATCH_UNCERTAIN,
		"Socket timed out on send/recv operation", "--slurm"},
	{FAILED "Unable to contact slurm controller (connect failure)\n", SBATCH_UNCERTAIN,
		"Unable to contact slurm controller (connect failure)", "--slurm"},
	{"sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n", SBATCH_UNCERTAIN,
		"Slurm temporarily unable to accept job, sleeping and retrying", "--slurm"},
	{"", SBATCH_UNCERTAIN, "", "--slurm"},
};

static void test_messages_of_sbatch(void **state)
{
	(void)state;
	char words[256];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		sbatch_refusal_words(cases[i].err, words, sizeof(words));
		assert_string_equal(words, cases[i].words);
		assert_int_equal(sbatch_refusal_classify(cases[i].err), cases[i].expected);
		assert_non_null(strstr(sbatch_refusal_advice(words), cases[i].advice));
	}
}

static void test_long_and_odd_messages_fit(void **state)
{
	(void)state;
	char words[16];
	sbatch_refusal_words("sbatch: error: 0123456789\nsbatch: error: abcdefghi\nmore", words, sizeof(words));
	assert_string_equal(words, "0123456789; abc");
	sbatch_refusal_words("a\x1b[31m\tb\n\n", words, sizeof(words));
	assert_string_equal(words, "a [31m b");
}

static void test_reasons_that_never_go_away(void **state)
{
	(void)state;
	static const char *const never[] = {"PartitionTimeLimit", "QOSMaxWallDurationPerJobLimit",
		"AssocMaxCpuPerJobLimit", "PartitionNodeLimit", "InvalidAccount", "InvalidQOS"};
	static const char *const later[] = {"", "Resources", "Priority", "QOSMaxJobsPerUserLimit", "AssocGrpGRES",
		"QOSMaxGRESPerUser", "PartitionDown"};
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		assert_true(sbatch_refusal_is_in_reason(never[i]));
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
		assert_false(sbatch_refusal_is_in_reason(later[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_of_sbatch),
		cmocka_unit_test(test_long_and_odd_messages_fit),
		cmocka_unit_test(test_reasons_that_never_go_away),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
