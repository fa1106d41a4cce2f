/* SPDX-License-Identifier: MIT */
/* Files below /sys, or below the directory that replaces it in tests. */
#ifndef GPU_SYSFS_H
#define GPU_SYSFS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

/* A descriptor of root/path, or -errno. */
int sysfs_open(const char *root, const char *path, int flags);

/* The directory root/path, or NULL. */
DIR *sysfs_opendir(const char *root, const char *path);

/* A file that holds one number, decimal or 0x…; false if there is no such file or number. */
bool sysfs_read_number(int dir, const char *path, int64_t *ret);

#endif
