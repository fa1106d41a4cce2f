/* SPDX-License-Identifier: MIT */
/*
 * A fake machine for one test: its own directory with a fake NVML, described by a file, and a sysfs tree. The
 * environment points the real code there.
 */
#ifndef TESTS_GPU_FAKE_MACHINE_H
#define TESTS_GPU_FAKE_MACHINE_H

#include "gpu_dispatch.h"
#include "support/check.h"
#include "support/scratch.h"

struct fake_machine {
	char dir[SCRATCH_PATH_SIZE];
};

/* For cmocka: `setup` and `teardown` of a test; *state becomes a struct fake_machine. No cards, no AMD. */
int fake_machine_setup(void **state);
int fake_machine_teardown(void **state);

/* Writes a file of the machine, with its directories; replaces it atomically. */
void fake_machine_write(const struct fake_machine *m, const char *path, const char *format, ...) GD_PRINTF(3, 4);
/* Sets the cards of the fake NVML; the library is the new one, or after fake_machine_use_old() the old one. */
void fake_machine_cards(const struct fake_machine *m, const char *format, ...) GD_PRINTF(2, 3);
void fake_machine_use_old(void);

/* A survey or a list, which must succeed. */
struct gd_gpu_list *fake_machine_survey(void);
struct gd_gpu_list *fake_machine_list(const char *spec);

/* Checks that there is a warning that contains the words. */
void fake_machine_assert_warned(const struct gd_gpu_list *list, const char *words);

#endif
