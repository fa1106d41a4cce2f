/* SPDX-License-Identifier: MIT */
#include "support/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_host;

void check_become_host(void)
{
	is_host = true;
}

void check_failed(const char *file, int line, const char *what)
{
	if (is_host) {
		fprintf(stderr, "%s:%d: in a host: %s\n", file, line, what);
		_exit(1);
	}
	print_error("%s:%d: %s\n", file, line, what);
	_fail(file, line);
	abort();
}

void check_equal_at(long long a, long long b, const char *file, int line, const char *what)
{
	char words[256];
	if (a == b)
		return;
	snprintf(words, sizeof(words), "%s: %lld and %lld", what, a, b);
	check_failed(file, line, words);
}

void check_contains_at(const char *text, const char *words, const char *file, int line)
{
	char message[2048];
	if (strstr(text, words))
		return;
	snprintf(message, sizeof(message), "'%s' is not in: %s", words, text);
	check_failed(file, line, message);
}

size_t check_occurrences(const char *text, const char *words)
{
	size_t count = 0;
	for (const char *p = text; (p = strstr(p, words)); p++)
		count++;
	return count;
}
