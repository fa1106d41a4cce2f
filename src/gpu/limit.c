/* SPDX-License-Identifier: MIT */
/* GPUs that the inherited environment hides, interpreted as the drivers do. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "gpu/select.h"

static bool same_card(const struct gd_gpu *a, const struct gd_gpu *b)
{
	return a->vendor == b->vendor && a->vendor_index == b->vendor_index;
}

/* The number-th card of a vendor that is still visible after an earlier variable. */
static const struct gd_gpu *nth_card(
	const struct gpu_set *there, const bool *visible, enum gd_vendor vendor, long number)
{
	for (size_t i = 0; i < there->count; i++) {
		const struct gd_gpu *gpu = &there->gpus[i];
		if (gpu->vendor == vendor && gpu->mig_index < 0 && visible[i] && number-- == 0)
			return gpu;
	}
	return NULL;
}

/* Marks the GPUs that one word of the list makes visible; false for an invalid word, which ends the list. */
static bool show_word(
	const struct gpu_set *there, const bool *visible, enum gd_vendor vendor, const char *word, bool *shown)
{
	char *end;
	long number = isdigit((unsigned char)*word) ? strtol(word, &end, 10) : -1;
	const struct gd_gpu *card = NULL;
	if (number >= 0 && *end == '\0')
		card = nth_card(there, visible, vendor, number);
	bool found = false;
	for (size_t i = 0; i < there->count; i++) {
		const struct gd_gpu *gpu = &there->gpus[i];
		if (gpu->vendor != vendor)
			continue;
		bool named = (gpu->known & GD_GPU_KNOWN_UUID) && strlen(word) > 4 &&
			     strncasecmp(gpu->uuid, word, strlen(word)) == 0;
		if (named || (card && same_card(gpu, card))) {
			shown[i] = found = true;
			/* A visible card shows its instances, and an instance needs its card in the list. */
			for (size_t k = 0; k < there->count; k++)
				if (same_card(gpu, &there->gpus[k]) &&
					(gpu->mig_index < 0 || there->gpus[k].mig_index < 0))
					shown[k] = true;
		}
	}
	return found;
}

static int apply(const struct gpu_set *there, enum gd_vendor vendor, const char *variable, bool *visible)
{
	const char *value = getenv(variable);
	if (!value)
		return 0;
	cleanup_(freep) char *copy = strdup(value);
	cleanup_(freep) bool *shown = calloc(there->count + 1, sizeof(*shown));
	if (!copy || !shown)
		return -ENOMEM;
	char *rest = copy, *word;
	while ((word = strsep(&rest, ","))) {
		word += strspn(word, " \t");
		word[strcspn(word, " \t")] = '\0';
		if (!show_word(there, visible, vendor, word, shown))
			break;
	}
	for (size_t i = 0; i < there->count; i++)
		if (there->gpus[i].vendor == vendor)
			visible[i] = visible[i] && shown[i];
	return 0;
}

static size_t count_cards(const struct gpu_set *there, enum gd_vendor vendor, const bool *visible)
{
	size_t count = 0;
	for (size_t i = 0; i < there->count; i++)
		count += there->gpus[i].vendor == vendor && there->gpus[i].mig_index < 0 && (!visible || visible[i]);
	return count;
}

/* CUDA orders cards of different models by speed by default, so its numbers may differ from ours. */
static int warn_of_mixed_cards(struct gpu_set *there)
{
	const char *value = getenv("CUDA_VISIBLE_DEVICES");
	const char *order = getenv("CUDA_DEVICE_ORDER");
	if (!value || !isdigit((unsigned char)*value) || (order && strcmp(order, "PCI_BUS_ID") == 0))
		return 0;
	const struct gd_gpu *first = NULL;
	for (size_t i = 0; i < there->count; i++) {
		const struct gd_gpu *gpu = &there->gpus[i];
		if (gpu->vendor != GD_VENDOR_NVIDIA || gpu->mig_index >= 0 || !(gpu->known & GD_GPU_KNOWN_NAME))
			continue;
		if (first && strcmp(first->name, gpu->name) != 0)
			return gpu_set_warn(there,
				"CUDA_VISIBLE_DEVICES='%s' is interpreted with the GPU numbers of nvidia-smi; "
				"set CUDA_DEVICE_ORDER=PCI_BUS_ID so that CUDA uses the same numbers",
				value);
		first = first ? first : gpu;
	}
	return 0;
}

/*
 * Slurm numbers all cards of the node. If Slurm lets the driver see only the granted cards, the driver numbers only
 * these, and their count equals the number of cards that Slurm names: then Slurm's numbers do not apply.
 */
static const char *nvidia_variable(const struct gpu_set *there)
{
	const char *variable = gpu_grant_variable();
	size_t words = 1;
	if (!variable || strcmp(variable, "CUDA_VISIBLE_DEVICES") == 0)
		return "CUDA_VISIBLE_DEVICES";
	for (const char *c = getenv(variable); *c; c++)
		words += *c == ',';
	return words < count_cards(there, GD_VENDOR_NVIDIA, NULL) ? variable : "CUDA_VISIBLE_DEVICES";
}

static int warn_of_none(struct gpu_set *there, enum gd_vendor vendor, const char *variable, const bool *visible)
{
	const char *value = getenv(variable);
	size_t count = count_cards(there, vendor, NULL);
	if (!value || count == 0 || count_cards(there, vendor, visible) > 0)
		return 0;
	return gpu_set_warn(there, "%s='%s' hides %s", variable, value, count == 1 ? "the only GPU" : "every GPU");
}

static void drop_hidden(struct gpu_set *there, const bool *visible)
{
	size_t kept = 0;
	for (size_t i = 0; i < there->count; i++) {
		if (visible[i])
			there->gpus[kept++] = there->gpus[i];
		else
			free((void *)there->gpus[i].processes);
	}
	there->count = kept;
}

int gpu_limit(struct gpu_set *there)
{
	cleanup_(freep) bool *visible = malloc(there->count + 1);
	if (!visible)
		return -ENOMEM;
	memset(visible, true, there->count + 1);

	const char *nvidia = nvidia_variable(there);
	int r = warn_of_mixed_cards(there);
	if (r == 0)
		r = apply(there, GD_VENDOR_NVIDIA, nvidia, visible);
	if (r == 0)
		r = warn_of_none(there, GD_VENDOR_NVIDIA, nvidia, visible);
	/* HIP filters the cards that ROCR shows, and treats CUDA's variable as its own. */
	const char *hip = getenv("HIP_VISIBLE_DEVICES") ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
	if (r == 0)
		r = apply(there, GD_VENDOR_AMD, "ROCR_VISIBLE_DEVICES", visible);
	bool both_vendors = count_cards(there, GD_VENDOR_NVIDIA, NULL) > 0;
	if (r == 0 && (!both_vendors || strcmp(hip, "HIP_VISIBLE_DEVICES") == 0))
		r = apply(there, GD_VENDOR_AMD, hip, visible);
	if (r == 0)
		drop_hidden(there, visible);
	return r;
}
