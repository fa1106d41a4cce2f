/* SPDX-License-Identifier: MIT */
/* Shared by trust.c and trust_walk.c. */
#ifndef BASE_TRUST_PRIVATE_H
#define BASE_TRUST_PRIVATE_H

#include <stdbool.h>
#include <sys/stat.h>

/* The kernel's limit on symbolic links in a path. */
#define TRUST_MAX_LINKS 40

/* Whether the file belongs to the effective user or root. */
bool trust_is_ours(const struct stat *st);

#endif
