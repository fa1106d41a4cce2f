/* SPDX-License-Identifier: MIT */
#include "cli/debug.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/say.h"

static bool turned_on;

void debug_turn_on(void)
{
	turned_on = true;
}

bool debug_is_on(void)
{
	const char *value = getenv("GPUQ_DEBUG");
	return turned_on || (value && *value && strcmp(value, "0") != 0);
}

void debug_say(const char *format, ...)
{
	cleanup_(text_finish) struct text words = {0};
	va_list args;
	if (!debug_is_on())
		return;
	va_start(args, format);
	text_vappendf(&words, format, args);
	va_end(args);
	say("debug: %s", text_string(&words));
}
