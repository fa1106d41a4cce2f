/* SPDX-License-Identifier: MIT */
#include "gpu/select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/text.h"

const char *gpu_unusable_reason(const struct gd_gpu *gpu)
{
	switch (gpu->health) {
	case GD_GPU_HEALTH_OK:
		break;
	case GD_GPU_HEALTH_LOST:
		return "it has fallen off the bus";
	case GD_GPU_HEALTH_NOT_ANSWERING:
		return "its driver does not answer";
	case GD_GPU_HEALTH_UNREADABLE:
		return "its driver returns errors";
	}
	if (gpu->mig_enabled && gpu->mig_index < 0)
		return "it is split into MIG instances";
	if (gpu->prohibited)
		return "its compute mode is \"prohibited\"";
	return NULL;
}

bool gd_gpu_usable(const struct gd_gpu *gpu)
{
	return gpu_unusable_reason(gpu) == NULL;
}

static bool is_split(const struct gd_gpu *gpu)
{
	return gpu->mig_enabled && gpu->mig_index < 0;
}

/* "existing GPUs: 0, 1, 2", or the UUIDs, and the variable that may hide others. */
static void append_those_there(struct text *t, const struct gpu_set *there, bool uuids)
{
	size_t named = 0;
	for (size_t i = 0; i < there->count; i++) {
		const struct gd_gpu *gpu = &there->gpus[i];
		if (uuids ? !(gpu->known & GD_GPU_KNOWN_UUID) : gpu->mig_index >= 0)
			continue;
		text_append_string(t, named++ ? ", " : "existing GPUs: ");
		if (uuids)
			text_append_string(t, gpu->uuid);
		else
			text_appendf(t, "%d", gpu->index);
	}
	if (named == 0)
		text_append_string(t, "this machine has none (sim:4 simulates four)");
	bool simulated = there->count > 0 && there->gpus[0].vendor == GD_VENDOR_SIMULATED;
	const char *variable = simulated ? "GPUQ_GPUS" : "CUDA_VISIBLE_DEVICES";
	const char *value = getenv(variable);
	if (value)
		text_appendf(t, named ? " (with %s='%s')" : ", with %s='%s'", variable, value);
}

static int not_there(const struct gpu_set *there, const char *what, const char *wanted, bool uuid, struct gd_error *err)
{
	cleanup_(text_finish) struct text t = {0};
	append_those_there(&t, there, uuid);
	for (size_t i = 0; i < there->count; i++)
		if (uuid && there->gpus[i].health == GD_GPU_HEALTH_NOT_ANSWERING &&
			!(there->gpus[i].known & GD_GPU_KNOWN_UUID))
			text_appendf(&t, "; it may be GPU %d, which does not answer", there->gpus[i].index);
	return error_set(
		err, -ENODEV, "%s: %s%s does not exist; %s", what, uuid ? "" : "GPU ", wanted, text_string(&t));
}

static const struct gd_gpu *find_card(const struct gpu_set *there, int index)
{
	for (size_t i = 0; i < there->count; i++)
		if (there->gpus[i].index == index && there->gpus[i].mig_index < 0)
			return &there->gpus[i];
	return NULL;
}

/* Adds the card or, if it is split, the instances that follow it. */
static int add_card(const struct gpu_set *there, const struct gd_gpu *card, const char *what, struct gpu_set *ret,
	struct gd_error *err)
{
	int r = 0;
	if (!is_split(card))
		r = gpu_set_add(ret, card);
	size_t before = ret->count;
	for (const struct gd_gpu *g = card + 1; r == 0 && is_split(card) && g < there->gpus + there->count; g++) {
		if (g->mig_index < 0)
			break;
		r = gpu_set_add(ret, g);
	}
	if (r < 0)
		return error_set(err, r, "%s: out of memory", what);
	if (is_split(card) && ret->count == before)
		return error_set(err, -ENODEV,
			"%s: MIG is enabled on GPU %d, but it has no instance; create one with 'nvidia-smi mig -cgi'",
			what, card->index);
	return 0;
}

/* 1 and the GPU; 0 if no UUID begins with it; -EINVAL if several do. */
static int find_uuid(const struct gpu_set *there, const char *beginning, const char *what, const struct gd_gpu **ret,
	struct gd_error *err)
{
	const struct gd_gpu *found = NULL;
	size_t length = strlen(beginning);
	for (size_t i = 0; i < there->count; i++) {
		const struct gd_gpu *gpu = &there->gpus[i];
		if (!(gpu->known & GD_GPU_KNOWN_UUID) || strncasecmp(gpu->uuid, beginning, length) != 0)
			continue;
		if (gpu->uuid[length] == '\0') {
			found = gpu;
			break;
		}
		if (found)
			return error_set(err, -EINVAL,
				"%s: '%s' is ambiguous: it matches %s and %s; give more characters", what, beginning,
				found->uuid, gpu->uuid);
		found = gpu;
	}
	*ret = found;
	return found != NULL;
}

