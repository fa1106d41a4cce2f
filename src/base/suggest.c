/* SPDX-License-Identifier: MIT */
#include "base/suggest.h"

#include <stdbool.h>
#include <string.h>

/* Longer words are not compared: no known word is that long. */
#define LONGEST 40

static char fold(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return c == '-' ? '_' : c;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;
	return m < c ? m : c;
}

/* How many letters to insert, delete or replace, or neighbors to swap. */
static unsigned distance(const char *a, size_t la, const char *b, size_t lb)
{
	unsigned rows[3][LONGEST + 1];
	unsigned *before = rows[0], *last = rows[1], *row = rows[2];
	for (size_t j = 0; j <= lb; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			bool same = fold(a[i - 1]) == fold(b[j - 1]);
			row[j] = min3(last[j] + 1, row[j - 1] + 1, last[j - 1] + !same);
			if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]) &&
				before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
		unsigned *spare = before;
		before = last;
		last = row;
		row = spare;
	}
	return last[lb];
}

const char *suggest(const char *word, const char *const *words, size_t count)
{
	size_t length = strlen(word);
	if (length == 0 || length > LONGEST)
		return NULL;
	const char *nearest = NULL;
	unsigned least = (unsigned)length / 3 + 1;
	for (size_t i = 0; i < count; i++) {
		size_t n = strlen(words[i]);
		if (n > LONGEST)
			continue;
		unsigned d = distance(word, length, words[i], n);
		if (d <= least && d < length && (!nearest || d < least)) {
			nearest = words[i];
			least = d;
		}
	}
	if (nearest)
		return nearest;
	/* "min_free_mem" for "min_free_mem_mb": many letters differ, but the meaning is clear. */
	for (size_t i = 0; i < count && length >= 3; i++)
		if (!strncmp(words[i], word, length))
			return words[i];
	return NULL;
}
