/* SPDX-License-Identifier: MIT */
/* Any bytes as a specification of GPUs: refused with a message, or valid ranges and a machine that can be formatted
 * again.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "gpu/spec.h"

static void check_items(const struct gpu_spec *spec)
{
	for (size_t i = 0; i < spec->num_items; i++) {
		const struct gpu_spec_item *item = &spec->items[i];
		FUZZ_CHECK(item->uuid
				   ? item->uuid[0] != '\0'
				   : 0 <= item->first && item->first <= item->last && item->last <= GPU_SPEC_MAX_INDEX);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	unsetenv("GPUQ_GPUS");

	struct gpu_spec spec, again;
	struct gd_error err = {0};
	int r = gpu_spec_parse(text, NULL, &spec, &err);
	FUZZ_CHECK(r == 0 || (r == -EINVAL && err.message[0]));
	if (r == 0) {
		FUZZ_CHECK(spec.sim_count >= 0 && spec.sim_count <= GPU_SPEC_MAX_SIM);
		FUZZ_CHECK((spec.kind == GPU_SPEC_ITEMS) == (spec.num_items > 0));
		check_items(&spec);
		char machine[GPU_MACHINE_SIZE];
		gpu_spec_machine(&spec, machine);
		FUZZ_CHECK(memchr(machine, '\0', sizeof(machine)) && machine[0]);
		FUZZ_CHECK(gpu_spec_parse("all", machine, &again, &err) == 0);
		FUZZ_CHECK(again.sim_count == spec.sim_count);
		FUZZ_CHECK(!spec.sim_count || again.sim_memory_bytes == spec.sim_memory_bytes);
		gpu_spec_finish(&again);
		gpu_spec_finish(&spec);
	}
	/* The same bytes as another process's description of its machine. */
	if (gpu_spec_parse("0", text, &spec, &err) == 0)
		gpu_spec_finish(&spec);
	free(text);
	return 0;
}
