/* SPDX-License-Identifier: MIT */
/* Any bytes as a claim: an accepted claim survives writing and reading unchanged. */
#include <stdint.h>
#include <string.h>

#include "fuzz.h"
#include "queue/schedule/claims.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct claim_info info, again;
	static char text[16384];
	memset(&info, 0, sizeof(info));
	memset(&again, 0, sizeof(again));
	if (claim_info_parse((const char *)data, size, &info) < 0)
		return 0;
	int n = claim_info_format(&info, text, sizeof(text));
	FUZZ_CHECK(n > 0);
	FUZZ_CHECK(claim_info_parse(text, (size_t)n, &again) == 0);
	FUZZ_CHECK(info.job == again.job && info.promised_bytes == again.promised_bytes && info.pid == again.pid);
	FUZZ_CHECK(info.num_gpus == again.num_gpus && !strcmp(info.queue, again.queue));
	return 0;
}
