/* SPDX-License-Identifier: MIT */
#include "view/report/html.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/display.h"

static const char *entity(char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return NULL;
	}
}

static void append_escaped(struct text *t, const char *s)
{
	for (;;) {
		size_t plain = strcspn(s, "&<>\"'");
		text_append(t, s, plain);
		s += plain;
		if (!*s)
			return;
		text_append_string(t, entity(*s++));
	}
}

void html_text(struct text *t, const char *string, size_t max_columns)
{
	if (!string)
		return;
	cleanup_(text_finish) struct text shown = {0};
	display_append(&shown, string, strlen(string), max_columns);
	append_escaped(t, text_string(&shown));
	if (text_error(&shown))
		t->error = text_error(&shown);
}
