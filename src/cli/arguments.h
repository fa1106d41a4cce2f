/* SPDX-License-Identifier: MIT */
/*
 * argp for arguments that may be names of other users' files, because a shell has expanded a pattern: messages of
 * getopt, argp and parsers show control characters as \n, \x1b.
 */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include <argp.h>

#include "gpu_dispatch.h"

/*
 * argp_parse(); an error of argp itself ends the program with EXIT_USAGE. Meanwhile, `stderr` is a stream that escapes
 * control characters.
 */
void arguments_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

/* argp_error(), for messages that contain text of the user. Ends the program. */
void arguments_error(const struct argp_state *state, const char *format, ...) GD_PRINTF(2, 3);

#endif
