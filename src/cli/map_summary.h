/* SPDX-License-Identifier: MIT */
/* The end of gpuq map, for people and for programs. */
#ifndef CLI_MAP_SUMMARY_H
#define CLI_MAP_SUMMARY_H

#include <stdio.h>

#include "launch/map.h"

/* 0 or -ENOMEM. */
int map_summary_print(const struct map_summary *s, FILE *out);
/* One JSON object and a newline. */
int map_summary_write_json(const struct map_summary *s, int fd);

#endif
