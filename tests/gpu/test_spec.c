/* SPDX-License-Identifier: MIT */
/* Specifications, selection and binding; with simulated GPUs if possible. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_machine.h"
#include "gpu/bind.h"
#include "gpu/list.h"
#include "gpu/spec.h"
#include "support/gpu_pointers.h"

#define CARD(name, uuid) "card\nname=" name "\nuuid=" uuid "\n"
#define TWO_CARDS        CARD("A", "GPU-abc1") CARD("A", "GPU-abd2")

static void assert_spec_error(const char *text, const char *words)
{
	struct gpu_spec spec;
	struct gd_error err = {0};
	assert_int_equal(gpu_spec_parse(text, NULL, &spec, &err), -EINVAL);
	assert_int_equal(err.code, -EINVAL);
	check_contains(err.message, words);
}

static void test_wrong_specifications_say_what_is_wrong(void **state)
{
	(void)state;
	assert_spec_error("", "empty value");
	assert_spec_error("  ", "empty value");
	assert_spec_error("cuda", "'cuda' is not a GPU; expected auto");
	assert_spec_error("0,", "'' is not a GPU");
	assert_spec_error("0,,1", "'' is not a GPU");
	assert_spec_error("-1", "'-1' is not a GPU");
	assert_spec_error("0-", "'0-' is not a GPU");
	assert_spec_error("1x", "'1x' is not a GPU");
	assert_spec_error("3-1", "is reversed");
	assert_spec_error("65536", "is not a GPU");
	assert_spec_error("99999999999999999999", "is not a GPU");
	assert_spec_error("0,auto", "'auto' is not a GPU");
	assert_spec_error("0,sim:2", "'sim:2' is not a GPU");
	assert_spec_error("sim:", "expected sim:N");
	assert_spec_error("sim:0", "N from 1 to 1024");
	assert_spec_error("sim:1025", "N from 1 to 1024");
	assert_spec_error("sim:4,1", "expected sim:N");
	assert_spec_error("sim:4x", "'' is not a size");
	assert_spec_error("sim:4x16", "'16' is not a size");
	assert_spec_error("sim:4x0G", "is not a size");
	assert_spec_error("sim:4x16Gb/s", "is not a size");
	assert_spec_error("sim:4x4000000T", "is not a size");
}

static void test_indices_ranges_and_uuids_can_be_listed_together(void **state)
{
	(void)state;
	struct gpu_spec spec;
	assert_int_equal(gpu_spec_parse(" 0, 2-4 ,GPU-a1,mig-7 ", NULL, &spec, NULL), 0);
	assert_int_equal(spec.kind, GPU_SPEC_ITEMS);
	assert_int_equal(spec.num_items, 4);
	assert_int_equal(spec.items[1].first, 2);
	assert_int_equal(spec.items[1].last, 4);
	assert_string_equal(spec.items[2].uuid, "GPU-a1");
	gpu_spec_finish(&spec);
}

static void test_simulated_gpus_are_all_free(void **state)
{
	(void)state;
	struct gd_gpu_list *list = fake_machine_list("sim:3");
	assert_int_equal(list->count, 3);
	for (int i = 0; i < 3; i++) {
		const struct gd_gpu *gpu = list->gpus[i];
		assert_int_equal(gpu->index, i);
		assert_int_equal(gpu->vendor, GD_VENDOR_SIMULATED);
		assert_int_equal(gpu->memory_total_bytes, UINT64_C(16) << 30);
		assert_int_equal(gpu->memory_free_bytes, gpu->memory_total_bytes);
		assert_true(gpu->known & GD_GPU_KNOWN_PROCESSES);
		assert_int_equal(gpu->num_processes, 0);
		assert_true(gd_gpu_usable(gpu));
	}
	assert_string_not_equal(list->gpus[0]->uuid, list->gpus[1]->uuid);
	gd_gpu_list_free(list);
	static const struct {
		const char *spec;
		uint64_t bytes;
	} sizes[] = {{"sim:1x512M", UINT64_C(512) << 20}, {"sim:1x80GB", UINT64_C(80) << 30},
		{"sim:1x24GiB", UINT64_C(24) << 30}, {"sim:1x1t", UINT64_C(1) << 40}};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		list = fake_machine_list(sizes[i].spec);
		assert_int_equal(list->gpus[0]->memory_total_bytes, sizes[i].bytes);
		gd_gpu_list_free(list);
	}
	assert_int_equal(gd_gpu_count("sim:1024", NULL), 1024);
}

static void assert_list_error(const char *spec, int code, const char *words)
{
	struct gd_gpu_list *list = NULL;
	struct gd_error err = {0};
	assert_int_equal(gd_gpu_list(spec, &list, &err), code);
	assert_null(list);
	check_contains(err.message, words);
}

/* The indices that a specification selects, as "0 1". */
static void assert_selects(const char *spec, const char *expected)
{
	int ids[8];
	struct gd_error err = {0};
	char seen[64] = "";
	int count = gd_gpu_parse(spec, ids, 8, &err);
	if (count < 0)
		fail_msg("'%s': %s", spec ? spec : "NULL", err.message);
	for (int i = 0; i < count && i < 8; i++)
		sprintf(seen + strlen(seen), i ? " %d" : "%d", ids[i]);
	assert_string_equal(seen, expected);
	assert_int_equal(gd_gpu_count(spec, NULL), count);
}

