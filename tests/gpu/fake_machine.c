/* SPDX-License-Identifier: MIT */
#include "fake_machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fake_machine_setup(void **state)
{
	struct fake_machine *m = calloc(1, sizeof(*m));
	if (!m || scratch_make(m->dir) < 0)
		return -1;
	char path[128];
	snprintf(path, sizeof(path), "%s/nvml", m->dir);
	setenv("FAKE_NVML", path, 1);
	snprintf(path, sizeof(path), "%s/loaded", m->dir);
	setenv("FAKE_NVML_LOG", path, 1);
	snprintf(path, sizeof(path), "%s/sys", m->dir);
	setenv("GPUQ_SYSFS_ROOT", path, 1);
	setenv("GPUQ_NVML_LIBRARY", getenv("TEST_NVML_NEW"), 1);
	static const char *const unwanted[] = {"GPUQ_GPUS", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
		"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "FAKE_NVML_GROWING"};
	for (size_t i = 0; i < sizeof(unwanted) / sizeof(*unwanted); i++)
		unsetenv(unwanted[i]);
	fake_machine_cards(m, "%s", "");
	*state = m;
	return 0;
}

int fake_machine_teardown(void **state)
{
	struct fake_machine *m = *state;
	int r = scratch_remove(m->dir);
	free(m);
	return r;
}

GD_PRINTF(3, 0)
static void write_file(const struct fake_machine *m, const char *path, const char *format, va_list args)
{
	char full[512], fresh[540];
	snprintf(full, sizeof(full), "%s/%s", m->dir, path);
	scratch_make_above(full);
	/* Renamed into place, because the fake can read it at any time. */
	snprintf(fresh, sizeof(fresh), "%s.new", full);
	FILE *f = fopen(fresh, "we");
	check_true(f != NULL);
	vfprintf(f, format, args);
	check_true(fclose(f) == 0 && rename(fresh, full) == 0);
}

void fake_machine_write(const struct fake_machine *m, const char *path, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	write_file(m, path, format, args);
	va_end(args);
}

void fake_machine_cards(const struct fake_machine *m, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	write_file(m, "nvml", format, args);
	va_end(args);
}

void fake_machine_use_old(void)
{
	setenv("GPUQ_NVML_LIBRARY", getenv("TEST_NVML_OLD"), 1);
}

struct gd_gpu_list *fake_machine_survey(void)
{
	struct gd_gpu_list *list = NULL;
	struct gd_error err = {0};
	if (gd_gpu_survey(&list, &err) < 0)
		fail_msg("survey: %s", err.message);
	return list;
}

struct gd_gpu_list *fake_machine_list(const char *spec)
{
	struct gd_gpu_list *list = NULL;
	struct gd_error err = {0};
	if (gd_gpu_list(spec, &list, &err) < 0)
		fail_msg("list: %s", err.message);
	return list;
}

void fake_machine_assert_warned(const struct gd_gpu_list *list, const char *words)
{
	for (size_t i = 0; i < list->num_warnings; i++)
		if (strstr(list->warnings[i], words))
			return;
	fail_msg("%zu warnings, none with '%s'; the first: %s", list->num_warnings, words,
		list->num_warnings ? list->warnings[0] : "-");
}
