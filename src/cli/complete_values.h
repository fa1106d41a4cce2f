/* SPDX-License-Identifier: MIT */
/* Candidates for the value of an option, by the value's name in --help. */
#ifndef CLI_COMPLETE_VALUES_H
#define CLI_COMPLETE_VALUES_H

#include "cli/complete_line.h"
#include "cli/complete_offer.h"

void complete_values(const struct complete_line *l, struct complete_offer *o);

#endif
