/* SPDX-License-Identifier: MIT */
/* Candidates as `gpuq complete` prints them: those that begin with what was typed. */
#ifndef CLI_COMPLETE_OFFER_H
#define CLI_COMPLETE_OFFER_H

#include <stddef.h>

#include "base/text.h"

struct complete_offer {
	struct text out;
	const char *head;  /* the word that is completed… */
	const char *typed; /* …and the part of it that candidates take the place of: its end */
};

/* Everything of the word counts; what is completed is what follows the last comma. */
void complete_offer_begin_list(struct complete_offer *o);

/* description: may be NULL. A candidate that a terminal could not show as it is, is left out. */
void complete_offer_add(struct complete_offer *o, const char *candidate, const char *description, size_t size);
/* "\tfiles" and so on, see complete.h. */
void complete_offer_ask(struct complete_offer *o, const char *what);

#endif
