/* SPDX-License-Identifier: MIT */
/*
 * Prints the candidates of `gpuq complete` that begin with the typed text.
 *
 * The scripts of the shells insert these words into a command line, and other users may have chosen them: names in a
 * journal, programs. So each word consists of the characters of shell_is_plain(), which no shell evaluates in any
 * context; other candidates are left out. A word may begin with "~/" if the user typed that.
 */
#ifndef CLI_COMPLETE_OFFER_H
#define CLI_COMPLETE_OFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

struct complete_offer {
	struct text out;
	const char *head;  /* the word to complete… */
	const char *typed; /* …and its end, which candidates replace */
};

/* For comma-separated lists: completes the part after the last comma, but prints the whole word. */
void complete_offer_begin_list(struct complete_offer *o);

bool complete_offer_is_plain(const char *word);

/* description: may be NULL, and may contain anything. */
void complete_offer_add(struct complete_offer *o, const char *candidate, const char *description, size_t size);
/* "\tfiles" and so on, see complete.h. */
void complete_offer_ask(struct complete_offer *o, const char *what);

#endif
