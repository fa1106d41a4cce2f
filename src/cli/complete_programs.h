/* SPDX-License-Identifier: MIT */
/* Candidates for a word that is a command or text for a shell: programs, folders and files with plain names. */
#ifndef CLI_COMPLETE_PROGRAMS_H
#define CLI_COMPLETE_PROGRAMS_H

#include "cli/complete_offer.h"

/* with_files: also offers files that are not executable, such as scripts for `gpuq add`. */
void complete_programs(bool with_files, struct complete_offer *o);

#endif
