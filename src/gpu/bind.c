/* SPDX-License-Identifier: MIT */
/* The environment with which a child process sees its GPUs and no others. */
#include "gpu/bind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"
#include "gpu/select.h"

#define MAX_CHANGES 8

/*
 * Several programs call int() on the words of CUDA_VISIBLE_DEVICES, so it contains numbers. Only MIG instances and GPUs
 * granted by UUID have no number, and CUDA does not accept a mixture.
 */
static void append_nvidia(struct text *t, const struct gd_gpu *const *gpus, size_t num_gpus)
{
	bool by_uuid = false;
	for (size_t i = 0; i < num_gpus; i++)
		by_uuid |= gpus[i]->mig_index >= 0 || (gpu_is_granted(gpus[i]) && gpus[i]->known & GD_GPU_KNOWN_UUID);
	for (size_t i = 0; i < num_gpus; i++) {
		const char *comma = i ? "," : "";
		if (by_uuid)
			text_appendf(t, "%s%s", comma, gpus[i]->uuid);
		else
			text_appendf(
				t, "%s%d", comma, gpu_is_granted(gpus[i]) ? gpus[i]->index : gpus[i]->vendor_index);
	}
}

/* ROCR accepts a mixture. If cards are hidden from it, its numbers may differ from ours; UUIDs do not. */
static void append_amd(struct text *t, const struct gd_gpu *const *gpus, size_t num_gpus)
{
	for (size_t i = 0; i < num_gpus; i++) {
		const char *comma = i ? "," : "";
		if (gpus[i]->known & GD_GPU_KNOWN_UUID)
			text_appendf(t, "%s%s", comma, gpus[i]->uuid);
		else
			text_appendf(t, "%s%d", comma, gpus[i]->vendor_index);
	}
}

static int check(const struct gd_gpu *const *gpus, size_t num_gpus, struct gd_error *err)
{
	for (size_t i = 0; i < num_gpus; i++) {
		if (gpus[i]->vendor != gpus[0]->vendor)
			return error_set(err, -EINVAL,
				"cannot bind to GPU %d and GPU %d: one is %s, the other %s; a process can use only one kind",
				gpus[0]->index, gpus[i]->index, gd_vendor_name(gpus[0]->vendor),
				gd_vendor_name(gpus[i]->vendor));
		if (gpus[i]->mig_enabled && gpus[i]->mig_index < 0)
			return error_set(err, -EINVAL,
				"cannot bind to GPU %d: it is split into MIG instances; bind to one of them",
				gpus[i]->index);
		if (gpus[i]->mig_index >= 0 && !(gpus[i]->known & GD_GPU_KNOWN_UUID))
			return error_set(err, -EINVAL, "cannot bind to MIG instance %d of GPU %d: its UUID is unknown",
				gpus[i]->mig_index, gpus[i]->index);
	}
	return 0;
}

/* Copies the changes and the values behind them into one allocation. */
static int pack(const struct gd_env_change *changes, size_t count, struct gd_env_change **ret)
{
	size_t size = (count + 1) * sizeof(*changes);
	for (size_t i = 0; i < count; i++)
		size += changes[i].value ? strlen(changes[i].value) + 1 : 0;
	struct gd_env_change *packed = calloc(1, size);
	if (!packed)
		return -ENOMEM;
	char *words = (char *)(packed + count + 1);
	for (size_t i = 0; i < count; i++) {
		packed[i].name = changes[i].name;
		if (!changes[i].value)
			continue;
		size_t length = strlen(changes[i].value) + 1;
		packed[i].value = memcpy(words, changes[i].value, length);
		words += length;
	}
	*ret = packed;
	return 0;
}

int gd_gpu_bind(const struct gd_gpu *const *gpus, size_t num_gpus, struct gd_env_change **ret, struct gd_error *err)
{
	int r = check(gpus, num_gpus, err);
	if (r < 0)
		return r;

	bool amd = num_gpus > 0 && gpus[0]->vendor == GD_VENDOR_AMD;
	cleanup_(text_finish) struct text visible = {0};
	cleanup_(text_finish) struct text numbers = {0};
	(amd ? append_amd : append_nvidia)(&visible, gpus, num_gpus);
	for (size_t i = 0; i < num_gpus; i++)
		text_appendf(&numbers, "%s%d", i ? "," : "", gpus[i]->index);
	if (text_error(&visible) || text_error(&numbers))
		return error_set(err, -ENOMEM, "cannot bind to %zu GPUs: out of memory", num_gpus);

	struct gd_env_change changes[MAX_CHANGES];
	size_t count = 0;
	if (amd) {
		/* HIP applies all of these variables after ROCR's filter, so any of them would filter twice. */
		changes[count++] = (struct gd_env_change){"CUDA_VISIBLE_DEVICES", NULL};
		changes[count++] = (struct gd_env_change){"HIP_VISIBLE_DEVICES", NULL};
		changes[count++] = (struct gd_env_change){"GPU_DEVICE_ORDINAL", NULL};
		changes[count++] = (struct gd_env_change){"ROCR_VISIBLE_DEVICES", text_string(&visible)};
	} else {
		/*
		 * NVML and CUDA number mixed cards differently without this variable. Granted numbers come from
		 * CUDA's variable and keep its order.
		 */
		if (num_gpus == 0 || !gpu_is_granted(gpus[0]))
			changes[count++] = (struct gd_env_change){"CUDA_DEVICE_ORDER", "PCI_BUS_ID"};
		changes[count++] = (struct gd_env_change){"CUDA_VISIBLE_DEVICES", text_string(&visible)};
	}
	if (num_gpus == 0)
		changes[count++] = (struct gd_env_change){"ROCR_VISIBLE_DEVICES", ""};
	changes[count++] = (struct gd_env_change){"GPUQ_GPU", text_string(&numbers)};
	/* The child's default is the GPUs that it sees; $GPUQ_GPUS may name GPUs that are hidden from it. */
	if (num_gpus > 0 && gpus[0]->vendor != GD_VENDOR_SIMULATED)
		changes[count++] = (struct gd_env_change){"GPUQ_GPUS", NULL};
	r = pack(changes, count, ret);
	return r < 0 ? error_set(err, r, "cannot bind to %zu GPUs: out of memory", num_gpus) : 0;
}

int gpu_bind_none(const int *ids, size_t num_ids, struct gd_env_change **ret, struct gd_error *err)
{
	cleanup_(text_finish) struct text numbers = {0};
	for (size_t i = 0; i < num_ids; i++) {
		if (ids[i] < 0)
			return error_set(err, -EINVAL, "GPU %d: GPUs are numbered from 0", ids[i]);
		text_appendf(&numbers, "%s%d", i ? "," : "", ids[i]);
	}
	int r = text_error(&numbers);
	if (r == 0)
		r = pack(&(struct gd_env_change){"GPUQ_GPU", text_string(&numbers)}, 1, ret);
	return r < 0 ? error_set(err, r, "cannot list %zu GPUs: out of memory", num_ids) : 0;
}