static int add_item(const struct gpu_set *there, const struct gpu_spec_item *item, const char *what,
	struct gpu_set *ret, struct gd_error *err)
{
	if (item->uuid) {
		const struct gd_gpu *gpu = NULL;
		int r = find_uuid(there, item->uuid, what, &gpu, err);
		if (r < 0)
			return r;
		return r ? add_card(there, gpu, what, ret, err) : not_there(there, what, item->uuid, true, err);
	}
	for (int index = item->first; index <= item->last; index++) {
		const struct gd_gpu *card = find_card(there, index);
		char number[16];
		snprintf(number, sizeof(number), "%d", index);
		int r = card ? add_card(there, card, what, ret, err) : not_there(there, what, number, false, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_once(const struct gpu_set *s, const char *what, struct gd_error *err)
{
	for (size_t i = 0; i < s->count; i++)
		for (size_t k = 0; k < i; k++)
			if (s->gpus[i].index == s->gpus[k].index && s->gpus[i].mig_index == s->gpus[k].mig_index)
				return error_set(err, -EINVAL, "%s: GPU %d is listed twice", what, s->gpus[i].index);
	return 0;
}

static int select_items(const struct gpu_set *there, const struct gpu_spec *spec, const char *what, struct gpu_set *ret,
	struct gd_error *err)
{
	for (size_t i = 0; i < spec->num_items; i++) {
		int r = add_item(there, &spec->items[i], what, ret, err);
		if (r < 0)
			return r;
	}
	return check_once(ret, what, err);
}

/* Selects the usable GPUs. The probe has already reported broken cards; a split card is replaced by its instances. */
static int select_usable(const struct gpu_set *there, struct gpu_set *ret)
{
	int r = 0;
	for (size_t i = 0; i < there->count && r == 0; i++) {
		const struct gd_gpu *gpu = &there->gpus[i];
		bool has_instances = is_split(gpu) && i + 1 < there->count && there->gpus[i + 1].mig_index >= 0;
		if (gd_gpu_usable(gpu))
			r = gpu_set_add(ret, gpu);
		else if (is_split(gpu) && gpu->health == GD_GPU_HEALTH_OK && !has_instances)
			r = gpu_set_warn(ret, "GPU %d is skipped: MIG is enabled, but it has no instance", gpu->index);
		else if (gpu->health == GD_GPU_HEALTH_OK && !is_split(gpu))
			r = gpu_set_warn(ret, "GPU %d is skipped: %s", gpu->index, gpu_unusable_reason(gpu));
	}
	return r;
}

int gpu_select(const struct gpu_set *there, const struct gpu_spec *spec, struct gpu_set *ret, struct gd_error *err)
{
	cleanup_(text_finish) struct text what = {0};
	text_appendf(&what, "%s '%s'", spec->source, spec->text);
	cleanup_(gpu_set_finish) struct gpu_set chosen = {0};
	int r = 0;
	for (size_t i = 0; i < there->num_warnings && r == 0; i++)
		r = gpu_set_warn(&chosen, "%s", there->warnings[i]);
	if (r == 0 && spec->kind != GPU_SPEC_ITEMS)
		r = select_usable(there, &chosen);
	if (r < 0)
		return error_set(err, r, "%s: out of memory", text_string(&what));
	if (spec->kind == GPU_SPEC_ITEMS)
		r = select_items(there, spec, text_string(&what), &chosen, err);
	if (r < 0)
		return r;
	*ret = chosen;
	chosen = (struct gpu_set){0};
	return 0;
}

int gpu_pick(const struct gpu_set *there, const int *ids, size_t num_ids, struct gpu_set *ret, struct gd_error *err)
{
	cleanup_(gpu_set_finish) struct gpu_set chosen = {0};
	for (size_t i = 0; i < num_ids; i++) {
		char what[32];
		snprintf(what, sizeof(what), "GPU %d", ids[i]);
		if (ids[i] < 0)
			return error_set(err, -EINVAL, "GPU %d: GPUs are numbered from 0", ids[i]);
		const struct gd_gpu *card = find_card(there, ids[i]);
		if (!card)
			return not_there(there, "choosing GPUs", what + strlen("GPU "), false, err);
		const char *reason = is_split(card) ? NULL : gpu_unusable_reason(card);
		if (reason)
			return error_set(err, -ENODEV, "GPU %d cannot be used: %s", ids[i], reason);
		int r = add_card(there, card, what, &chosen, err);
		if (r < 0)
			return r;
	}
	*ret = chosen;
	chosen = (struct gpu_set){0};
	return 0;
}
