/* SPDX-License-Identifier: MIT */
/* GPUs granted by the environment, for machines where no driver can be queried. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "gpu/select.h"

bool gpu_is_granted(const struct gd_gpu *gpu)
{
	return gpu->vendor == GD_VENDOR_NVIDIA && gpu->vendor_index < 0;
}

/* CUDA stops at the first invalid word, such as -1 or NoDevFiles. No driver has numbered the card. */
static bool read_word(const char *word, int position, struct gd_gpu *ret)
{
	struct gd_gpu gpu = {.vendor = GD_VENDOR_NVIDIA, .index = position, .vendor_index = -1, .mig_index = -1};
	if (isdigit((unsigned char)*word)) {
		char *end;
		long number = strtol(word, &end, 10);
		if (*end || number > GPU_SPEC_MAX_INDEX)
			return false;
		gpu.index = (int)number;
	} else if (strncasecmp(word, "GPU-", 4) == 0 || strncasecmp(word, "MIG-", 4) == 0) {
		utf8_copy_line(gpu.uuid, sizeof(gpu.uuid), word, strlen(word));
		gpu.known = GD_GPU_KNOWN_UUID;
		gpu.mig_index = toupper((unsigned char)*word) == 'M' ? 0 : -1;
	} else {
		return false;
	}
	*ret = gpu;
	return true;
}

static bool is_named(const struct gpu_set *there, const struct gd_gpu *gpu)
{
	for (size_t i = 0; i < there->count; i++)
		if (there->gpus[i].index == gpu->index)
			return true;
	return false;
}

const char *gpu_grant_variable(void)
{
	static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (getenv(names[i]))
			return names[i];
	return NULL;
}

int gpu_grant(struct gpu_set *there)
{
	const char *variable = gpu_grant_variable(), *slurm = getenv("SLURM_JOB_ID");
	const char *value = variable ? getenv(variable) : NULL;
	cleanup_(freep) char *copy = strdup(value ? value : "");
	char *rest = copy, *word;
	int r = copy ? 0 : -ENOMEM;
	while (r == 0 && (word = strsep(&rest, ","))) {
		struct gd_gpu gpu;
		word += strspn(word, " \t");
		word[strcspn(word, " \t")] = '\0';
		if (!read_word(word, (int)there->count, &gpu))
			break;
		/* A UUID does not give the GPU's number: use the next free one. */
		while (gpu.known & GD_GPU_KNOWN_UUID && is_named(there, &gpu))
			gpu.index++;
		if (is_named(there, &gpu))
			break;
		r = gpu_set_add(there, &gpu);
	}
	if (r == 0 && there->count > 0)
		return gpu_set_warn(there,
			"no driver can be queried: GPUs are taken from %s='%s'; their memory is unknown, so each gets one "
			"job at a time",
			variable, value);
	if (r == 0 && slurm && !value)
		return gpu_set_warn(there,
			"Slurm job %s has no GPU: neither CUDA_VISIBLE_DEVICES nor SLURM_JOB_GPUS is set; request some "
			"with --gres=gpu:1",
			slurm);
	return r;
}
