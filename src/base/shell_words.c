/* SPDX-License-Identifier: MIT */
#include "base/shell_words.h"

#include <string.h>

bool shell_is_plain(const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		char c = bytes[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		if (!letter && (!c || !strchr("_-./:=,@%+", c)))
			return false;
	}
	return true;
}

void shell_quote(struct text *t, const char *bytes, size_t size)
{
	if (size > 0 && shell_is_plain(bytes, size)) {
		text_append(t, bytes, size);
		return;
	}
	text_append_char(t, '\'');
	for (size_t i = 0; i < size; i++)
		if (bytes[i] == '\'')
			text_append_string(t, "'\\''");
		else
			text_append_char(t, bytes[i]);
	text_append_char(t, '\'');
}
