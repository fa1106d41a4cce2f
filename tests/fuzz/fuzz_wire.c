/* SPDX-License-Identifier: MIT */
/*
 * Any bytes from a probe process: incomplete, refused, or records that are encoded as the same bytes again.
 *
 * Structures are sent as they are in memory, so no stored file would be valid for long. The input describes a valid
 * record (GPUs, processes, warnings) and then the bytes to overwrite: offset in two bytes, value. An input that
 * begins with 0xff is the stream itself.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "fuzz.h"
#include "gpu/wire.h"

static void check_again(const struct wire_record *record, const struct gpu_set *set)
{
	struct text t = {0};
	struct wire_record copy;
	struct gpu_set taken = {0};
	wire_put(&t, record->kind, record->card, record->value, set);
	FUZZ_CHECK(text_error(&t) == 0);
	FUZZ_CHECK(wire_take(t.data, t.length - 1, &copy, &taken) == 0);
	FUZZ_CHECK(wire_take(t.data, t.length, &copy, &taken) == (int)t.length);
	FUZZ_CHECK(copy.kind == record->kind && copy.card == record->card && copy.value == record->value);
	FUZZ_CHECK(taken.count == set->count && taken.num_warnings == set->num_warnings);
	for (size_t i = 0; i < set->count; i++)
		FUZZ_CHECK(taken.gpus[i].num_processes == set->gpus[i].num_processes);
	gpu_set_finish(&taken);
	text_finish(&t);
}

static void take_all(const char *p, size_t size)
{
	for (const char *end = p + size;;) {
		struct wire_record record;
		struct gpu_set set = {0};
		int n = wire_take(p, (size_t)(end - p), &record, &set);
		FUZZ_CHECK(n >= 0 || n == -EBADMSG);
		if (n <= 0)
			return;
		FUZZ_CHECK(n <= end - p);
		for (size_t i = 0; i < set.count; i++)
			FUZZ_CHECK(memchr(set.gpus[i].name, '\0', sizeof(set.gpus[i].name)));
		check_again(&record, &set);
		gpu_set_finish(&set);
		p += n;
	}
}

static void put_record(struct text *t, unsigned gpus, unsigned processes, unsigned warnings)
{
	struct gpu_set set = {0};
	struct gd_gpu_process some[4] = {{.pid = 1}, {.pid = 2}, {.pid = 3}, {.pid = 4}};
	for (unsigned i = 0; i < gpus; i++) {
		struct gd_gpu gpu = {.index = (int)i, .uuid = "GPU-1", .name = "a card"};
		FUZZ_CHECK(gpu_set_add_with(&set, &gpu, some, processes) == 0);
	}
	for (unsigned i = 0; i < warnings; i++)
		FUZZ_CHECK(gpu_set_warn(&set, "warning %u", i) == 0);
	wire_put(t, WIRE_CARD, 1, 2, &set);
	gpu_set_finish(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0 && data[0] == 0xff) {
		take_all((const char *)data + 1, size - 1);
		return 0;
	}
	if (size < 3)
		return 0;
	struct text t = {0};
	put_record(&t, data[0] % 4u, data[1] % 5u, data[2] % 4u);
	put_record(&t, 0, 0, 1);
	for (size_t i = 3; i + 2 < size; i += 3)
		t.data[(data[i] | (size_t)data[i + 1] << 8) % t.length] = (char)data[i + 2];
	take_all(t.data, t.length);
	text_finish(&t);
	return 0;
}
