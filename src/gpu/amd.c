/* SPDX-License-Identifier: MIT */
/* AMD's cards, read from sysfs. ROCm is not needed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/utf8.h"
#include "gpu/amd_kfd.h"
#include "gpu/backend.h"
#include "gpu/sysfs.h"

#define AMD_PCI_VENDOR "0x1002"

struct amd {
	char *root;
	unsigned num_cards;
	int *minors; /* the number in renderD128 */
	size_t minors_capacity;
	struct kfd_links links;
};

/* ---- Finding the cards -------------------------------------------------- */

static int open_device(const struct amd *a, int minor)
{
	char path[64];
	snprintf(path, sizeof(path), "class/drm/renderD%d/device", minor);
	return sysfs_open(a->root, path, O_RDONLY | O_DIRECTORY);
}

static bool is_amd(const struct amd *a, int minor)
{
	cleanup_(closep) int dir = open_device(a, minor);
	char vendor[16];
	return dir >= 0 && file_read_small(dir, "vendor", vendor, sizeof(vendor)) > 0 &&
	       strcmp(vendor, AMD_PCI_VENDOR) == 0;
}

static int by_number(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;
	return (x > y) - (x < y);
}

static int find_cards(struct amd *a)
{
	cleanup_(closedirp) DIR *drm = sysfs_opendir(a->root, "class/drm");
	struct dirent *entry;
	while (drm && (entry = readdir(drm))) {
		int minor, end = 0;
		if (sscanf(entry->d_name, "renderD%d%n", &minor, &end) != 1 || entry->d_name[end] || !is_amd(a, minor))
			continue;
		if (array_reserve(a->minors, &a->minors_capacity, a->num_cards + 1) < 0)
			return -ENOMEM;
		a->minors[a->num_cards++] = minor;
	}
	if (a->num_cards > 0)
		qsort(a->minors, a->num_cards, sizeof(*a->minors), by_number);
	return 0;
}

static void amd_close(void *state)
{
	struct amd *a = state;
	if (!a)
		return;
	free(a->minors);
	free(a->root);
	free(a);
}

static int amd_open(const struct gpu_spec *spec, struct gpu_set *warnings, void **ret_state, unsigned *ret_cards)
{
	(void)spec;
	(void)warnings;
	const char *root = getenv("GPUQ_SYSFS_ROOT");
	struct amd *a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->root = strdup(root && *root ? root : "/sys");
	int r = a->root ? find_cards(a) : -ENOMEM;
	if (r < 0) {
		amd_close(a);
		return r;
	}
	kfd_read_links(a->root, a->minors, a->num_cards, &a->links);
	*ret_state = a;
	*ret_cards = a->num_cards;
	return 0;
}

/* ---- One card ----------------------------------------------------------- */

static void read_identity(int dir, struct gd_gpu *gpu)
{
	char text[128], path[PATH_MAX];
	if (file_read_small(dir, "unique_id", text, sizeof(text)) > 0) {
		snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%.64s", text);
		gpu->known |= GD_GPU_KNOWN_UUID;
	}
	int n = file_read_small(dir, "product_name", text, sizeof(text));
	if (n <= 0 && file_read_small(dir, "device", path, sizeof(path)) > 0)
		n = snprintf(text, sizeof(text), "AMD GPU %.32s", path);
	if (n > 0) {
		utf8_copy_line(gpu->name, sizeof(gpu->name), text, (size_t)n);
		gpu->known |= GD_GPU_KNOWN_NAME;
	}
	/* The directory itself is named after its place on the bus. */
	snprintf(text, sizeof(text), "/proc/self/fd/%d", dir);
	ssize_t length = readlink(text, path, sizeof(path) - 1);
	if (length > 0) {
		path[length] = '\0';
		const char *name = strrchr(path, '/') + 1;
		unsigned domain, bus, device, function;
		if (sscanf(name, "%x:%x:%x.%x", &domain, &bus, &device, &function) == 4) {
			snprintf(gpu->pci_id, sizeof(gpu->pci_id), "%.31s", name);
			gpu->known |= GD_GPU_KNOWN_PCI_ID;
		}
	}
}

