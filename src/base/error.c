/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

int error_vset(struct gd_error *err, int code, const char *format, va_list args)
{
	if (err) {
		err->code = code;
		vsnprintf(err->message, sizeof(err->message), format, args);
	}
	return code;
}

int error_set(struct gd_error *err, int code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	error_vset(err, code, format, args);
	va_end(args);
	return code;
}

const char *error_words(int code)
{
	/* Callers may pass any code, even INT_MIN. */
	const char *words = strerrordesc_np(code < 0 && code >= -INT_MAX ? -code : code);
	return words ? words : "unknown error";
}