static void test_simulated_gpus_of_the_variable_are_the_machine_of_every_function(void **state)
{
	fake_machine_cards(*state, TWO_CARDS CARD("A", "GPU-3333"));
	setenv("GPUQ_GPUS", " sim:2x1G ", 1);
	assert_selects(NULL, "0 1");
	assert_selects("auto", "0 1");
	assert_selects("all", "0 1");
	assert_selects("1,0", "1 0");
	assert_selects("0-1", "0 1");
	assert_selects("GPU-51310000-0000-4000-8000-000000000001", "1");
	assert_selects("sim:3", "0 1 2"); /* explicit simulated GPUs replace those of the variable */
	assert_list_error("2", -ENODEV, "GPU 2 does not exist; existing GPUs: 0, 1 (with GPUQ_GPUS=' sim:2x1G ')");
	assert_list_error("GPU-3333", -ENODEV, "GPU-3333 does not exist");

	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 2);
	assert_int_equal(list->gpus[1]->vendor, GD_VENDOR_SIMULATED);
	gd_gpu_list_free(list);
	assert_int_equal(gpu_list_ids((int[]){1, 0}, 2, &list, NULL), 0);
	assert_int_equal(list->count, 2);
	assert_int_equal(list->gpus[0]->index, 1);
	assert_int_equal(list->gpus[0]->memory_total_bytes, UINT64_C(1) << 30);
	gd_gpu_list_free(list);
	assert_int_equal(gd_gpu_get(1, &list, NULL), 0);
	assert_int_equal(list->gpus[0]->vendor, GD_VENDOR_SIMULATED);
	gd_gpu_list_free(list);
	assert_int_equal(gd_gpu_get(2, &list, NULL), -ENODEV);
	assert_int_equal(gd_gpu_validate((int[]){0, 1}, 2, NULL), 0);
	assert_int_equal(gd_gpu_validate((int[]){2}, 1, NULL), -ENODEV);
	assert_false(gd_gpu_cuda_available());
}

static void test_real_gpus_of_the_variable_are_the_default_selection(void **state)
{
	fake_machine_cards(*state, TWO_CARDS CARD("A", "GPU-3333"));
	setenv("GPUQ_GPUS", "2,0", 1);
	assert_selects(NULL, "2 0");
	assert_selects("auto", "2 0");
	assert_selects(" auto ", "2 0");
	assert_selects("all", "0 1 2");
	assert_selects("1", "1");
	assert_selects("GPU-abd2", "1");
	assert_int_equal(gd_gpu_validate((int[]){1}, 1, NULL), 0);
	struct gd_gpu_list *list = fake_machine_survey();
	assert_int_equal(list->count, 3);
	gd_gpu_list_free(list);
	assert_int_equal(gd_gpu_get(1, &list, NULL), 0);
	gd_gpu_list_free(list);
	assert_int_equal(gpu_list_ids((int[]){1}, 1, &list, NULL), 0);
	gd_gpu_list_free(list);
	assert_true(gd_gpu_cuda_available());

	static const char *const no_selection[] = {"auto", "all", ""};
	for (size_t i = 0; i < sizeof(no_selection) / sizeof(*no_selection); i++) {
		setenv("GPUQ_GPUS", no_selection[i], 1);
		assert_selects(NULL, "0 1 2");
		assert_selects("auto", "0 1 2");
	}
	unsetenv("GPUQ_GPUS");
	assert_selects("auto", "0 1 2");
}

