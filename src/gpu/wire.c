/* SPDX-License-Identifier: MIT */
#include "gpu/wire.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

#define MAX_RECORD (UINT32_C(64) << 20)

struct set_head {
	uint64_t num_gpus;
	uint64_t num_warnings;
};

void wire_put(struct text *out, enum wire_kind kind, unsigned card, unsigned value, const struct gpu_set *set)
{
	static const struct gpu_set none = {0};
	set = set ? set : &none;

	cleanup_(text_finish) struct text body = {0};
	struct set_head head = {set->count, set->num_warnings};
	text_append(&body, &head, sizeof(head));
	for (size_t i = 0; i < set->count; i++) {
		const struct gd_gpu *gpu = &set->gpus[i];
		text_append(&body, gpu, sizeof(*gpu));
		for (size_t k = 0; k < gpu->num_processes; k++)
			text_append(&body, gpu->processes[k], sizeof(*gpu->processes[k]));
	}
	for (size_t i = 0; i < set->num_warnings; i++)
		text_append(&body, set->warnings[i], strlen(set->warnings[i]) + 1);

	struct wire_record record = {(uint32_t)kind, (uint32_t)body.length, card, value};
	if (text_error(&body) || body.length > MAX_RECORD) {
		out->error = -ENOMEM;
		return;
	}
	text_append(out, &record, sizeof(record));
	text_append(out, body.data, body.length);
}

struct cursor {
	const char *data;
	size_t left;
};

/* Copies the next `size` bytes to `to`; false if there are fewer. */
static bool take(struct cursor *c, void *to, size_t size)
{
	if (c->left < size)
		return false;
	memcpy(to, c->data, size);
	c->data += size;
	c->left -= size;
	return true;
}

static int take_gpu(struct cursor *c, struct gpu_set *set)
{
	struct gd_gpu gpu;
	if (!take(c, &gpu, sizeof(gpu)) || gpu.num_processes > c->left / sizeof(struct gd_gpu_process))
		return -EBADMSG;
	gpu.uuid[sizeof(gpu.uuid) - 1] = '\0';
	gpu.name[sizeof(gpu.name) - 1] = '\0';
	gpu.pci_id[sizeof(gpu.pci_id) - 1] = '\0';

	cleanup_(freep) struct gd_gpu_process *processes = calloc(gpu.num_processes + 1, sizeof(*processes));
	if (!processes)
		return -ENOMEM;
	take(c, processes, gpu.num_processes * sizeof(*processes));
	return gpu_set_add_with(set, &gpu, processes, gpu.num_processes);
}

static int take_set(struct cursor *c, struct gpu_set *set)
{
	struct set_head head;
	if (!take(c, &head, sizeof(head)))
		return -EBADMSG;
	int r = 0;
	for (uint64_t i = 0; i < head.num_gpus && r == 0; i++)
		r = take_gpu(c, set);
	for (uint64_t i = 0; i < head.num_warnings && r == 0; i++) {
		size_t length = strnlen(c->data, c->left);
		if (length == c->left)
			return -EBADMSG;
		r = gpu_set_warn(set, "%s", c->data);
		c->data += length + 1;
		c->left -= length + 1;
	}
	return r;
}

int wire_take(const char *data, size_t size, struct wire_record *ret, struct gpu_set *ret_set)
{
	struct wire_record record;
	if (size < sizeof(record))
		return 0;
	memcpy(&record, data, sizeof(record));
	if (record.size > MAX_RECORD || record.kind < WIRE_READY || record.kind > WIRE_ROUND)
		return -EBADMSG;
	if (size - sizeof(record) < record.size)
		return 0;

	cleanup_(gpu_set_finish) struct gpu_set set = {0};
	struct cursor c = {data + sizeof(record), record.size};
	int r = take_set(&c, &set);
	if (r < 0)
		return r;
	*ret = record;
	*ret_set = set;
	set = (struct gpu_set){0};
	return (int)(sizeof(record) + record.size);
}