static void read_memory(int dir, struct gd_gpu *gpu)
{
	int64_t total, used;
	bool has_total = sysfs_read_number(dir, "mem_info_vram_total", &total) && total >= 0;
	bool has_used = sysfs_read_number(dir, "mem_info_vram_used", &used) && used >= 0;
	if (has_total) {
		gpu->memory_total_bytes = (uint64_t)total;
		gpu->known |= GD_GPU_KNOWN_MEMORY_TOTAL;
	}
	if (has_used) {
		gpu->memory_used_bytes = (uint64_t)used;
		gpu->known |= GD_GPU_KNOWN_MEMORY_USED;
	}
	if (has_total && has_used) {
		gpu->memory_free_bytes = used < total ? (uint64_t)(total - used) : 0;
		gpu->known |= GD_GPU_KNOWN_MEMORY_FREE;
	}
}

static void read_sensors(int dir, struct gd_gpu *gpu)
{
	int fd = openat(dir, "hwmon", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_(closedirp) DIR *hwmon = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !hwmon)
		close(fd);
	struct dirent *entry;
	while (hwmon && (entry = readdir(hwmon))) {
		if (strncmp(entry->d_name, "hwmon", 5) != 0)
			continue;
		cleanup_(closep) int sensors = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		int64_t value;
		if (sensors >= 0 && sysfs_read_number(sensors, "temp1_input", &value)) {
			gpu->temperature_celsius = (int)(value / 1000);
			gpu->known |= GD_GPU_KNOWN_TEMPERATURE;
		}
		/* Newer kernels have the momentary value, older ones an average; in microwatts. */
		if (sensors >= 0 && (sysfs_read_number(sensors, "power1_average", &value) ||
					    sysfs_read_number(sensors, "power1_input", &value))) {
			gpu->power_milliwatts = (unsigned)(value / 1000);
			gpu->known |= GD_GPU_KNOWN_POWER;
		}
	}
}

static void read_load(int dir, struct gd_gpu *gpu)
{
	int64_t value;
	if (sysfs_read_number(dir, "gpu_busy_percent", &value) && value >= 0 && value <= 100) {
		gpu->utilization_percent = (unsigned)value;
		gpu->known |= GD_GPU_KNOWN_UTILIZATION;
	}
	if (sysfs_read_number(dir, "numa_node", &value) && value >= 0) {
		gpu->numa_node = (int)value;
		gpu->known |= GD_GPU_KNOWN_NUMA_NODE;
	}
	read_sensors(dir, gpu);
}

static int amd_sample(void *state, unsigned card, struct gpu_set *ret)
{
	const struct amd *a = state;
	struct gd_gpu gpu = {
		.known = GD_GPU_KNOWN_MIG, .vendor = GD_VENDOR_AMD, .vendor_index = (int)card, .mig_index = -1};
	cleanup_(closep) int dir = open_device(a, a->minors[card]);
	if (dir < 0) {
		gpu.health = GD_GPU_HEALTH_LOST;
		int r = gpu_set_add(ret, &gpu);
		return r < 0 ? r : gpu_set_warn(ret, "has fallen off the bus");
	}
	read_identity(dir, &gpu);
	read_memory(dir, &gpu);
	read_load(dir, &gpu);
	if (card < KFD_MAX_LINKED && a->links.known >> card & 1) {
		gpu.links = a->links.of[card];
		gpu.known |= GD_GPU_KNOWN_LINKS;
	}
	cleanup_(freep) struct gd_gpu_process *processes = NULL;
	int r = kfd_read_processes(a->root, a->minors[card], &gpu, &processes);
	return r < 0 ? r : gpu_set_add_with(ret, &gpu, processes, gpu.num_processes);
}

const struct gpu_backend gpu_amd = {
	.vendor = GD_VENDOR_AMD,
	.driver = "the AMD driver",
	.open = amd_open,
	.sample = amd_sample,
	.close = amd_close,
};
