/* SPDX-License-Identifier: MIT */
/* NVIDIA's cards through the real loader, the real probe process and a fake library. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_machine.h"

#define GIB (1ull << 30)

#define A100                                                                                                           \
	"card\n"                                                                                                       \
	"name=NVIDIA A100-SXM4-80GB\n"                                                                                 \
	"uuid=GPU-aaaa1111-0000-0000-0000-000000000000\n"                                                              \
	"pci=0:65:0\n"                                                                                                 \
	"memory=85899345920 64424509440 20401094656 1073741824\n"                                                      \
	"utilization=37\n"                                                                                             \
	"temperature=41\n"                                                                                             \
	"power=61500\n"                                                                                                \
	"mode=0\n"

#define T4                                                                                                             \
	"card\n"                                                                                                       \
	"name=Tesla T4\n"                                                                                              \
	"uuid=GPU-aaaa2222-0000-0000-0000-000000000000\n"                                                              \
	"pci=0:B3:0\n"                                                                                                 \
	"memory=16106127360 16106127360 0 0\n"

static bool has(const struct gd_gpu *gpu, unsigned bits)
{
	return (gpu->known & bits) == bits;
}

static void test_every_field_of_a_card_is_read(void **state)
{
	struct fake_machine *m = *state;
	fake_machine_write(m, "sys/bus/pci/devices/0000:65:00.0/numa_node", "1\n");
	fake_machine_cards(m, A100 "energy=123456789012345\ncompute=4711 2147483648\ngraphics=815 1048576\n");
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 1);
	assert_int_equal(list->num_warnings, 0);
	const struct gd_gpu *gpu = list->gpus[0];
	assert_true(has(gpu, GD_GPU_KNOWN_UUID | GD_GPU_KNOWN_NAME | GD_GPU_KNOWN_PCI_ID | GD_GPU_KNOWN_MEMORY_TOTAL |
				     GD_GPU_KNOWN_MEMORY_FREE | GD_GPU_KNOWN_MEMORY_USED | GD_GPU_KNOWN_UTILIZATION |
				     GD_GPU_KNOWN_TEMPERATURE | GD_GPU_KNOWN_POWER | GD_GPU_KNOWN_NUMA_NODE |
				     GD_GPU_KNOWN_PROCESSES | GD_GPU_KNOWN_MIG | GD_GPU_KNOWN_COMPUTE_MODE |
				     GD_GPU_KNOWN_MEMORY_RESERVED | GD_GPU_KNOWN_ENERGY));
	assert_int_equal(gpu->vendor, GD_VENDOR_NVIDIA);
	assert_int_equal(gpu->health, GD_GPU_HEALTH_OK);
	assert_int_equal(gpu->index, 0);
	assert_int_equal(gpu->mig_index, -1);
	assert_string_equal(gpu->name, "NVIDIA A100-SXM4-80GB");
	assert_string_equal(gpu->uuid, "GPU-aaaa1111-0000-0000-0000-000000000000");
	assert_string_equal(gpu->pci_id, "00000000:65:00.0");
	assert_int_equal(gpu->memory_total_bytes, 80 * GIB);
	assert_int_equal(gpu->memory_free_bytes, 60 * GIB);
	assert_int_equal(gpu->memory_used_bytes, 19 * GIB);
	assert_int_equal(gpu->memory_reserved_bytes, 1 * GIB);
	assert_int_equal(gpu->utilization_percent, 37);
	assert_int_equal(gpu->temperature_celsius, 41);
	assert_int_equal(gpu->power_milliwatts, 61500);
	assert_true(gpu->energy_millijoules == 123456789012345);
	assert_int_equal(gpu->numa_node, 1);
	assert_false(gpu->exclusive || gpu->prohibited || gpu->mig_enabled);
	assert_int_equal(gpu->num_processes, 2);
	assert_int_equal(gpu->processes[0]->pid, 4711);
	assert_true(gpu->processes[0]->memory_known);
	assert_int_equal(gpu->processes[0]->memory_bytes, 2 * GIB);
	assert_int_equal(gpu->processes[1]->pid, 815);
	gd_gpu_list_free(list);
}

static void test_several_cards_come_in_the_order_of_their_index(void **state)
{
	fake_machine_cards(*state, A100 T4 A100 T4);
	struct gd_gpu_list *list = fake_machine_list("all");
	assert_int_equal(list->count, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(list->gpus[i]->index, i);
	assert_string_equal(list->gpus[3]->name, "Tesla T4");
	gd_gpu_list_free(list);
	assert_int_equal(gd_gpu_count("1-3", NULL), 3);
	assert_true(gd_gpu_cuda_available());
}

static void test_field_that_a_card_does_not_report_is_unknown_and_not_zero(void **state)
{
	fake_machine_cards(*state, "card\nname=Orin\n");
	struct gd_gpu_list *list = fake_machine_survey();
	const struct gd_gpu *gpu = list->gpus[0];
	assert_int_equal(gpu->health, GD_GPU_HEALTH_OK);
	assert_false(
		gpu->known & (GD_GPU_KNOWN_UUID | GD_GPU_KNOWN_MEMORY_TOTAL | GD_GPU_KNOWN_MEMORY_FREE |
				     GD_GPU_KNOWN_MEMORY_USED | GD_GPU_KNOWN_UTILIZATION | GD_GPU_KNOWN_TEMPERATURE |
				     GD_GPU_KNOWN_POWER | GD_GPU_KNOWN_NUMA_NODE | GD_GPU_KNOWN_ENERGY));
	assert_true(has(gpu, GD_GPU_KNOWN_PROCESSES)); /* the query succeeded: there are none */
	gd_gpu_list_free(list);
}