static void test_wrong_value_of_the_variable_is_an_error_that_names_it(void **state)
{
	fake_machine_cards(*state, TWO_CARDS);
	static const char *const specs[] = {NULL, "auto", "all", "0", "GPU-abc1"};
	setenv("GPUQ_GPUS", "nonsense", 1);
	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++)
		assert_list_error(specs[i], -EINVAL, "$GPUQ_GPUS 'nonsense': ");
	struct gd_gpu_list *list;
	struct gd_error err = {0};
	assert_int_equal(gd_gpu_survey(&list, &err), -EINVAL);
	check_contains(err.message, "$GPUQ_GPUS 'nonsense': ");
	err.message[0] = '\0';
	assert_int_equal(gd_gpu_get(0, &list, &err), -EINVAL);
	check_contains(err.message, "$GPUQ_GPUS 'nonsense': ");
	err.message[0] = '\0';
	assert_int_equal(gd_gpu_validate((int[]){0}, 1, &err), -EINVAL);
	check_contains(err.message, "$GPUQ_GPUS 'nonsense': ");
	assert_selects("sim:1", "0"); /* it does not depend on the variable */
	assert_list_error("wrong", -EINVAL, "GPU specification 'wrong': ");
	setenv("GPUQ_GPUS", "7", 1);
	assert_list_error("auto", -ENODEV, "$GPUQ_GPUS '7': GPU 7 does not exist; existing GPUs: 0, 1");
}

static void test_parse_gives_indices_in_the_order_of_the_specification(void **state)
{
	fake_machine_cards(*state, TWO_CARDS CARD("A", "GPU-ffff"));
	int ids[2] = {-1, -1};
	assert_int_equal(gd_gpu_parse("GPU-ffff,0", ids, 2, NULL), 2);
	assert_int_equal(ids[0], 2);
	assert_int_equal(ids[1], 0);
	assert_int_equal(gd_gpu_parse("0-2", ids, 2, NULL), 3); /* more than the buffer holds */
	assert_int_equal(ids[1], 1);
}

static void test_missing_gpu_is_reported_with_the_existing_ones(void **state)
{
	assert_list_error("0", -ENODEV, "GPU 0 does not exist; this machine has none (sim:4 simulates four)");
	fake_machine_cards(*state, TWO_CARDS);
	assert_list_error("0,7", -ENODEV, "GPU specification '0,7': GPU 7 does not exist; existing GPUs: 0, 1");
	assert_list_error("0-2", -ENODEV, "GPU 2 does not exist");
	assert_list_error("GPU-9", -ENODEV, "GPU-9 does not exist; existing GPUs: GPU-abc1, GPU-abd2");
	assert_list_error("MIG-1", -ENODEV, "MIG-1 does not exist");
	assert_list_error("GPU-ab", -EINVAL, "is ambiguous: it matches GPU-abc1 and GPU-abd2");
	assert_list_error("1,0-1", -EINVAL, "GPU 1 is listed twice");
	assert_list_error("0,GPU-abc1", -EINVAL, "GPU 0 is listed twice");
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	assert_list_error("0", -ENODEV, "existing GPUs: 1 (with CUDA_VISIBLE_DEVICES='1')");
}

static void test_uuid_given_in_full_is_not_the_beginning_of_another(void **state)
{
	fake_machine_cards(*state, CARD("A", "GPU-abc") CARD("A", "GPU-abcdef"));
	int id = -1;
	assert_int_equal(gd_gpu_parse("gpu-ABC", &id, 1, NULL), 1);
	assert_int_equal(id, 0);
}

static void test_get_returns_one_gpu_with_its_mig_instances(void **state)
{
	fake_machine_cards(*state, TWO_CARDS CARD("B", "GPU-3") "mig\ninstance 1\nuuid=MIG-5\n");
	struct gd_gpu_list *list;
	struct gd_error err;
	assert_int_equal(gd_gpu_get(1, &list, &err), 0);
	assert_int_equal(list->count, 1);
	assert_string_equal(list->gpus[0]->uuid, "GPU-abd2");
	gd_gpu_list_free(list);
	assert_int_equal(gd_gpu_get(2, &list, &err), 0);
	assert_int_equal(list->count, 2);
	assert_int_equal(list->gpus[1]->mig_index, 0);
	gd_gpu_list_free(list);
	assert_int_equal(gd_gpu_get(3, &list, &err), -ENODEV);
	check_contains(err.message, "GPU 3 does not exist; existing GPUs: 0, 1, 2");
	assert_int_equal(gd_gpu_get(-1, &list, &err), -EINVAL);
}

