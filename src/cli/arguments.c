/* SPDX-License-Identifier: MIT */
#include "cli/arguments.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/exit_code.h"
#include "cli/say.h"

/* The stream in place of stderr while arguments are parsed; else `stream` is NULL. */
static struct {
	FILE *stream;
	FILE *to;
	char **argv;
	struct text written; /* all messages: the stream writes a long one in several parts */
} filter;

/* The length of the option at the beginning of `data`, if it is a word of the command line that contains a newline. */
static size_t option_with_newline(const char *data, size_t size)
{
	for (char **word = filter.argv; data[0] == '-' && *word; word++) {
		size_t length = (*word)[0] == '-' ? strlen(*word) : 0;
		if (length > 0 && length <= size && memcmp(*word, data, length) == 0 && strchr(*word, '\n'))
			return length;
	}
	return 0;
}

/* Whether the character is an option without its dash, "invalid option -- 'x'". */
static bool is_quoted(const char *data, size_t at, size_t size)
{
	return at > 0 && at + 1 < size && data[at - 1] == '\'' && data[at + 1] == '\'';
}

/* Newlines are not escaped, except in an option that getopt rejects: there, a newline is part of the option. */
static void print_escaped(const char *data, size_t size)
{
	cleanup_(text_finish) struct text out = {0};
	for (size_t at = 0, n; at < size; at += n) {
		n = is_quoted(data, at, size) ? 1 : option_with_newline(data + at, size - at);
		if (n > 0) {
			display_append(&out, data + at, n, DISPLAY_ALL);
		} else if (data[at] == '\n') {
			text_append_char(&out, '\n');
			n = 1;
		} else {
			n = display_append_first(&out, data + at, size - at);
		}
	}
	fputs(text_error(&out) ? "out of memory\n" : text_string(&out), filter.to);
}

static ssize_t keep(void *context, const char *data, size_t size)
{
	(void)context;
	text_append(&filter.written, data, size);
	return text_error(&filter.written) ? 0 : (ssize_t)size;
}

static void filter_end(void)
{
	if (!filter.stream)
		return;
	stderr = filter.to;
	fclose(filter.stream);
	filter.stream = NULL;
	print_escaped(text_string(&filter.written), filter.written.length);
	text_finish(&filter.written);
	filter.written = (struct text){0};
}

static error_t parse_escaped(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
	/* argp ends the program after a message, or after --help. Later messages, such as that of output.h, do not pass
	 * the filter. */
	if (atexit(filter_end) != 0)
		return ENOMEM;
	filter.stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = keep});
	if (!filter.stream)
		return ENOMEM;
	filter.to = stderr;
	filter.argv = argv;
	/* There is no other way to redirect the messages of getopt. */
	stderr = filter.stream;
	error_t e = argp_parse(argp, argc, argv, flags, NULL, input);
	filter_end();
	return e;
}

void arguments_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
	error_t e = parse_escaped(argp, argc, argv, flags, input);
	if (e) {
		say("cannot read the command line: %s", error_words(e));
		exit(EXIT_USAGE);
	}
}

void arguments_error(const struct argp_state *state, const char *format, ...)
{
	cleanup_(text_finish) struct text words = {0}, shown = {0};
	va_list args;
	va_start(args, format);
	text_vappendf(&words, format, args);
	va_end(args);
	display_append(&shown, text_string(&words), words.length, DISPLAY_ALL);
	argp_error(state, "%s", text_string(&shown));
}
