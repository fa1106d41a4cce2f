/* SPDX-License-Identifier: MIT */
/* Any bytes as the answer of squeue, scontrol or sbatch. The first byte selects which. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "fuzz.h"
#include "slurm/listing_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct listing_builder b = {0};
	uint64_t id = 0;
	if (size == 0)
		return 0;
	const char *text = (const char *)data + 1;
	int r = data[0] == 'j'   ? listing_add_jobs(&b, text, size - 1, "gpuq-")
		: data[0] == 'n' ? listing_add_nodes(&b, text, size - 1)
		: data[0] == 'c' ? listing_set_config(&b, text, size - 1)
				 : listing_parse_submitted(text, size - 1, &id);
	FUZZ_CHECK(r == 0 || r == -EBADMSG);
	for (size_t i = 0; i < b.num_jobs; i++)
		FUZZ_CHECK(b.jobs[i].slurm_job > 0 && memchr(b.jobs[i].reason, '\0', sizeof(b.jobs[i].reason)) &&
			   strncmp(b.jobs[i].name, "gpuq-", 5) == 0);
	for (size_t i = 0; i < b.num_nodes; i++)
		FUZZ_CHECK(b.nodes[i].name[0] && strlen(b.nodes[i].name) < sizeof(b.nodes[i].name));
	listing_builder_finish(&b);
	return 0;
}
