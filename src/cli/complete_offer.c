/* SPDX-License-Identifier: MIT */
#include "cli/complete_offer.h"

#include "base/display.h"
#include "base/shell_words.h"

#define DESCRIPTION_COLUMNS 60

void complete_offer_begin_list(struct complete_offer *o)
{
	const char *comma = strrchr(o->typed, ',');
	if (comma)
		o->typed = comma + 1;
}

bool complete_offer_is_plain(const char *word)
{
	if (strncmp(word, "~/", 2) == 0)
		word += 2;
	return shell_is_plain(word, strlen(word));
}

/* The candidate is printed together with the head that the user typed, so both must be plain. */
static bool is_safe(const struct complete_offer *o, const char *candidate)
{
	return *candidate && shell_is_plain(candidate, strlen(candidate)) && complete_offer_is_plain(o->head);
}

void complete_offer_add(struct complete_offer *o, const char *candidate, const char *description, size_t size)
{
	if (strncmp(candidate, o->typed, strlen(o->typed)) != 0 || !is_safe(o, candidate))
		return;
	text_append(&o->out, o->head, (size_t)(o->typed - o->head));
	text_append_string(&o->out, candidate);
	if (description && size) {
		text_append_char(&o->out, '\t');
		display_append(&o->out, description, size, DESCRIPTION_COLUMNS);
	}
	text_append_char(&o->out, '\n');
}

void complete_offer_ask(struct complete_offer *o, const char *what)
{
	text_appendf(&o->out, "\t%s\n", what);
}
