/* SPDX-License-Identifier: MIT */
/*
 * The settings of a pool, packed into one sealed memfd that all of its workers map
 * read-only: a table of entries, then keys and values. Each value is aligned for any type and followed by a NUL, so
 * that it can be used as a string.
 */
#ifndef POOL_SETTINGS_H
#define POOL_SETTINGS_H

#include "gpu_dispatch.h"

struct settings; /* the mapping */

/* The bytes of a setting's value, without the NUL after it. */
size_t setting_size(const struct gd_setting *s);

/* Packs them. The caller closes the descriptor. -E2BIG: more than memory can hold. */
int settings_pack(const struct gd_setting *settings, size_t num_settings, int *ret_fd);

/*
 * Maps the memfd of settings_pack() until the process ends; the descriptor may be closed afterwards. -EPROTO if it is
 * not sealed or inconsistent.
 */
int settings_map(int fd, const struct settings **ret);

/* The value of a key; the first one if there are several. False if there is none. */
bool settings_find(const struct settings *s, const char *key, struct gd_bytes *ret);

#endif
