/* SPDX-License-Identifier: MIT */
/* Sets of CPUs, as the kernel writes them: "0-15,32-47". */
#ifndef BASE_CPU_LIST_H
#define BASE_CPU_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

#define CPU_LIST_MAX 8192

/* Bit n: CPU n. Start from {0}. */
struct cpu_list {
	uint64_t bits[CPU_LIST_MAX / 64];
};

/* Adds the CPUs of the text, which may end with a newline; -EINVAL if it is not a list. */
int cpu_list_parse(const char *text, struct cpu_list *l);
void cpu_list_format(const struct cpu_list *l, struct text *out);

bool cpu_list_is_empty(const struct cpu_list *l);
/* Keeps only CPUs that are in both. */
void cpu_list_intersect(struct cpu_list *l, const struct cpu_list *other);

/* The CPUs that this process may use. */
int cpu_list_get_affinity(struct cpu_list *ret);
/* Restricts this process to these CPUs. Allocates nothing, so it can be called between fork and exec. */
int cpu_list_set_affinity(const struct cpu_list *l);

#endif
