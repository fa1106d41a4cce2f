/* SPDX-License-Identifier: MIT */
/* Makes text from other sources valid UTF-8. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT "\xEF\xBF\xBD"

/*
 * Returns the length of the valid sequence at the beginning of the text (1…4), or 0 if there is none. Overlong forms,
 * surrogates and values above U+10FFFF are not valid. size is at least 1.
 */
size_t utf8_sequence(const char *text, size_t size);

/* Whether the whole text is UTF-8. */
bool utf8_is_valid(const char *text, size_t size);

/* The character of a valid sequence of that length. */
uint32_t utf8_decode(const char *text, size_t length);

/*
 * Whether a character must not be written to a terminal unchanged: terminals interpret control characters, and others
 * change how their neighbors look (direction marks) or are invisible (zero-width characters, tags).
 */
bool utf8_is_deceptive(uint32_t c);

/* Returns the size of the text without an incomplete sequence at its end. */
size_t utf8_whole(const char *text, size_t size);

/*
 * Copies a line of text. Each byte that is not UTF-8 and each control character becomes U+FFFD. Truncated at a whole
 * character if it does not fit; always NUL-terminated. Returns the length of the copy.
 */
size_t utf8_copy_line(char *to, size_t room, const char *text, size_t size);

#endif