static void test_validate_says_which_is_wrong(void **state)
{
	fake_machine_cards(*state, TWO_CARDS);
	struct gd_error err = {0};
	assert_int_equal(gd_gpu_validate((int[]){0, 1, 0}, 3, &err), 0); /* duplicates are allowed */
	assert_int_equal(gd_gpu_validate((int[]){0, 5}, 2, &err), -ENODEV);
	check_contains(err.message, "GPU 5 does not exist; existing GPUs: 0, 1");
	assert_int_equal(gd_gpu_validate((int[]){-3}, 1, &err), -EINVAL);
	check_contains(err.message, "GPU -3");
	assert_int_equal(gd_gpu_validate(NULL, 0, &err), -EINVAL);
	check_contains(err.message, "the list is empty");
	setenv("GPUQ_GPUS", "sim:8", 1);
	assert_int_equal(gd_gpu_validate((int[]){7}, 1, &err), 0);
	struct gd_gpu_list *list;
	assert_int_equal(gpu_list_ids((int[]){3, 3, 1}, 3, &list, &err), 0);
	assert_int_equal(list->count, 3);
	assert_int_equal(list->gpus[1]->index, 3);
	assert_int_equal(list->gpus[2]->index, 1);
	gd_gpu_list_free(list);
}

static void assert_visible(const char *value, const char *expected)
{
	setenv("CUDA_VISIBLE_DEVICES", value, 1);
	struct gd_gpu_list *list = fake_machine_survey();
	char seen[128] = "";
	for (size_t i = 0; i < list->count; i++)
		sprintf(seen + strlen(seen), i ? " %d/%d" : "%d/%d", list->gpus[i]->index, list->gpus[i]->mig_index);
	assert_string_equal(seen, expected);
	gd_gpu_list_free(list);
}

static void test_inherited_cuda_visible_devices_limits_the_gpus(void **state)
{
	fake_machine_cards(
		*state, TWO_CARDS CARD("A", "GPU-3333") "mig\ninstance 0\nuuid=MIG-5555\ninstance 1\nuuid=MIG-6666\n");
	assert_visible("1", "1/-1");
	assert_visible("1,0", "0/-1 1/-1");
	assert_visible("0, 1", "0/-1 1/-1");
	assert_visible("GPU-abd", "1/-1");
	assert_visible("2", "2/-1 2/0 2/1");
	assert_visible("MIG-6666", "2/-1 2/1");
	assert_visible("", "");
	assert_visible("-1", "");
	assert_visible("NoDevFiles", "");
	assert_visible("0,9,1", "0/-1");                  /* the list ends at the first invalid entry, as in CUDA */
	assert_int_equal(gd_gpu_count("sim:2", NULL), 2); /* does not apply to simulated ones */
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	struct gd_gpu_list *list = fake_machine_list("auto");
	assert_int_equal(list->count, 0);
	fake_machine_assert_warned(list, "CUDA_VISIBLE_DEVICES='' hides every GPU");
	gd_gpu_list_free(list);
}

static void test_mixed_cards_without_pci_order_give_a_warning(void **state)
{
	fake_machine_cards(*state, CARD("A", "GPU-1") CARD("B", "GPU-2"));
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	struct gd_gpu_list *list = fake_machine_list("auto");
	fake_machine_assert_warned(list, "set CUDA_DEVICE_ORDER=PCI_BUS_ID");
	gd_gpu_list_free(list);
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
	list = fake_machine_list("auto");
	assert_int_equal(list->num_warnings, 0);
	gd_gpu_list_free(list);
}

/* "NAME=value" of each change, "-NAME" for one that is unset. Releases the changes. */
static void assert_changes(struct gd_env_change *changes, const char *expected)
{
	char seen[512] = "";
	for (const struct gd_env_change *c = changes; c->name; c++) {
		strcat(seen, c == changes ? "" : " ");
		sprintf(seen + strlen(seen), c->value ? "%s=" : "-%s", c->name);
		strcat(seen, c->value ? c->value : "");
	}
	assert_string_equal(seen, expected);
	free(changes);
}

static void assert_bound(const struct gd_gpu *gpus, size_t num_gpus, const char *expected)
{
	struct gd_env_change *changes;
	struct gd_error err = {0};
	if (gd_gpu_bind(gpu_pointers(gpus, num_gpus), num_gpus, &changes, &err) < 0)
		fail_msg("%s", err.message);
	assert_changes(changes, expected);
}

static void test_binding_to_no_gpu_sets_the_numbers_alone(void **state)
{
	(void)state;
	struct gd_env_change *changes;
	struct gd_error err = {0};
	assert_int_equal(gpu_bind_none((int[]){7}, 1, &changes, NULL), 0);
	assert_changes(changes, "GPUQ_GPU=7");
	assert_int_equal(gpu_bind_none((int[]){9, 0, 9}, 3, &changes, NULL), 0);
	assert_changes(changes, "GPUQ_GPU=9,0,9");
	assert_int_equal(gpu_bind_none(NULL, 0, &changes, NULL), 0);
	assert_changes(changes, "GPUQ_GPU=");
	assert_int_equal(gpu_bind_none((int[]){0, -1}, 2, &changes, &err), -EINVAL);
	check_contains(err.message, "GPU -1");
}

