/* SPDX-License-Identifier: MIT */
/* AMD's cards through a fake sysfs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_machine.h"

/* As in the kernel's sysfs: a directory for the device, and a link to it from its render node in class drm. */
static void add_card(const struct fake_machine *m, int minor, const char *pci_id, const char *vendor)
{
	char path[256], link[256], target[256];
	snprintf(path, sizeof(path), "sys/devices/%s/vendor", pci_id);
	fake_machine_write(m, path, "%s\n", vendor);
	snprintf(path, sizeof(path), "sys/class/drm/renderD%d/dev", minor);
	fake_machine_write(m, path, "226:%d\n", minor);
	snprintf(link, sizeof(link), "%s/sys/class/drm/renderD%d/device", m->dir, minor);
	snprintf(target, sizeof(target), "../../../devices/%s", pci_id);
	assert_int_equal(symlink(target, link), 0);
}

static void set(const struct fake_machine *m, const char *pci_id, const char *file, const char *value)
{
	char path[256];
	snprintf(path, sizeof(path), "sys/devices/%s/%s", pci_id, file);
	fake_machine_write(m, path, "%s\n", value);
}

static void test_every_field_of_a_card_is_read(void **state)
{
	struct fake_machine *m = *state;
	const char *id = "0000:c3:00.0";
	add_card(m, 128, id, "0x1002");
	set(m, id, "mem_info_vram_total", "68702699520");
	set(m, id, "mem_info_vram_used", "8702699520");
	set(m, id, "gpu_busy_percent", "87");
	set(m, id, "unique_id", "1a2b3c4d5e6f7081");
	set(m, id, "numa_node", "3");
	set(m, id, "product_name", "AMD Instinct MI210");
	set(m, id, "hwmon/hwmon4/temp1_input", "47000");
	set(m, id, "hwmon/hwmon4/power1_average", "93000000");
	fake_machine_write(
		m, "sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 16\ndrm_render_minor 0\n");
	fake_machine_write(
		m, "sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count 416\ndrm_render_minor 128\n");
	fake_machine_write(m, "sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51110\n");
	fake_machine_write(m, "sys/class/kfd/kfd/proc/4711/vram_51110", "1073741824\n");
	fake_machine_write(m, "sys/class/kfd/kfd/proc/4712/vram_51110", "0\n");
	struct gd_gpu_list *list = fake_machine_list("auto");
	assert_int_equal(list->count, 1);
	assert_int_equal(list->num_warnings, 0);
	const struct gd_gpu *gpu = list->gpus[0];
	assert_int_equal(gpu->vendor, GD_VENDOR_AMD);
	assert_string_equal(gpu->name, "AMD Instinct MI210");
	assert_string_equal(gpu->uuid, "GPU-1a2b3c4d5e6f7081");
	assert_string_equal(gpu->pci_id, id);
	assert_int_equal(gpu->memory_total_bytes, 68702699520);
	assert_int_equal(gpu->memory_used_bytes, 8702699520);
	assert_int_equal(gpu->memory_free_bytes, 60000000000);
	assert_int_equal(gpu->utilization_percent, 87);
	assert_int_equal(gpu->temperature_celsius, 47);
	assert_int_equal(gpu->power_milliwatts, 93000);
	assert_int_equal(gpu->numa_node, 3);
	assert_true(gpu->known & GD_GPU_KNOWN_PROCESSES);
	assert_int_equal(gpu->num_processes, 1);
	assert_int_equal(gpu->processes[0]->pid, 4711);
	assert_int_equal(gpu->processes[0]->memory_bytes, 1 << 30);
	gd_gpu_list_free(list);
	assert_false(gd_gpu_cuda_available());
}

static void test_missing_or_malformed_sysfs_file_makes_its_field_unknown(void **state)
{
	struct fake_machine *m = *state;
	const char *id = "0000:03:00.0";
	add_card(m, 129, id, "0x1002");
	set(m, id, "device", "0x73bf");
	set(m, id, "gpu_busy_percent", "busy");
	set(m, id, "mem_info_vram_total", "");
	set(m, id, "mem_info_vram_used", "12");
	set(m, id, "numa_node", "-1");
	set(m, id, "product_name", "");
	struct gd_gpu_list *list = fake_machine_survey();
	const struct gd_gpu *gpu = list->gpus[0];
	assert_string_equal(gpu->name, "AMD GPU 0x73bf");
	assert_int_equal(
		gpu->known, GD_GPU_KNOWN_NAME | GD_GPU_KNOWN_PCI_ID | GD_GPU_KNOWN_MEMORY_USED | GD_GPU_KNOWN_MIG);
	gd_gpu_list_free(list);
}

static void test_cards_of_other_vendors_are_ignored_and_nodes_sorted(void **state)
{
	struct fake_machine *m = *state;
	add_card(m, 1000, "0000:44:00.0", "0x1002");
	add_card(m, 129, "0000:43:00.0", "0x1002");
	add_card(m, 128, "0000:00:02.0", "0x8086");
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 2);
	assert_string_equal(list->gpus[0]->pci_id, "0000:43:00.0");
	assert_string_equal(list->gpus[1]->pci_id, "0000:44:00.0");
	gd_gpu_list_free(list);
}