static void test_processes_that_cannot_be_queried_are_unknown(void **state)
{
	fake_machine_cards(*state, T4 "fail=GetComputeRunningProcesses 3\n");
	struct gd_gpu_list *list = fake_machine_survey();
	assert_false(list->gpus[0]->known & GD_GPU_KNOWN_PROCESSES);
	gd_gpu_list_free(list);
}

static void test_memory_of_a_process_may_be_unavailable(void **state)
{
	fake_machine_cards(*state, T4 "compute=10\ncompute=11 4096\n");
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->gpus[0]->num_processes, 2);
	assert_false(list->gpus[0]->processes[0]->memory_known);
	assert_true(list->gpus[0]->processes[1]->memory_known);
	assert_int_equal(list->gpus[0]->processes[1]->memory_bytes, 4096);
	gd_gpu_list_free(list);
}

static void test_process_that_computes_and_draws_is_listed_once(void **state)
{
	fake_machine_cards(*state, T4 "compute=10\ngraphics=10 4096\ngraphics=12 1\n");
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->gpus[0]->num_processes, 2);
	assert_int_equal(list->gpus[0]->processes[0]->pid, 10);
	assert_true(list->gpus[0]->processes[0]->memory_known);
	assert_int_equal(list->gpus[0]->processes[0]->memory_bytes, 4096);
	gd_gpu_list_free(list);
}

static void test_more_processes_than_the_first_buffer_holds_are_all_listed(void **state)
{
	char processes[8192] = "";
	for (int i = 0; i < 200; i++)
		sprintf(processes + strlen(processes), "compute=%d 1024\n", 1000 + i);
	fake_machine_cards(*state, T4 "%s", processes);
	setenv("FAKE_NVML_GROWING", "3", 1);
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->gpus[0]->num_processes, 200);
	assert_int_equal(list->gpus[0]->processes[199]->pid, 1199);
	gd_gpu_list_free(list);
}

static void test_names_that_are_not_utf8_are_made_so(void **state)
{
	fake_machine_cards(*state, "card\nname=GeForce\\xff\\x1b[31m \\xc3\\xa9\\xe2\\x82\n");
	struct gd_gpu_list *list = fake_machine_survey();
	assert_string_equal(
		list->gpus[0]->name, "GeForce\xEF\xBF\xBD\xEF\xBF\xBD[31m \xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD");
	gd_gpu_list_free(list);
}

