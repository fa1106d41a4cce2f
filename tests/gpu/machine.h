/* SPDX-License-Identifier: MIT */
/*
 * A made-up machine for one test: a directory of its own, a fake NVML described
 * by a file in it, a sysfs tree beside. The environment points the real code there.
 */
#ifndef TESTS_MACHINE_H
#define TESTS_MACHINE_H

#include "gpu_dispatch.h"

struct machine {
	char dir[64];
};

/* For cmocka: `setup` and `teardown` of a test; *state becomes a struct machine. No cards, no AMD. */
int machine_setup(void **state);
int machine_teardown(void **state);

/* A file of the machine, with its directories: replaced as a whole, at once. */
void machine_write(const struct machine *m, const char *path, const char *format, ...) GD_PRINTF(3, 4);
/* What the fake NVML shows; the library is the new one, or with machine_use_old() the old one. */
void machine_cards(const struct machine *m, const char *format, ...) GD_PRINTF(2, 3);
void machine_use_old(void);

/* The survey or a list, which must succeed. */
struct gd_gpu_list *machine_survey(void);
struct gd_gpu_list *machine_list(const char *spec);

/* The one warning that contains the words; fails where there is none. */
void assert_warned(const struct gd_gpu_list *list, const char *words);
void assert_contains(const char *text, const char *words);

#endif
