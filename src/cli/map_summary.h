/* SPDX-License-Identifier: MIT */
/* The results of gpuq map, as text and as JSON. */
#ifndef CLI_MAP_SUMMARY_H
#define CLI_MAP_SUMMARY_H

#include <stdio.h>

#include "base/text.h"
#include "launch/map.h"

/* 0 or -ENOMEM. */
int map_summary_print(const struct map_summary *s, FILE *out);
/* One JSON object and a newline. */
void map_summary_format(struct text *t, const struct map_summary *s);

#endif
