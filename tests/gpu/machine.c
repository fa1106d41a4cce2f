/* SPDX-License-Identifier: MIT */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text.h"

static void must(int ok, const char *what)
{
	if (!ok)
		fail_msg("%s: %s", what, strerror(errno));
}

int machine_setup(void **state)
{
	struct machine *m = calloc(1, sizeof(*m));
	snprintf(m->dir, sizeof(m->dir), "/tmp/gpuq-test-XXXXXX");
	if (!m || !mkdtemp(m->dir))
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
	machine_cards(m, "%s", "");
	*state = m;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int machine_teardown(void **state)
{
	struct machine *m = *state;
	int r = nftw(m->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(m);
	return r;
}

GD_PRINTF(3, 0)
static void write_file(const struct machine *m, const char *path, const char *format, va_list args)
{
	char full[512], fresh[540];
	snprintf(full, sizeof(full), "%s/%s", m->dir, path);
	for (char *slash = strchr(full + strlen(m->dir) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		must(mkdir(full, 0755) == 0 || errno == EEXIST, full);
		*slash = '/';
	}
	/* Renamed into place: the fake reads it whenever it likes. */
	snprintf(fresh, sizeof(fresh), "%s.new", full);
	FILE *f = fopen(fresh, "we");
	must(f != NULL, fresh);
	vfprintf(f, format, args);
	must(fclose(f) == 0 && rename(fresh, full) == 0, full);
}

void machine_write(const struct machine *m, const char *path, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	write_file(m, path, format, args);
	va_end(args);
}

void machine_cards(const struct machine *m, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	write_file(m, "nvml", format, args);
	va_end(args);
}

void machine_use_old(void)
{
	setenv("GPUQ_NVML_LIBRARY", getenv("TEST_NVML_OLD"), 1);
}

struct gd_gpu_list *machine_survey(void)
{
	struct gd_gpu_list *list = NULL;
	struct gd_error err = {0};
	if (gd_gpu_survey(&list, &err) < 0)
		fail_msg("survey: %s", err.message);
	return list;
}

struct gd_gpu_list *machine_list(const char *spec)
{
	struct gd_gpu_list *list = NULL;
	struct gd_error err = {0};
	if (gd_gpu_list(spec, &list, &err) < 0)
		fail_msg("list: %s", err.message);
	return list;
}

void assert_warned(const struct gd_gpu_list *list, const char *words)
{
	for (size_t i = 0; i < list->num_warnings; i++)
		if (strstr(list->warnings[i], words))
			return;
	fail_msg("%zu warnings, none with '%s'; the first: %s", list->num_warnings, words,
		list->num_warnings ? list->warnings[0] : "-");
}

void assert_contains(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("no '%s' in '%s'", words, text);
}
