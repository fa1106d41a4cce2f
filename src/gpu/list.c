/* SPDX-License-Identifier: MIT */
/* The public functions: list GPUs, and select some by a specification. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "gpu/list.h"
#include "gpu/probe.h"
#include "gpu/select.h"

const char *gd_vendor_name(enum gd_vendor vendor)
{
	switch (vendor) {
	case GD_VENDOR_NVIDIA:
		return "nvidia";
	case GD_VENDOR_AMD:
		return "amd";
	case GD_VENDOR_SIMULATED:
		return "simulated";
	}
	return "unknown";
}

static int hand_over(const struct gpu_set *set, struct gd_gpu_list **ret, struct gd_error *err)
{
	int r = gpu_set_to_list(set, ret);
	return r < 0 ? error_set(err, r, "cannot list GPUs: out of memory") : 0;
}

int gpu_list_of_machine(const char *text, const char *machine, struct gd_gpu_list **ret, struct gd_error *err)
{
	cleanup_(gpu_spec_finish) struct gpu_spec spec = {0};
	cleanup_(gpu_set_finish) struct gpu_set there = {0};
	cleanup_(gpu_set_finish) struct gpu_set chosen = {0};
	int r = gpu_probe_once(&(struct gpu_probe_options){.spec = text, .machine = machine}, &spec, &there, err);
	if (r == 0)
		r = gpu_select(&there, &spec, &chosen, err);
	return r < 0 ? r : hand_over(&chosen, ret, err);
}

int gd_gpu_list(const char *spec, struct gd_gpu_list **ret, struct gd_error *err)
{
	return gpu_list_of_machine(spec, NULL, ret, err);
}

/* All GPUs of the machine, or the simulated GPUs if $GPUQ_GPUS selects them. */
static int survey(struct gpu_set *ret, struct gd_error *err)
{
	cleanup_(gpu_spec_finish) struct gpu_spec spec = {0};
	return gpu_probe_once(&(struct gpu_probe_options){0}, &spec, ret, err);
}

int gd_gpu_survey(struct gd_gpu_list **ret, struct gd_error *err)
{
	cleanup_(gpu_set_finish) struct gpu_set there = {0};
	int r = survey(&there, err);
	return r < 0 ? r : hand_over(&there, ret, err);
}

int gd_gpu_count(const char *spec, struct gd_error *err)
{
	return gd_gpu_parse(spec, NULL, 0, err);
}

int gd_gpu_get(int index, struct gd_gpu_list **ret, struct gd_error *err)
{
	cleanup_(gpu_set_finish) struct gpu_set there = {0};
	cleanup_(gpu_set_finish) struct gpu_set chosen = {0};
	int r = survey(&there, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < there.count && r == 0; i++)
		if (there.gpus[i].index == index)
			r = gpu_set_add(&chosen, &there.gpus[i]);
	for (size_t i = 0; i < there.num_warnings && r == 0; i++)
		r = gpu_set_warn(&chosen, "%s", there.warnings[i]);
	if (r < 0)
		return error_set(err, r, "cannot query GPU %d: out of memory", index);
	if (chosen.count == 0)
		return gpu_pick(&there, &index, 1, &chosen, err);
	return hand_over(&chosen, ret, err);
}

int gd_gpu_parse(const char *spec, int *ids, size_t max, struct gd_error *err)
{
	struct gd_gpu_list *list;
	int r = gd_gpu_list(spec, &list, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list->count && i < max; i++)
		ids[i] = list->gpus[i]->index;
	r = list->count > INT_MAX ? INT_MAX : (int)list->count;
	gd_gpu_list_free(list);
	return r;
}

int gd_gpu_validate(const int *ids, size_t num_ids, struct gd_error *err)
{
	if (num_ids == 0)
		return error_set(err, -EINVAL, "cannot select GPUs: the list is empty");
	struct gd_gpu_list *list;
	int r = gpu_list_ids(ids, num_ids, &list, err);
	if (r == 0)
		gd_gpu_list_free(list);
	return r;
}

int gpu_list_ids(const int *ids, size_t num_ids, struct gd_gpu_list **ret, struct gd_error *err)
{
	cleanup_(gpu_set_finish) struct gpu_set there = {0};
	cleanup_(gpu_set_finish) struct gpu_set chosen = {0};
	int r = survey(&there, err);
	if (r == 0)
		r = gpu_pick(&there, ids, num_ids, &chosen, err);
	return r < 0 ? r : hand_over(&chosen, ret, err);
}

bool gd_gpu_cuda_available(void)
{
	struct gd_gpu_list *list;
	if (gd_gpu_list("all", &list, NULL) < 0)
		return false;
	bool available = false;
	for (size_t i = 0; i < list->count; i++)
		available |= list->gpus[i]->vendor == GD_VENDOR_NVIDIA;
	gd_gpu_list_free(list);
	return available;
}
