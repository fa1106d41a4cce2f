/* SPDX-License-Identifier: MIT */
#include "base/code_word.h"

#include <stdint.h>
#include <string.h>

#include "base/code_place.h"

/* Characters that separate the parts of an argument such as "{dir}:/in:ro". */
static const char separators[] = ",:=";

static unsigned separator_bit(char c)
{
	const char *at = c ? strchr(separators, c) : NULL;
	return at ? 1u << (at - separators) : 0;
}

static bool is_simple(char c)
{
	return (unsigned char)c >= 0x80 || place_is_simple(&c, 1);
}

static void begin_word(struct code_word *w, bool is_value)
{
	*w = (struct code_word){.quote = w->quote, .lost = w->lost, .is_value = is_value};
}

/* "--option" */
static bool is_option(const struct code_word *w)
{
	return !w->is_value && w->dashes == 2 && w->length > 2;
}

static void add_to_word(struct code_word *w, char c)
{
	if (c == '=' && is_option(w)) {
		begin_word(w, true);
		return;
	}
	if (c == '-' && w->dashes == w->length && w->dashes < 2)
		w->dashes++;
	else if (w->quote || !is_simple(c) || strchr("./+", c))
		w->dashes = SIZE_MAX;
	w->is_odd |= !is_simple(c);
	w->has_slash |= c == '/';
	w->length++;
}

/* False: see code_word_add_text(). */
static bool add_character(struct code_word *w, char c)
{
	if (c == '\\' || c == '#' || c == '`') {
		w->lost = true;
	} else if (c == w->quote) {
		w->quote = 0;
	} else if (!w->quote && (c == '\'' || c == '"')) {
		w->quote = c;
	} else if (!w->quote && c && strchr(" \t\n<>|&;()", c)) {
		begin_word(w, false);
	} else {
		bool separates = w->separators & separator_bit(c);
		add_to_word(w, c);
		return !separates;
	}
	return true;
}

bool code_word_add_text(struct code_word *w, const char *text, size_t size)
{
	bool fine = true;
	for (size_t i = 0; i < size; i++)
		fine &= add_character(w, text[i]);
	return fine;
}

bool code_word_add_name(struct code_word *w, const char *name, size_t size)
{
	bool fine = !w->lost && !w->is_odd && (w->length == 0 || w->has_slash);
	for (size_t i = 0; i < size; i++)
		w->separators |= separator_bit(name[i]);
	w->has_slash |= memchr(name, '/', size) != NULL;
	w->dashes = SIZE_MAX;
	w->length += size;
	return fine;
}
