/* SPDX-License-Identifier: MIT */
/* Filling in the public struct gd_error. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>

#include "gpu_dispatch.h"

/*
 * Writes the code and the message into err, unless err is NULL. Returns code, so a function can fail with `return
 * error_set(err, -ENODEV, "…", …);`.
 */
int error_set(struct gd_error *err, int code, const char *format, ...) GD_PRINTF(3, 4);
int error_vset(struct gd_error *err, int code, const char *format, va_list args) GD_PRINTF(3, 0);

/* "No such file or directory" for -ENOENT; like strerror(), but thread-safe. */
const char *error_words(int code);

#endif
