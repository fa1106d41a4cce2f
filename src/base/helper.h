/* SPDX-License-Identifier: MIT */
/*
 * Finds the helper programs that our own programs and the library execute: gpuq-probe, gpuq-launch…
 *
 * A helper next to our own file is executed only if no other user could have put it there (base/trust.h), or with
 * GPUQ_TRUST=1.
 */
#ifndef BASE_HELPER_H
#define BASE_HELPER_H

#include <stddef.h>

#include "gpu_dispatch.h"

/*
 * Finds the path of the helper `name`. If the environment variable `variable` is set, this is its value, an absolute
 * path that the user trusts. Otherwise it is the helper in helper_directory(), if that is trusted, or in the directory
 * of the installation.
 *
 * -ENOPKG: the helper is not installed; -EPERM: only an untrusted one was found; -EINVAL, -ENOENT…: the variable is
 * wrong. The message names the refused file, the reason, and what to do.
 */
int helper_find(const char *name, const char *variable, char *ret, size_t size, struct gd_error *err);

/* The real directory of the file that contains this code: the shared library, or a program that it is linked into. */
int helper_directory(char *ret, size_t size);

#endif
