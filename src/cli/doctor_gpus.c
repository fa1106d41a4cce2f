/* SPDX-License-Identifier: MIT */
/* `gpuq doctor`: GPUs, their drivers, and whether this user may use them. */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/doctor_parts.h"

static bool read_first_line(const char *path, char ret[160])
{
	cleanup_(fclosep) FILE *f = fopen(path, "re");
	if (!f || !fgets(ret, 160, f))
		return false;
	ret[strcspn(ret, "\n")] = '\0';
	return true;
}

static void check_drivers(struct doctor *d)
{
	char line[160];
	bool any = false;
	if (read_first_line("/proc/driver/nvidia/version", line)) {
		const char *colon = strstr(line, ": ");
		doctor_add(d, DOCTOR_OK, "driver", NULL, "%s", colon ? colon + 2 : line);
		any = true;
	}
	if (access("/sys/module/amdgpu", F_OK) == 0) {
		bool told = read_first_line("/sys/module/amdgpu/version", line);
		doctor_add(d, DOCTOR_OK, "driver", NULL, "amdgpu%s%s", told ? " " : "", told ? line : "");
		any = true;
	}
	if (!any)
		doctor_add(d, DOCTOR_NOTE, "driver", NULL, "no NVIDIA or AMD kernel driver is loaded");
}

/* Programs need to read and write these devices, whatever the driver's library reports. */
static void check_devices(struct doctor *d)
{
	glob_t found = {0};
	size_t good = 0;
	if (glob("/dev/nvidia[0-9]*", 0, NULL, &found) == 0)
		(void)glob("/dev/nvidiactl", GLOB_APPEND, NULL, &found);
	(void)glob("/dev/kfd", found.gl_pathc ? GLOB_APPEND : 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (access(found.gl_pathv[i], R_OK | W_OK) == 0)
			good++;
		else
			doctor_add(d, DOCTOR_PROBLEM, "device",
				"ask the administrator; users often must be in the group 'video' or 'render'",
				"'%s': %s", found.gl_pathv[i], error_words(errno));
	}
	if (good)
		doctor_add(d, DOCTOR_OK, "devices", NULL, "%zu can be read and written, for example %s", good,
			found.gl_pathv[0]);
	globfree(&found);
}

static const char *trouble_of(const struct gd_gpu *gpu)
{
	switch (gpu->health) {
	case GD_GPU_HEALTH_OK:
		return gpu->prohibited ? "its compute mode is 'prohibited'" : NULL;
	case GD_GPU_HEALTH_LOST:
		return "the driver reports that it has fallen off the bus";
	case GD_GPU_HEALTH_NOT_ANSWERING:
		return "its driver does not answer";
	case GD_GPU_HEALTH_UNREADABLE:
		break;
	}
	return "its driver returns errors";
}

static void add_gpu(struct doctor *d, const struct gd_gpu *gpu)
{
	char total[UNITS_ROOM] = "unknown", free_text[UNITS_ROOM] = "unknown";
	const char *trouble = trouble_of(gpu);
	if (gpu->known & GD_GPU_KNOWN_MEMORY_TOTAL)
		units_format_size(gpu->memory_total_bytes, total);
	if (gpu->known & GD_GPU_KNOWN_MEMORY_FREE)
		units_format_size(gpu->memory_free_bytes, free_text);
	doctor_add(d, trouble ? DOCTOR_PROBLEM : DOCTOR_OK, "GPU",
		trouble ? "no job is placed on it; see 'nvidia-smi' or 'dmesg'" : NULL, "%d: %s, %s free of %s%s%s",
		gpu->index, gpu->known & GD_GPU_KNOWN_NAME ? gpu->name : gd_vendor_name(gpu->vendor), free_text, total,
		trouble ? "; " : "", trouble ? trouble : "");
}

void doctor_check_gpus(struct doctor *d)
{
	struct gd_gpu_list *list;
	struct gd_error err = {0};
	check_drivers(d);
	if (gd_gpu_list(d->queue.config.gpus, &list, &err) < 0) {
		doctor_add(d, DOCTOR_PROBLEM, "GPUs", "see --gpus, $GPUQ_GPUS and 'gpuq config'", "%s", err.message);
		return;
	}
	if (list->count == 0 || list->gpus[0]->vendor != GD_VENDOR_SIMULATED)
		check_devices(d);
	for (size_t i = 0; i < list->num_warnings; i++)
		doctor_add(d, DOCTOR_PROBLEM, "driver", NULL, "%s", list->warnings[i]);
	for (size_t i = 0; i < list->count; i++)
		add_gpu(d, list->gpus[i]);
	if (list->count == 0 && d->queue.config.slurm)
		doctor_add(d, DOCTOR_NOTE, "GPUs", NULL,
			"this machine has none; the queue runs on a cluster, which 'gpuq slurm check' tests");
	else if (list->count == 0)
		doctor_add(d, DOCTOR_PROBLEM, "GPUs",
			"if 'nvidia-smi' or 'rocm-smi' shows some, report this; to simulate GPUs: export GPUQ_GPUS=sim:4",
			"no GPU found");
	gd_gpu_list_free(list);
}