/* A node of kfd's topology: a card's render node, and its links as "type node_to" pairs. */
static void add_node(const struct fake_machine *m, int node, int minor, const int (*links)[2], int count)
{
	char path[256];
	snprintf(path, sizeof(path), "sys/class/kfd/kfd/topology/nodes/%d/properties", node);
	fake_machine_write(m, path, "simd_count 416\ndrm_render_minor %d\n", minor);
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "sys/class/kfd/kfd/topology/nodes/%d/io_links/%d/properties", node, i);
		fake_machine_write(m, path, "type %d\nversion_major 0\nnode_from %d\nnode_to %d\nweight 15\n",
			links[i][0], node, links[i][1]);
	}
}

static void test_cards_with_an_xgmi_link_are_linked_and_cards_on_pcie_are_not(void **state)
{
	enum { PCIE = 2, XGMI = 11, CPU = 0 };
	struct fake_machine *m = *state;
	for (int i = 0; i < 4; i++) {
		char id[32];
		snprintf(id, sizeof(id), "0000:4%d:00.0", i);
		add_card(m, 128 + i, id, "0x1002");
	}
	/* The numbers of nodes are not those of cards: node 0 is a CPU, and node 3 is missing. */
	add_node(m, CPU, 0, (const int[][2]){{PCIE, 1}, {XGMI, 2}}, 2);
	add_node(m, 1, 128, (const int[][2]){{PCIE, CPU}, {XGMI, 4}, {PCIE, 2}}, 3);
	add_node(m, 2, 129, (const int[][2]){{PCIE, CPU}, {XGMI, 99}, {XGMI, CPU}}, 3);
	add_node(m, 4, 130, (const int[][2]){{PCIE, CPU}}, 1);
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 4);
	for (int i = 0; i < 3; i++)
		assert_true(list->gpus[i]->known & GD_GPU_KNOWN_LINKS);
	assert_int_equal(list->gpus[0]->links, 1 << 2);
	assert_int_equal(list->gpus[1]->links, 0);
	assert_int_equal(list->gpus[2]->links, 1 << 0);
	/* kfd does not list the last card. */
	assert_false(list->gpus[3]->known & GD_GPU_KNOWN_LINKS);
	gd_gpu_list_free(list);
}

static void test_amd_cards_are_numbered_after_nvidia_ones(void **state)
{
	struct fake_machine *m = *state;
	fake_machine_cards(m, "card\nuuid=GPU-1\ncard\nuuid=GPU-2\n");
	add_card(m, 128, "0000:43:00.0", "0x1002");
	struct gd_gpu_list *list = fake_machine_list("2");
	assert_int_equal(list->gpus[0]->vendor, GD_VENDOR_AMD);
	assert_int_equal(list->gpus[0]->vendor_index, 0);
	struct gd_env_change *changes;
	assert_int_equal(gd_gpu_bind(list->gpus, 1, &changes, NULL), 0);
	assert_string_equal(changes[3].name, "ROCR_VISIBLE_DEVICES");
	assert_string_equal(changes[3].value, "0");
	free(changes);
	gd_gpu_list_free(list);
	setenv("CUDA_VISIBLE_DEVICES", "0", 1); /* refers to the NVIDIA cards, if there are any */
	assert_int_equal(gd_gpu_count("auto", NULL), 2);
}

static int survey_count(void)
{
	struct gd_gpu_list *list = fake_machine_survey();
	int count = (int)list->count;
	gd_gpu_list_free(list);
	return count;
}

static void test_inherited_rocr_hip_and_cuda_variables_limit_the_cards(void **state)
{
	struct fake_machine *m = *state;
	add_card(m, 128, "0000:43:00.0", "0x1002");
	add_card(m, 129, "0000:44:00.0", "0x1002");
	add_card(m, 130, "0000:45:00.0", "0x1002");
	set(m, "0000:44:00.0", "unique_id", "abcdef0123456789");
	setenv("ROCR_VISIBLE_DEVICES", "2,GPU-abcdef0123456789", 1);
	assert_int_equal(survey_count(), 2);
	assert_int_equal(gd_gpu_count("0", NULL), -ENODEV);
	setenv("HIP_VISIBLE_DEVICES", "1", 1); /* the second of the remaining cards */
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 1);
	assert_int_equal(list->gpus[0]->index, 2);
	gd_gpu_list_free(list);
	unsetenv("ROCR_VISIBLE_DEVICES");
	unsetenv("HIP_VISIBLE_DEVICES");
	setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
	assert_int_equal(survey_count(), 2);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fake_machine_setup, fake_machine_teardown)
	const struct CMUnitTest tests[] = {
		T(test_every_field_of_a_card_is_read),
		T(test_missing_or_malformed_sysfs_file_makes_its_field_unknown),
		T(test_cards_of_other_vendors_are_ignored_and_nodes_sorted),
		T(test_cards_with_an_xgmi_link_are_linked_and_cards_on_pcie_are_not),
		T(test_amd_cards_are_numbered_after_nvidia_ones),
		T(test_inherited_rocr_hip_and_cuda_variables_limit_the_cards),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