static void test_binding_sets_the_variables_of_the_vendor(void **state)
{
	(void)state;
	struct gd_gpu nvidia[] = {
		{.vendor = GD_VENDOR_NVIDIA,
			.index = 3,
			.vendor_index = 3,
			.mig_index = -1,
			.known = GD_GPU_KNOWN_UUID,
			.uuid = "GPU-3"},
		{.vendor = GD_VENDOR_NVIDIA, .index = 1, .vendor_index = 1, .mig_index = -1},
		{.vendor = GD_VENDOR_NVIDIA,
			.index = 2,
			.vendor_index = 2,
			.mig_index = 0,
			.known = GD_GPU_KNOWN_UUID,
			.uuid = "MIG-7"},
		{.vendor = GD_VENDOR_NVIDIA, .index = 2, .vendor_index = 2, .mig_index = -1, .mig_enabled = true},
	};
	struct gd_gpu amd[] = {
		{.vendor = GD_VENDOR_AMD,
			.index = 5,
			.vendor_index = 1,
			.mig_index = -1,
			.known = GD_GPU_KNOWN_UUID,
			.uuid = "GPU-ab"},
		{.vendor = GD_VENDOR_AMD, .index = 4, .vendor_index = 0, .mig_index = -1},
	};
	assert_bound(nvidia, 1, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3 GPUQ_GPU=3 -GPUQ_GPUS");
	assert_bound(nvidia, 2, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3,1 GPUQ_GPU=3,1 -GPUQ_GPUS");
	assert_bound(nvidia + 2, 1, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=MIG-7 GPUQ_GPU=2 -GPUQ_GPUS");
	assert_bound(amd, 2,
		"-CUDA_VISIBLE_DEVICES -HIP_VISIBLE_DEVICES -GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES=GPU-ab,0 GPUQ_GPU=5,4 -GPUQ_GPUS");
	assert_bound(NULL, 0, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES= ROCR_VISIBLE_DEVICES= GPUQ_GPU=");
	struct gd_gpu_list *list = fake_machine_list("sim:4");
	assert_bound(list->gpus[2], 1, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=2 GPUQ_GPU=2");
	gd_gpu_list_free(list);

	struct gd_env_change *changes;
	struct gd_error err;
	assert_int_equal(gd_gpu_bind(gpu_pointers(nvidia + 3, 1), 1, &changes, &err), -EINVAL);
	check_contains(err.message, "it is split into MIG instances");
	struct gd_gpu both[] = {nvidia[0], amd[0]};
	assert_int_equal(gd_gpu_bind(gpu_pointers(both, 2), 2, &changes, &err), -EINVAL);
	check_contains(err.message, "GPU 3 and GPU 5: one is nvidia, the other amd");
}

static void test_every_vendor_has_a_name(void **state)
{
	(void)state;
	assert_string_equal(gd_vendor_name(GD_VENDOR_NVIDIA), "nvidia");
	assert_string_equal(gd_vendor_name(GD_VENDOR_AMD), "amd");
	assert_string_equal(gd_vendor_name(GD_VENDOR_SIMULATED), "simulated");
	assert_string_equal(gd_vendor_name((enum gd_vendor)99), "unknown");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fake_machine_setup, fake_machine_teardown)
	const struct CMUnitTest tests[] = {
		T(test_wrong_specifications_say_what_is_wrong),
		T(test_indices_ranges_and_uuids_can_be_listed_together),
		T(test_simulated_gpus_are_all_free),
		T(test_simulated_gpus_of_the_variable_are_the_machine_of_every_function),
		T(test_real_gpus_of_the_variable_are_the_default_selection),
		T(test_wrong_value_of_the_variable_is_an_error_that_names_it),
		T(test_parse_gives_indices_in_the_order_of_the_specification),
		T(test_missing_gpu_is_reported_with_the_existing_ones),
		T(test_uuid_given_in_full_is_not_the_beginning_of_another),
		T(test_get_returns_one_gpu_with_its_mig_instances),
		T(test_validate_says_which_is_wrong),
		T(test_inherited_cuda_visible_devices_limits_the_gpus),
		T(test_mixed_cards_without_pci_order_give_a_warning),
		T(test_binding_sets_the_variables_of_the_vendor),
		T(test_binding_to_no_gpu_sets_the_numbers_alone),
		T(test_every_vendor_has_a_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