static void test_mig_card_is_followed_by_its_instances(void **state)
{
	fake_machine_cards(*state,
		A100 "mig\n"
		     "instance 0\nname=NVIDIA A100 MIG 3g.40gb\nuuid=MIG-11111111\nmemory=42949672960 42949672960 0 0\n"
		     "instance 3\nname=NVIDIA A100 MIG 2g.20gb\nuuid=MIG-22222222\nmemory=21474836480 1073741824 0 0\n"
		     "compute=77 123456\n" T4);
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 4);
	assert_true(list->gpus[0]->mig_enabled);
	assert_int_equal(list->gpus[0]->mig_index, -1);
	for (int i = 1; i < 3; i++) {
		assert_int_equal(list->gpus[i]->index, 0);
		assert_int_equal(list->gpus[i]->mig_index, i - 1);
		assert_string_equal(list->gpus[i]->pci_id, "00000000:65:00.0");
	}
	assert_string_equal(list->gpus[2]->uuid, "MIG-22222222");
	assert_int_equal(list->gpus[2]->memory_free_bytes, GIB);
	assert_int_equal(list->gpus[2]->num_processes, 1);
	assert_false(list->gpus[2]->known & GD_GPU_KNOWN_UTILIZATION);
	assert_int_equal(list->gpus[3]->index, 1);
	gd_gpu_list_free(list);

	list = fake_machine_list("auto");
	assert_int_equal(list->count, 3);
	assert_string_equal(list->gpus[0]->uuid, "MIG-11111111");
	assert_string_equal(list->gpus[2]->name, "Tesla T4");
	gd_gpu_list_free(list);

	list = fake_machine_list("MIG-2");
	assert_int_equal(list->count, 1);
	struct gd_env_change *changes;
	assert_int_equal(gd_gpu_bind(list->gpus, 1, &changes, NULL), 0);
	assert_string_equal(changes[1].name, "CUDA_VISIBLE_DEVICES");
	assert_string_equal(changes[1].value, "MIG-22222222");
	free(changes);
	gd_gpu_list_free(list);
}

static void test_mig_card_without_instances_is_left_out_with_a_warning(void **state)
{
	fake_machine_cards(*state, A100 "mig\n" T4);
	struct gd_gpu_list *list = fake_machine_list("auto");
	assert_int_equal(list->count, 1);
	assert_int_equal(list->gpus[0]->index, 1);
	fake_machine_assert_warned(list, "GPU 0 is skipped: MIG is enabled, but it has no instance");
	gd_gpu_list_free(list);
	struct gd_error err;
	assert_int_equal(gd_gpu_list("0", &list, &err), -ENODEV);
	check_contains(err.message, "no instance");
}

static void test_prohibited_card_is_left_out_and_exclusive_ones_are_marked(void **state)
{
	fake_machine_cards(*state, "card\nmode=3\ncard\nmode=1\ncard\nmode=2\n");
	struct gd_gpu_list *list = fake_machine_survey();
	assert_true(list->gpus[0]->exclusive && list->gpus[1]->exclusive);
	assert_false(list->gpus[2]->exclusive);
	assert_true(list->gpus[2]->prohibited);
	gd_gpu_list_free(list);
	list = fake_machine_list("auto");
	assert_int_equal(list->count, 2);
	fake_machine_assert_warned(list, "GPU 2 is skipped: its compute mode is \"prohibited\"");
	gd_gpu_list_free(list);
	struct gd_error err;
	assert_int_equal(gd_gpu_validate((int[]){0, 2}, 2, &err), -ENODEV);
	check_contains(err.message, "GPU 2 cannot be used: its compute mode");
}

static void test_card_lost_between_two_calls_is_listed_as_lost_and_not_used(void **state)
{
	fake_machine_cards(*state, A100 "fail=GetMemoryInfo 15\n" T4);
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 2);
	assert_int_equal(list->gpus[0]->health, GD_GPU_HEALTH_LOST);
	assert_true(has(list->gpus[0], GD_GPU_KNOWN_NAME | GD_GPU_KNOWN_UUID));
	assert_false(list->gpus[0]->known & (GD_GPU_KNOWN_MEMORY_FREE | GD_GPU_KNOWN_PROCESSES));
	assert_int_equal(list->gpus[1]->health, GD_GPU_HEALTH_OK);
	fake_machine_assert_warned(list, "GPU 0 has fallen off the bus");
	gd_gpu_list_free(list);
	assert_int_equal(gd_gpu_count("auto", NULL), 1);
	struct gd_error err;
	assert_int_equal(gd_gpu_validate((int[]){1, 0}, 2, &err), -ENODEV);
	check_contains(err.message, "GPU 0 cannot be used: it has fallen off the bus");
}

static void test_instance_is_lost_with_its_card(void **state)
{
	fake_machine_cards(*state, A100 "mig\ninstance 0\nuuid=MIG-1\nfail=GetMemoryInfo 15\n");
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 2);
	assert_int_equal(list->gpus[0]->health, GD_GPU_HEALTH_LOST);
	assert_int_equal(list->gpus[1]->health, GD_GPU_HEALTH_LOST);
	gd_gpu_list_free(list);
}

