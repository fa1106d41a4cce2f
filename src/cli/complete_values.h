/* SPDX-License-Identifier: MIT */
/* Candidates for the value of an option, by what --help calls that value. */
#ifndef CLI_COMPLETE_VALUES_H
#define CLI_COMPLETE_VALUES_H

#include "cli/complete_line.h"
#include "cli/complete_offer.h"

void complete_values(const struct complete_line *l, struct complete_offer *o);

#endif
