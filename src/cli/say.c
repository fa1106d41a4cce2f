/* SPDX-License-Identifier: MIT */
#include "cli/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "cli/exit_code.h"

static say_line_fn *diverted_to;
static void *diverted_context;

void say_divert(say_line_fn *fn, void *context)
{
	diverted_to = fn;
	diverted_context = context;
}

static void say_text(const char *before, const char *words)
{
	/* Messages may quote untrusted text: names, paths, the environment. */
	cleanup_(text_finish) struct text line = {0};
	text_append_string(&line, before);
	display_append(&line, words, strlen(words), DISPLAY_ALL);
	text_append_char(&line, '\n');
	if (diverted_to) {
		diverted_to(diverted_context, text_string(&line), line.length);
		return;
	}
	fflush(stdout);
	fputs(text_string(&line), stderr);
}

void say(const char *format, ...)
{
	cleanup_(text_finish) struct text words = {0};
	va_list args;
	va_start(args, format);
	text_vappendf(&words, format, args);
	va_end(args);
	say_text("gpuq: ", text_string(&words));
}

void say_warnings(const struct gd_gpu_list *list)
{
	for (size_t i = 0; i < list->num_warnings; i++)
		say_text("gpuq: warning: ", list->warnings[i]);
}

int say_error(const struct gd_error *err)
{
	say_text("gpuq: ", err->message);
	return err->code == -EINVAL || err->code == -ENODEV ? EXIT_USAGE : EXIT_WORK_FAILED;
}
