/* SPDX-License-Identifier: MIT */
/* Which file names are wanted: shell patterns. A name is wanted if one of them matches. */
#ifndef LAUNCH_FIND_PATTERN_H
#define LAUNCH_FIND_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch.h"

struct find_pattern {
	const char *text;
	size_t length;
	bool suffix; /* "*" followed by literal text */
};

/* Start from {0}. */
struct find_patterns {
	struct find_pattern *list;
	size_t count;
};

/* -EINVAL with the reason for a pattern that cannot match any name. */
int find_check_pattern(const char *pattern, struct gd_error *err);

/* Without texts: *.wav. The texts are borrowed and must outlive the patterns. -EINVAL, -ENOMEM. */
int find_patterns_init(struct find_patterns *p, const char *const *texts, size_t count, struct gd_error *err);
void find_patterns_finish(struct find_patterns *p);
bool find_patterns_match(const struct find_patterns *p, const char *name, size_t length);

#endif
