/* SPDX-License-Identifier: MIT */
/* Words as a POSIX shell reads them. */
#ifndef BASE_SHELL_WORDS_H
#define BASE_SHELL_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* Whether a shell reads the bytes as they are: letters, digits and _-./:=,@%+ only. */
bool shell_is_plain(const char *bytes, size_t size);

/* Appends the bytes as one word, quoted if necessary. */
void shell_quote(struct text *t, const char *bytes, size_t size);

/*
 * Splits text into words as a shell does, without expansions; each word is followed by a NUL in `ret`. Returns the
 * number of words; -EINVAL: a quotation mark is not closed; -ENOMEM.
 */
int shell_split(const char *text, struct text *ret);

#endif