static void test_card_without_a_handle_is_listed_with_its_health(void **state)
{
	fake_machine_cards(*state, A100 "fail=GetHandleByIndex 15\n" T4 T4 "fail=GetHandleByIndex 4\n");
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 3);
	assert_int_equal(list->gpus[0]->health, GD_GPU_HEALTH_LOST);
	assert_int_equal(list->gpus[0]->known, 0);
	assert_int_equal(list->gpus[1]->health, GD_GPU_HEALTH_OK);
	assert_int_equal(list->gpus[1]->index, 1);
	assert_int_equal(list->gpus[2]->health, GD_GPU_HEALTH_UNREADABLE);
	fake_machine_assert_warned(list, "GPU 2 cannot be read: no permission");
	gd_gpu_list_free(list);
}

static void test_function_unknown_to_the_driver_falls_back_to_the_older_one(void **state)
{
	fake_machine_cards(*state, A100 "fail=GetMemoryInfo_v2 13\nfail=GetTemperatureV 13\nfail=GetMigMode 3\n");
	struct gd_gpu_list *list = fake_machine_survey();
	const struct gd_gpu *gpu = list->gpus[0];
	assert_true(has(gpu, GD_GPU_KNOWN_MEMORY_USED | GD_GPU_KNOWN_TEMPERATURE | GD_GPU_KNOWN_MIG));
	assert_int_equal(gpu->memory_used_bytes, 20 * GIB); /* including reserved memory */
	assert_false(gpu->known & GD_GPU_KNOWN_MEMORY_RESERVED);
	assert_int_equal(gpu->temperature_celsius, 41);
	assert_false(gpu->mig_enabled);
	gd_gpu_list_free(list);
}

static void test_library_without_newer_functions_is_read_with_the_older_ones(void **state)
{
	fake_machine_use_old();
	fake_machine_write(*state, "sys/bus/pci/devices/0000:65:00.0/numa_node", "-1\n");
	fake_machine_cards(*state, A100 "compute=10 4096\ncompute=11 8192\ncompute=12\n" T4);
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 2);
	const struct gd_gpu *gpu = list->gpus[0];
	assert_string_equal(gpu->pci_id, "0000:65:00.0");
	assert_int_equal(gpu->memory_used_bytes, 20 * GIB);
	assert_int_equal(gpu->temperature_celsius, 41);
	assert_int_equal(gpu->num_processes, 3);
	assert_int_equal(gpu->processes[1]->pid, 11);
	assert_int_equal(gpu->processes[1]->memory_bytes, 8192);
	assert_false(gpu->processes[2]->memory_known);
	assert_false(gpu->known & GD_GPU_KNOWN_NUMA_NODE); /* -1: the machine has no nodes */
	gd_gpu_list_free(list);
}

static void test_links_are_known_at_both_ends(void **state)
{
	fake_machine_cards(*state, A100 "nvlink=1\n" T4 T4);
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(has(list->gpus[i], GD_GPU_KNOWN_LINKS));
	assert_int_equal(list->gpus[0]->links, 1u << 1);
	assert_int_equal(list->gpus[1]->links, 1u << 0);
	assert_int_equal(list->gpus[2]->links, 0);
	gd_gpu_list_free(list);
	/* Pairs that cannot be queried have no link; libraries without the function report nothing. */
	fake_machine_cards(*state, A100 "nvlink=1\nfail=GetP2PStatus 3\n" T4 "fail=GetP2PStatus 3\n");
	list = fake_machine_survey();
	assert_true(list->gpus[0]->links == 0 && list->gpus[1]->links == 0);
	gd_gpu_list_free(list);
	fake_machine_use_old();
	list = fake_machine_survey();
	assert_false(list->gpus[0]->known & GD_GPU_KNOWN_LINKS);
	gd_gpu_list_free(list);
}

static void test_driver_that_is_not_loaded_gives_a_warning_and_no_error(void **state)
{
	fake_machine_cards(*state, "init=9\n");
	struct gd_gpu_list *list = fake_machine_list(NULL);
	assert_int_equal(list->count, 0);
	fake_machine_assert_warned(
		list, "cannot use the NVIDIA driver: the kernel driver is not loaded (NVML error 9)");
	gd_gpu_list_free(list);
	assert_false(gd_gpu_cuda_available());
	struct gd_error err;
	assert_int_equal(gd_gpu_list("0", &list, &err), -ENODEV);
	check_contains(err.message, "GPU 0 does not exist; this machine has none");
}

