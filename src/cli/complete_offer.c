/* SPDX-License-Identifier: MIT */
#include "cli/complete_offer.h"

#include "base/cleanup.h"
#include "base/display.h"

#define DESCRIPTION_COLUMNS 60

void complete_offer_begin_list(struct complete_offer *o)
{
	const char *comma = strrchr(o->typed, ',');
	if (comma)
		o->typed = comma + 1;
}

/* Names come from a journal: only plain text may be shown or inserted. */
static bool is_plain(const char *candidate)
{
	cleanup_(text_finish) struct text shown = {0};
	display_append(&shown, candidate, strlen(candidate), DISPLAY_ALL);
	return *candidate && strcmp(text_string(&shown), candidate) == 0;
}

void complete_offer_add(struct complete_offer *o, const char *candidate, const char *description, size_t size)
{
	if (strncmp(candidate, o->typed, strlen(o->typed)) != 0 || !is_plain(candidate))
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
