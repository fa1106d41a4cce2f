/* SPDX-License-Identifier: MIT */
/* "Did you mean …": the known word nearest to one that was mistyped. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/*
 * The word of words[0…count) nearest to `word`, or NULL if none is near enough. Ignores case and the difference between
 * - and _.
 */
const char *suggest(const char *word, const char *const *words, size_t count);

#endif
