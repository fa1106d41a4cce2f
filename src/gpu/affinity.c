/* SPDX-License-Identifier: MIT */
#include "gpu/affinity.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cpu_list.h"
#include "base/file.h"

static bool add_node(int node, struct cpu_list *l)
{
	const char *root = getenv("GPUQ_SYSFS_ROOT");
	char path[512], text[8192];
	int n = snprintf(
		path, sizeof(path), "%s/devices/system/node/node%d/cpulist", root && *root ? root : "/sys", node);
	return n > 0 && (size_t)n < sizeof(path) && file_read_small(AT_FDCWD, path, text, sizeof(text)) > 0 &&
	       cpu_list_parse(text, l) == 0;
}

void gpu_affinity(const struct gd_gpu *const *gpus, size_t num_gpus, struct text *out)
{
	struct cpu_list near = {0}, allowed = {0};
	for (size_t i = 0; i < num_gpus; i++)
		if (!(gpus[i]->known & GD_GPU_KNOWN_NUMA_NODE) || !add_node(gpus[i]->numa_node, &near))
			return;
	if (cpu_list_get_affinity(&allowed) < 0)
		return;
	cpu_list_intersect(&near, &allowed);
	cpu_list_format(&near, out);
}