static void test_without_a_library_the_environment_grants_gpus(void **state)
{
	(void)state;
	setenv("GPUQ_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1", 1);
	setenv("CUDA_VISIBLE_DEVICES", "3, 1,GPU-5a,MIG-77,x,4", 1);
	struct gd_gpu_list *list = fake_machine_list(NULL);
	assert_int_equal(list->count, 4);
	assert_true(list->gpus[0]->index == 3 && list->gpus[1]->index == 1);
	assert_string_equal(list->gpus[2]->uuid, "GPU-5a");
	assert_true(list->gpus[0]->vendor == GD_VENDOR_NVIDIA && gd_gpu_usable(list->gpus[0]));
	assert_int_equal(list->gpus[0]->known, 0);
	fake_machine_assert_warned(list, "GPUs are taken from CUDA_VISIBLE_DEVICES='3, 1,GPU-5a,MIG-77,x,4'");
	/* Jobs get the names of the grant, in the order of the grant. */
	struct gd_env_change *changes;
	assert_int_equal(gd_gpu_bind(list->gpus, 2, &changes, NULL), 0);
	assert_string_equal(changes[0].name, "CUDA_VISIBLE_DEVICES");
	assert_string_equal(changes[0].value, "3,1");
	free(changes);
	assert_int_equal(gd_gpu_bind(&list->gpus[2], 1, &changes, NULL), 0);
	assert_string_equal(changes[0].value, "GPU-5a");
	free(changes);
	gd_gpu_list_free(list);
	const char *const nothing[] = {"", "-1", "NoDevFiles", "x"};
	for (size_t i = 0; i < sizeof(nothing) / sizeof(*nothing); i++) {
		setenv("CUDA_VISIBLE_DEVICES", nothing[i], 1);
		list = fake_machine_list(NULL);
		assert_int_equal(list->count, 0);
		gd_gpu_list_free(list);
	}
	unsetenv("CUDA_VISIBLE_DEVICES");
	setenv("SLURM_JOB_ID", "77", 1);
	list = fake_machine_list(NULL);
	fake_machine_assert_warned(list, "Slurm job 77 has no GPU");
	gd_gpu_list_free(list);
	setenv("SLURM_JOB_GPUS", "2,3", 1);
	list = fake_machine_list(NULL);
	assert_int_equal(list->count, 2);
	assert_true(list->gpus[0]->index == 2 && list->gpus[1]->index == 3);
	fake_machine_assert_warned(list, "GPUs are taken from SLURM_JOB_GPUS='2,3'");
	gd_gpu_list_free(list);
	unsetenv("SLURM_JOB_GPUS");
	unsetenv("SLURM_JOB_ID");
}

/* Slurm may hide the other cards from the driver, which then numbers those that are left. */
static void test_grant_of_slurm_limits_the_gpus_of_the_driver(void **state)
{
	fake_machine_cards(*state, A100 A100);
	unsetenv("CUDA_VISIBLE_DEVICES");
	setenv("SLURM_JOB_GPUS", "1", 1);
	struct gd_gpu_list *list = fake_machine_list(NULL);
	assert_int_equal(list->count, 1);
	assert_int_equal(list->gpus[0]->index, 1);
	gd_gpu_list_free(list);
	setenv("SLURM_JOB_GPUS", "6,7", 1);
	list = fake_machine_list(NULL);
	assert_int_equal(list->count, 2);
	gd_gpu_list_free(list);
	unsetenv("SLURM_JOB_GPUS");
}

static void test_driver_that_hangs_grants_nothing(void **state)
{
	fake_machine_cards(*state, "hang=Init\n" A100);
	setenv("GPUQ_ANSWER_MS", "200", 1);
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	struct gd_gpu_list *list = fake_machine_list(NULL);
	assert_int_equal(list->count, 0);
	fake_machine_assert_warned(list, "the NVIDIA driver does not answer");
	gd_gpu_list_free(list);
	unsetenv("GPUQ_ANSWER_MS");
}

static void test_missing_or_foreign_library_gives_a_warning_and_no_gpus(void **state)
{
	(void)state;
	setenv("GPUQ_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1", 1);
	struct gd_gpu_list *list = fake_machine_list(NULL);
	assert_int_equal(list->count, 0);
	fake_machine_assert_warned(list, "/nonexistent/libnvidia-ml.so.1");
	gd_gpu_list_free(list);
	setenv("GPUQ_NVML_LIBRARY", "libm.so.6", 1);
	list = fake_machine_list(NULL);
	assert_int_equal(list->count, 0);
	fake_machine_assert_warned(list, "nvmlDeviceGetHandleByIndex is missing");
	gd_gpu_list_free(list);
}

