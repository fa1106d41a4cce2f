/* SPDX-License-Identifier: MIT */
/*
 * A made-up machine for one test: a directory of its own, a fake NVML described
 * by a file in it, a sysfs tree beside. The environment points the real code there.
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

/* A file of the machine, with its directories: replaced as a whole, at once. */
void fake_machine_write(const struct fake_machine *m, const char *path, const char *format, ...) GD_PRINTF(3, 4);
/* What the fake NVML shows; the library is the new one, or with fake_machine_use_old() the old one. */
void fake_machine_cards(const struct fake_machine *m, const char *format, ...) GD_PRINTF(2, 3);
void fake_machine_use_old(void);

/* The survey or a list, which must succeed. */
struct gd_gpu_list *fake_machine_survey(void);
struct gd_gpu_list *fake_machine_list(const char *spec);

/* The one warning that contains the words; fails where there is none. */
void fake_machine_assert_warned(const struct gd_gpu_list *list, const char *words);

#endif
