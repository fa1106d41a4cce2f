/* SPDX-License-Identifier: MIT */
/* Prints the candidates of `gpuq complete` that begin with the typed text. */
#ifndef CLI_COMPLETE_OFFER_H
#define CLI_COMPLETE_OFFER_H

#include <stddef.h>

#include "base/text.h"

struct complete_offer {
	struct text out;
	const char *head;  /* the word to complete… */
	const char *typed; /* …and its end, which candidates replace */
};

/* For comma-separated lists: completes the part after the last comma, but prints the whole word. */
void complete_offer_begin_list(struct complete_offer *o);

/* description: may be NULL. A candidate that a terminal could not show unchanged is left out. */
void complete_offer_add(struct complete_offer *o, const char *candidate, const char *description, size_t size);
/* "\tfiles" and so on, see complete.h. */
void complete_offer_ask(struct complete_offer *o, const char *what);

#endif