static void test_library_that_crashes_is_an_error_with_a_message(void **state)
{
	fake_machine_cards(*state, T4 "crash=GetName\n");
	struct gd_gpu_list *list;
	struct gd_error err;
	assert_int_equal(gd_gpu_list(NULL, &list, &err), -EIO);
	check_contains(err.message, "crashed the probe process");
	check_contains(err.message, "Segmentation fault");
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* reaped */
	assert_int_equal(errno, ECHILD);
}

static void test_this_process_never_loads_the_library(void **state)
{
	struct fake_machine *m = *state;
	fake_machine_cards(m, T4);
	gd_gpu_list_free(fake_machine_survey());
	char path[128], line[1024];
	snprintf(path, sizeof(path), "%s/loaded", m->dir);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	int pid = 0;
	assert_int_equal(fscanf(f, "%d", &pid), 1);
	fclose(f);
	assert_int_not_equal(pid, getpid());
	assert_int_equal(kill(pid, 0), -1); /* and the process is gone */
	f = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof(line), f))
		assert_null(strstr(line, "nvidia-ml"));
	fclose(f);
}

static void test_card_that_does_not_answer_delays_no_other_card(void **state)
{
	fake_machine_cards(*state, T4 T4 "hang=GetName\n" T4);
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 3);
	assert_int_equal(list->gpus[0]->health, GD_GPU_HEALTH_OK);
	assert_int_equal(list->gpus[1]->health, GD_GPU_HEALTH_NOT_ANSWERING);
	assert_int_equal(list->gpus[2]->health, GD_GPU_HEALTH_OK);
	fake_machine_assert_warned(list, "GPU 1 does not answer");
	gd_gpu_list_free(list);
}

static void test_driver_that_does_not_answer_is_warned_of_and_other_vendors_are_listed(void **state)
{
	fake_machine_cards(*state, "hang=Init\n" T4);
	fake_machine_write(*state, "sys/class/drm/renderD128/device/vendor", "0x1002\n");
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 1); /* the other vendor's */
	assert_int_equal(list->gpus[0]->vendor, GD_VENDOR_AMD);
	fake_machine_assert_warned(list, "the NVIDIA driver does not answer");
	gd_gpu_list_free(list);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fake_machine_setup, fake_machine_teardown)
	const struct CMUnitTest tests[] = {
		T(test_every_field_of_a_card_is_read),
		T(test_several_cards_come_in_the_order_of_their_index),
		T(test_field_that_a_card_does_not_report_is_unknown_and_not_zero),
		T(test_processes_that_cannot_be_queried_are_unknown),
		T(test_memory_of_a_process_may_be_unavailable),
		T(test_process_that_computes_and_draws_is_listed_once),
		T(test_more_processes_than_the_first_buffer_holds_are_all_listed),
		T(test_names_that_are_not_utf8_are_made_so),
		T(test_mig_card_is_followed_by_its_instances),
		T(test_mig_card_without_instances_is_left_out_with_a_warning),
		T(test_prohibited_card_is_left_out_and_exclusive_ones_are_marked),
		T(test_card_lost_between_two_calls_is_listed_as_lost_and_not_used),
		T(test_instance_is_lost_with_its_card),
		T(test_card_without_a_handle_is_listed_with_its_health),
		T(test_function_unknown_to_the_driver_falls_back_to_the_older_one),
		T(test_library_without_newer_functions_is_read_with_the_older_ones),
		T(test_links_are_known_at_both_ends),
		T(test_driver_that_is_not_loaded_gives_a_warning_and_no_error),
		T(test_without_a_library_the_environment_grants_gpus),
		T(test_grant_of_slurm_limits_the_gpus_of_the_driver),
		T(test_driver_that_hangs_grants_nothing),
		T(test_missing_or_foreign_library_gives_a_warning_and_no_gpus),
		T(test_library_that_crashes_is_an_error_with_a_message),
		T(test_this_process_never_loads_the_library),
		T(test_card_that_does_not_answer_delays_no_other_card),
		T(test_driver_that_does_not_answer_is_warned_of_and_other_vendors_are_listed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
