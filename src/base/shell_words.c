/* SPDX-License-Identifier: MIT */
#include "base/shell_words.h"

#include <errno.h>
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

int shell_split(const char *text, struct text *ret)
{
	int count = 0;
	for (const char *p = text;;) {
		p += strspn(p, " \t\n");
		if (!*p)
			return text_error(ret) ? text_error(ret) : count;
		char quote = '\0';
		for (; *p && (quote || !strchr(" \t\n", *p)); p++) {
			if (quote ? *p == quote : *p == '\'' || *p == '"') {
				quote = quote ? '\0' : *p;
			} else if (*p == '\\' && quote != '\'' && p[1]) {
				text_append_char(ret, *++p);
			} else {
				text_append_char(ret, *p);
			}
		}
		if (quote)
			return -EINVAL;
		text_append(ret, "", 1);
		count++;
	}
}
